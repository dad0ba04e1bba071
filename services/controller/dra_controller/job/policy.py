"""The rules for when a Job has succeeded or failed, and for the meaning of a failed pod. Pure.

Mirrors pkg/controller/job/pod_failure_policy.go, success_policy.go and job_controller.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from dra_shared.api.batch import Job, JobCondition, JobStatus, PodFailurePolicyRule
from dra_shared.api.pod import Pod
from dra_shared.clock import parse_rfc3339

from dra_controller.job.indexes import parse_indexes
from dra_controller.pods import condition, is_terminal

TRACKING = "batch.kubernetes.io/job-tracking"
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def is_indexed(job: Job) -> bool:
    """Return True if each completion has a number of its own."""
    return job.spec.completion_mode == "Indexed"


def has_condition(job: Job, *kinds: str) -> bool:
    """Return True if one of these conditions is True."""
    return any(entry.type in kinds and entry.status == "True" for entry in job.status.conditions)


def outcome(status: JobStatus) -> JobCondition | None:
    """Return the condition that says how the Job will end, once that is certain."""
    return next(
        (
            entry
            for kind in ("SuccessCriteriaMet", "FailureTarget")
            for entry in status.conditions
            if entry.type == kind and entry.status == "True"
        ),
        None,
    )


def is_finished(job: Job) -> bool:
    """Return True if the Job has ended for good."""
    return has_condition(job, "Complete", "Failed")


def waits_for_failure(job: Job) -> bool:
    """Return True if a pod that is being deleted is replaced only when it has ended."""
    return job.spec.pod_replacement_policy == "Failed"


def is_failed(job: Job, pod: Pod) -> bool:
    """Return True if the pod counts as failed for the Job."""
    if pod.status.phase == "Failed":
        return True
    deleted = pod.metadata.deletion_timestamp is not None
    return deleted and pod.status.phase != "Succeeded" and not waits_for_failure(job)


def deadline_left(job: Job, now: datetime) -> float | None:
    """Return the seconds until the active deadline of the Job; None without one, or before the Job started."""
    if job.spec.active_deadline_seconds is None or job.status.start_time is None:
        return None
    end = parse_rfc3339(job.status.start_time) + timedelta(seconds=job.spec.active_deadline_seconds)
    return (end - now).total_seconds()


def index_failures(pod: Pod) -> int:
    """Return how often the index of the pod had failed before the pod was created."""
    text = pod.metadata.annotations.get(FAILURES, "")
    return int(text) if text.isdigit() else 0


def fails_index(job: Job, pod: Pod) -> bool:
    """Return True if the index of a failed pod has no further attempt."""
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return False
    rule = matching_rule(job, pod)
    if rule is not None and rule[1].action == "FailIndex":
        return True
    return index_failures(pod) + 1 > limit


def failure(
    job: Job, pods: Sequence[Pod], failed: int, now: datetime, *, succeeded: set[int], lost: set[int]
) -> tuple[str, str] | None:
    """Return reason and message if the Job has failed.

    ``succeeded`` are the indexes that succeeded, ``lost`` those that failed.
    """
    for pod in pods:
        if is_failed(job, pod) and is_terminal(pod):
            rule = matching_rule(job, pod)
            if rule is not None and rule[1].action == "FailJob":
                return "PodFailurePolicy", _rule_message(pod, *rule)
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    if failed > limit or _restarts_exceed(job, pods, limit):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left = None if job.spec.suspend else deadline_left(job, now)
    if left is not None and left <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    most = job.spec.max_failed_indexes
    if most is not None and len(lost) > most:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return "MaxFailedIndexesExceeded", text
    if lost and len(succeeded | lost) >= (job.spec.completions or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


def met_rule(job: Job, succeeded: set[int]) -> int | None:
    """Return the index of the first rule of the success policy that is satisfied; None if none is."""
    rules = job.spec.success_policy.rules if job.spec.success_policy is not None else ()
    for number, rule in enumerate(rules):
        relevant = succeeded
        wanted = rule.succeeded_count
        if rule.succeeded_indexes:
            named = parse_indexes(rule.succeeded_indexes)
            relevant = succeeded & named
            wanted = len(named) if wanted is None else wanted
        if wanted is not None and len(relevant) >= wanted:
            return number
    return None


def _restarts_exceed(job: Job, pods: Sequence[Pod], limit: int) -> bool:
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    running = [pod for pod in pods if pod.status.phase in ("Running", "Pending")]
    restarts = sum(
        status.restart_count or 0
        for pod in running
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def is_complete(job: Job, succeeded: int, indexes: set[int], active: int) -> bool:
    """Return True if enough pods have succeeded."""
    if job.spec.completions is None:
        return succeeded > 0 and active == 0
    if is_indexed(job):
        return len(indexes) >= job.spec.completions
    return succeeded >= job.spec.completions and active == 0


def matching_rule(job: Job, pod: Pod) -> tuple[int, PodFailurePolicyRule] | None:
    """Return the first rule of the pod failure policy that matches the pod, and the rule's index."""
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate(policy.rules if policy is not None else ()):
        if rule.on_exit_codes is not None:
            if _exit_code(rule, pod) is not None:
                return number, rule
        elif any(
            (found := condition(pod, pattern.type)) is not None and found.status == (pattern.status or "True")
            for pattern in rule.on_pod_conditions
        ):
            return number, rule
    return None


def is_ignored(job: Job, pod: Pod) -> bool:
    """Return True if the failure of the pod does not count towards the backoff limit."""
    rule = matching_rule(job, pod)
    return rule is not None and rule[1].action == "Ignore"


def _exit_code(rule: PodFailurePolicyRule, pod: Pod) -> tuple[str, int] | None:
    codes = rule.on_exit_codes
    assert codes is not None
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = status.state.terminated if status.state is not None else None
        if ended is None or not ended.exit_code or codes.container_name not in ("", status.name):
            continue
        if (ended.exit_code in codes.values) == (codes.operator == "In"):
            return status.name, ended.exit_code
    return None


def _rule_message(pod: Pod, number: int, rule: PodFailurePolicyRule) -> str:
    if rule.on_exit_codes is not None:
        found = _exit_code(rule, pod)
        assert found is not None
        return (
            f"Container {found[0]} for pod {pod.key} failed with exit code {found[1]} "
            f"matching {rule.action} rule at index {number}"
        )
    kinds = [p.type for p in rule.on_pod_conditions if condition(pod, p.type) is not None]
    return f"Pod {pod.key} has condition {kinds[0]} matching {rule.action} rule at index {number}"


def finished_at(pod: Pod) -> datetime | None:
    """Return the time when the last container of the pod ended; None if it is not known."""
    times = [
        parse_rfc3339(status.state.terminated.finished_at)
        for status in pod.status.container_statuses
        if status.state is not None
        and status.state.terminated is not None
        and status.state.terminated.finished_at
    ]
    if times:
        return max(times)
    ready = condition(pod, "Ready")
    text = (ready.last_transition_time if ready is not None else None) or pod.metadata.deletion_timestamp
    return parse_rfc3339(text) if text else None

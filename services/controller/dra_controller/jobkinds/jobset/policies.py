"""The conditions of a JobSet, and its success and failure policy.

Mirrors pkg/controllers/success_policy.go, failure_policy.go and startup_policy.go. The gates of the operator have their
defaults: RestartJob, ElasticJobSet and InPlaceRestart are off.
"""

import re
from collections.abc import Mapping, Sequence

from dra_shared.api.batch import Job, JobCondition
from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.controller import Draft
from dra_controller.jobkinds.jobset.jobs import REPLICATED_JOB, replicas, replicated_jobs

_RESTARTING = "RestartingJobSet"
_EXCLUSIVE = {
    "StartupPolicyInProgress": "StartupPolicyCompleted",
    "StartupPolicyCompleted": "StartupPolicyInProgress",
}


def find_end(job: Job) -> JobCondition | None:
    """Return the condition that says how the Job ended; None while it runs."""
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return condition
    return None


def set_condition(
    draft: Draft, name: str, status: str, reason: str, message: str, *, event: str = "Normal"
) -> None:
    """Set a condition, and record an event if it changed. A condition that is absent is not added with status False."""
    found = draft.condition(name)
    other = draft.condition(_EXCLUSIVE.get(name, ""))
    if other is not None and status == "True":
        other["status"] = "False"
    if found is None and status == "False":
        return
    if draft.set_condition(name, status, reason, message):
        draft.event(event, reason, message)


def stop_restarting(draft: Draft, reason: str, message: str) -> None:
    """Set the condition that the JobSet is no longer restarting."""
    set_condition(draft, _RESTARTING, "False", reason, message)


def is_finished(draft: Draft) -> bool:
    """Return True if the JobSet has completed or failed."""
    return draft.has("Completed") or draft.has("Failed")


def has_succeeded(draft: Draft, successful: Sequence[Job]) -> bool:
    """Return True if the Jobs that count for the success policy have succeeded."""
    policy = draft.obj.spec.get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or ()
    matching = [job for job in successful if not targets or job.metadata.labels[REPLICATED_JOB] in targets]
    if policy.get("operator", "All") == "Any":
        return bool(matching)
    jobs = replicated_jobs(draft.obj)
    return len(matching) >= sum(replicas(one) for one in jobs if not targets or one["name"] in targets)


def complete(draft: Draft) -> None:
    """Set the condition and the state that the JobSet has completed."""
    message = "jobset completed successfully"
    set_condition(draft, "Completed", "True", "AllJobsCompleted", message)
    stop_restarting(draft, "JobSetCompleted", message)
    draft.status["terminalState"] = "Completed"


def _fail(draft: Draft, reason: str, message: str) -> None:
    set_condition(draft, "Failed", "True", reason, message, event="Warning")
    stop_restarting(draft, "JobSetFailed", "jobset failed")
    draft.status["terminalState"] = "Failed"


def apply_failure_policy(draft: Draft, failed: Sequence[Job]) -> None:
    """Fail or restart the JobSet, because Jobs have failed."""
    policy = draft.obj.spec.get("failurePolicy")
    if policy is None:
        _fail(draft, "FailedJobs", _with_job("jobset failed due to one or more job failures", _first(failed)))
        return
    rule, job = None, _first(failed)
    for number, candidate in enumerate(policy.get("rules") or ()):
        matching = [one for one in failed if _applies(candidate, one)]
        if matching:
            rule, job = {"name": f"failurePolicyRule{number}", **candidate}, _first(matching)
            break
    action = rule["action"] if rule is not None else "RestartJobSet"
    if action == "FailJobSet":
        text = "applying FailJobSet failure policy action"
        _fail(draft, "FailJobSetFailurePolicyAction", _with_job(text, job))
    elif action == "RestartJobSetAndIgnoreMaxRestarts":
        _restart(draft, action, rule, job)
    elif draft.status.get("restartsCountTowardsMax", 0) >= policy.get("maxRestarts", 0):
        text = "jobset failed due to reaching max number of restarts"
        _fail(draft, "ReachedMaxRestarts", _with_job(text, job))
    else:
        _restart(draft, "RestartJobSet", rule, job)
        draft.status["restartsCountTowardsMax"] = draft.status.get("restartsCountTowardsMax", 0) + 1


def _restart(draft: Draft, action: str, rule: JsonObject | None, job: Job) -> None:
    draft.status["restarts"] = draft.status.get("restarts", 0) + 1
    message = _with_job(f"applying {action} failure policy action", job)
    reason = f"FailurePolicy_{rule['name']}" if rule is not None else "DefaultFailurePolicy"
    set_condition(draft, _RESTARTING, "True", reason, message, event="Warning")
    draft.event("Warning", f"{action}FailurePolicyAction", message)


def _applies(rule: JsonObject, job: Job) -> bool:
    condition = find_end(job)
    if condition is None:
        return False
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    if reasons and condition.reason not in reasons:
        return False
    if patterns and not any(_matches(pattern, condition.message) for pattern in patterns):
        return False
    targets = rule.get("targetReplicatedJobs")
    return not targets or job.metadata.labels.get(REPLICATED_JOB) in targets


def _matches(pattern: str, message: str) -> bool:
    try:
        return re.search(pattern, message) is not None
    except re.error:
        return False


def _first(failed: Sequence[Job]) -> Job:
    """Return the Job that failed first."""
    return min(failed, key=lambda job: (end.last_transition_time or "") if (end := find_end(job)) else "")


def _with_job(message: str, job: Job) -> str:
    return f"{message} (first failed job: {job.metadata.name})"


def are_replicas_started(replicated: JsonObject, status: Mapping[str, int]) -> bool:
    """Return True if all Jobs of the replicated job are ready or have ended."""
    return replicas(replicated) == status["failed"] + status["ready"] + status["succeeded"]


def are_dependencies_met(replicated: JsonObject, jobs: Sequence[JsonObject], statuses: JsonObject) -> bool:
    """Return True if the replicated jobs that this one depends on have reached the required status.

    Mirrors pkg/controllers/depends_on.go.
    """
    before = {one["name"]: one for one in jobs}
    for dependency in replicated.get("dependsOn") or ():
        other, status = before.get(dependency["name"]), statuses.get(dependency["name"])
        if other is None or status is None:
            return False
        if dependency["status"] == "Complete" and replicas(other) != status["succeeded"]:
            return False
        if dependency["status"] == "Ready" and not are_replicas_started(other, status):
            return False
    return True

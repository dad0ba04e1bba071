"""The Job controller.

Every pod has a finalizer until it is counted. A pod that ended is first listed in
``status.uncountedTerminatedPods``, then loses the finalizer, and then becomes part of the counters, so that a crash at
any point counts it exactly once. Mirrors pkg/controller/job/job_controller.go.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dra_shared.api.batch import Job, JobCondition, JobStatus, UncountedTerminatedPods
from dra_shared.api.container import EnvVar, EnvVarSource
from dra_shared.api.meta import LabelSelector, Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import JOBS, PODS
from dra_shared.api.volume import ObjectFieldSelector
from dra_shared.claims import controller_of
from dra_shared.client.errors import NotFound
from dra_shared.client.events import reference
from dra_shared.client.workqueue import Retry
from dra_shared.clock import rfc3339
from dra_shared.log import logger
from dra_shared.selectors import label_selector
from msgspec.structs import replace

from dra_controller.framework import Context
from dra_controller.job import policy
from dra_controller.job.counting import Tally, count_rest, count_untracked, tally_pods
from dra_controller.job.indexes import INDEX, index_of, parse_indexes
from dra_controller.job.metrics import JobMetrics
from dra_controller.job.policy import TRACKING
from dra_controller.pods import (
    OWNER_INDEX,
    controller_reference,
    is_active,
    is_ready,
    is_terminal,
    pod_from_template,
)
from dra_controller.uids import RecentUids
from dra_controller.workload import WorkloadController, run_all

_FIRST_BACKOFF, _LONGEST_BACKOFF = 10.0, 600.0
_log = logger(__name__)

_MANAGED_BY = "kubernetes.io/job-controller"


@dataclass
class _Backoff:
    failures: int = 0
    last: datetime | None = None


class JobController(WorkloadController):
    """The job-controller of kube-controller-manager."""

    name = "job-controller"
    queue_name = "job"
    owner = JOBS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._backoffs: dict[str, _Backoff] = {}
        self._untracked = RecentUids(4096)
        #: For each key of a Job: the keys of tracked pods whose Job may be gone.
        self._orphans: dict[str, set[str]] = {}
        self._metrics = JobMetrics(context.registry)

    def selector_of(self, owner: Job) -> LabelSelector | None:
        return owner.spec.selector

    def _owner_deleted(self, obj: Object) -> None:
        super()._owner_deleted(obj)
        for pod in self.pods.store.by_index(OWNER_INDEX, obj.metadata.uid):
            self._note_orphan(pod)

    def _enqueue_owner(self, pod: Pod) -> None:
        super()._enqueue_owner(pod)
        self._note_orphan(pod)

    def _note_orphan(self, pod: Pod) -> None:
        owner = controller_of(pod)
        if owner is not None and self._is_orphan(pod):
            self._orphans.setdefault(f"{pod.metadata.namespace}/{owner.name}", set()).add(pod.key)

    def _is_orphan(self, pod: Pod) -> bool:
        """Return True if the Job of a tracked pod is gone."""
        owner = controller_of(pod)
        if owner is None or (owner.kind, owner.api_version) != ("Job", "batch/v1"):
            return False
        job = self.owners.store.get(f"{pod.metadata.namespace}/{owner.name}")
        return self._is_tracked(pod) and (job is None or job.metadata.uid != owner.uid)

    async def _untrack_orphans(self, key: str) -> None:
        """Remove the finalizer from pods whose Job is gone, so that they can be deleted (`syncOrphanPod`)."""
        keys = self._orphans.pop(key)
        pods = [pod for pod in map(self.pods.store.get, sorted(keys)) if pod is not None]
        try:
            await self._untrack([pod for pod in pods if self._is_orphan(pod)])
        except Exception:
            self._orphans.setdefault(key, set()).update(keys)
            raise

    async def reconcile(self, key: str) -> None:
        if key in self._orphans:
            await self._untrack_orphans(key)
        job: Job | None = self.owners.store.get(key)
        if job is None:
            return
        if job.spec.managed_by not in ("", _MANAGED_BY):
            return
        # Ask before reading the pods. If all expected changes have been observed by now, the read includes them.
        settled = self.is_settled(job)
        pods = await self.pod_ownership.claim(job, job.spec.selector, self.pods.store)
        if policy.is_finished(job) or job.metadata.deletion_timestamp is not None:
            self._backoffs.pop(job.metadata.uid, None)
            await self._untrack([pod for pod in pods if self._is_tracked(pod)])
            return
        if self._has_news(job, pods):
            # The informer may not know yet which pods lost the finalizer, by another replica or a patch
            # without an answer. The Job is written only if it has not changed since it was read, so a pod
            # that has the finalizer now is not counted yet.
            pods = await self._live(job)
        job = await self._count(job, pods, settled=settled)
        if settled and not policy.is_finished(job):
            await self._manage(job, pods)

    async def _count(self, job: Job, pods: Sequence[Pod], *, settled: bool) -> Job:
        """Update the numbers of ended and running pods and, if all expected pods were observed, the outcome."""
        now = self._clock.now()
        tracked = {pod.metadata.uid: pod for pod in pods if self._is_tracked(pod)}
        tally = tally_pods(job, pods, tracked)
        self._note_backoff(job, tally.ended.succeeded, tally.ended.failed)
        status = tally.status
        if status.start_time is None and not job.spec.suspend:
            status = replace(status, start_time=rfc3339(now))
        # As upstream: pods that were created and that the informer does not have yet must end as well.
        outcome = self._outcome(job, pods, tally, now) if settled else None
        status = self._judge(job, status, outcome, now)
        tally = dataclasses.replace(tally, status=status)
        status, rest = count_rest(job, tally, tracked)
        job = await self._write(job, status)
        job = await self._untrack_counted(job, [*tally.ended.ignored, *rest], tracked)
        if policy.outcome(status) is not None and tally.active and settled:
            # Not earlier, because a pod that is being deleted and has the finalizer counts as failed.
            await self.delete_pods(job, tally.active)
        left = policy.deadline_left(job, now)
        if left is not None and left > 0 and not policy.is_finished(job):
            self.queue.add_after(job.key, left)
        return await self._conclude(job)

    async def _untrack_counted(self, job: Job, others: Sequence[Pod], tracked: Mapping[str, Pod]) -> Job:
        """Remove the finalizer from the listed pods and from ``others``, and add the listed ones to the counters."""
        listed = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
        ended = [pod for uid, pod in tracked.items() if uid in listed.succeeded or uid in listed.failed]
        if not ended and not others:
            return job
        await self._untrack([*ended, *(pod for pod in others if pod not in ended)])
        left = tracked.keys() - {pod.metadata.uid for pod in ended}
        return await self._write(job, count_untracked(job.status, listed, left))

    def _outcome(
        self, job: Job, pods: Sequence[Pod], tally: Tally, now: datetime
    ) -> tuple[str, str, str] | None:
        """Return the condition with which the Job will end, with reason and message; None while this is undecided."""
        active = sum(is_active(pod) for pod in pods)
        rule = policy.met_rule(job, tally.indexes)
        if rule is not None:
            return "SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {rule}"
        reason = policy.failure(job, pods, tally.failed, now, succeeded=tally.indexes, lost=tally.lost)
        if reason is not None:
            return "FailureTarget", *reason
        if policy.is_complete(job, tally.succeeded, tally.indexes, active):
            return "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _judge(
        self, job: Job, status: JobStatus, outcome: tuple[str, str, str] | None, now: datetime
    ) -> JobStatus:
        """Return ``status`` with the interim condition (FailureTarget or SuccessCriteriaMet) for the outcome."""
        if policy.has_condition(job, "FailureTarget", "SuccessCriteriaMet"):
            return status
        if outcome is not None:
            kind, reason, message = outcome
            return _with(status, now, kind, "True", reason, message)
        suspended = next((c for c in status.conditions if c.type == "Suspended"), None)
        involved = reference(JOBS, job)
        if job.spec.suspend and (suspended is None or suspended.status != "True"):
            self.recorder.event(involved, "Normal", "Suspended", "Job suspended")
            status = _with(status, now, "Suspended", "True", "JobSuspended", "Job suspended")
            return replace(status, start_time=None)
        if not job.spec.suspend and suspended is not None and suspended.status == "True":
            self.recorder.event(involved, "Normal", "Resumed", "Job resumed")
            status = _with(status, now, "Suspended", "False", "JobResumed", "Job resumed")
            return replace(status, start_time=rfc3339(now))
        return status

    async def _conclude(self, job: Job) -> Job:
        """Set the final condition once the outcome is certain and no pod is left."""
        target = policy.outcome(job.status)
        if target is None:
            return job
        uncounted = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
        if job.status.terminating or uncounted.failed or uncounted.succeeded:
            return job
        now = self._clock.now()
        succeeded = target.type == "SuccessCriteriaMet"
        kind = "Complete" if succeeded else "Failed"
        status = _with(job.status, now, kind, "True", target.reason, target.message)
        status = replace(status, active=None, ready=0, uncounted_terminated_pods=UncountedTerminatedPods())
        if succeeded:
            status = replace(status, completion_time=rfc3339(now))
        job = await self._write(job, status)
        involved = reference(JOBS, job)
        self._metrics.count_finished(job, succeeded=succeeded, reason=target.reason)
        if succeeded:
            self.recorder.event(involved, "Normal", "Completed", "Job completed")
        else:
            self.recorder.event(involved, "Warning", target.reason, target.message)
        return job

    async def _manage(self, job: Job, pods: Sequence[Pod], *, fresh: bool = False) -> None:
        """Create or delete pods until the right number runs.

        If the view is not ``fresh``, read the pods and the Job from the API server first.
        """
        if policy.has_condition(job, "FailureTarget", "SuccessCriteriaMet"):
            return
        active = [pod for pod in pods if is_active(pod)]
        if job.spec.suspend:
            await self._drop(job, active)
            return
        parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
        uncounted = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
        succeeded = (job.status.succeeded or 0) + len(uncounted.succeeded)
        if job.spec.completions is None:
            wanted = len(active) if succeeded else parallelism
        else:
            done = succeeded
            if policy.is_indexed(job):
                done = len(
                    parse_indexes(job.status.completed_indexes) | parse_indexes(job.status.failed_indexes)
                )
            wanted = min(max(0, job.spec.completions - done), parallelism)
        if len(active) > wanted:
            if not fresh:
                await self._manage_fresh(job)
                return
            await self._drop(job, sorted(active, key=_rank)[: len(active) - wanted])
            return
        occupied = len(active)
        if policy.waits_for_failure(job):
            occupied += job.status.terminating or 0
        missing = wanted - occupied
        if missing <= 0:
            return
        wait = self._backoff_left(job)
        if wait > 0:
            self.queue.add_after(job.key, wait)
            return
        if not fresh:
            await self._manage_fresh(job)
            return
        await self.create_pods(job, self._new_pods(job, pods, missing))

    async def _manage_fresh(self, job: Job) -> None:
        """Manage the pods that exist now.

        Raises:
            Retry: the stored Job may have counted more pods than ``job`` has.
        """
        live = await self._client.get(JOBS, job.metadata.name, job.metadata.namespace)
        if live.metadata.resource_version != job.metadata.resource_version:
            raise Retry(f"job {job.key} changed")
        pods = await self._live(job)
        if self._has_news(replace(job, status=replace(job.status, uncounted_terminated_pods=None)), pods):
            raise Retry(f"job {job.key} has pods that ended meanwhile")
        await self._manage(job, pods, fresh=True)

    def _new_pods(self, job: Job, pods: Sequence[Pod], number: int) -> list[Pod]:
        owner = controller_reference(JOBS, job)
        pod = pod_from_template(job.spec.template, owner)
        meta = replace(pod.metadata, finalizers=(*pod.metadata.finalizers, TRACKING))
        pod = replace(pod, metadata=meta)
        if not policy.is_indexed(job):
            return [pod] * number
        taken = parse_indexes(job.status.completed_indexes) | parse_indexes(job.status.failed_indexes)
        failures: dict[int, int] = {}
        for other in pods:
            index = index_of(other)
            if index is not None and policy.is_failed(job, other):
                failures[index] = max(failures.get(index, 0), policy.index_failures(other) + 1)
            if index is not None and (
                is_active(other) or (policy.waits_for_failure(job) and not is_terminal(other))
            ):
                taken.add(index)
        free = [index for index in range(job.spec.completions or 0) if index not in taken]
        return [_with_index(pod, job, index, failures.get(index, 0)) for index in free[:number]]

    def _note_backoff(self, job: Job, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> None:
        record = self._backoffs.setdefault(job.metadata.uid, _Backoff())
        if succeeded:
            record.failures = 0
        for pod in failed:
            record.failures += 1
            ended = policy.finished_at(pod) or self._clock.now()
            record.last = max(record.last, ended) if record.last is not None else ended

    def _backoff_left(self, job: Job) -> float:
        record = self._backoffs.get(job.metadata.uid)
        if record is None or not record.failures or record.last is None:
            return 0.0
        delay = min(_FIRST_BACKOFF * 2 ** (record.failures - 1), _LONGEST_BACKOFF)
        return float(delay - (self._clock.now() - record.last).total_seconds())

    async def _drop(self, job: Job, pods: Sequence[Pod]) -> None:
        """Delete pods that the Job does not need. They do not count as failed."""
        await self._untrack([pod for pod in pods if self._is_tracked(pod)])
        await self.delete_pods(job, pods)

    def _has_news(self, job: Job, pods: Sequence[Pod]) -> bool:
        """Return True if a pod ended that is not counted yet."""
        uncounted = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
        return bool(uncounted.succeeded or uncounted.failed) or any(
            self._is_tracked(pod) and (pod.status.phase == "Succeeded" or policy.is_failed(job, pod))
            for pod in pods
        )

    async def _live(self, job: Job) -> list[Pod]:
        """Return the pods of the Job from the API server."""
        selector = label_selector(job.spec.selector) if job.spec.selector is not None else None
        listed = await self._client.list(
            PODS,
            job.metadata.namespace,
            label_selector=str(selector) if selector is not None else None,
        )
        return [
            pod
            for pod in listed.items
            if (owner := controller_of(pod)) is not None and owner.uid == job.metadata.uid
        ]

    def _is_tracked(self, pod: Pod) -> bool:
        """Return True if the pod still has the finalizer. The informer may not know yet that it was removed."""
        return TRACKING in pod.metadata.finalizers and pod.metadata.uid not in self._untracked

    async def _untrack(self, pods: Sequence[Pod]) -> None:
        """Remove the finalizer from pods that are listed in the status."""

        async def untrack(pod: Pod) -> None:
            left = [name for name in pod.metadata.finalizers if name != TRACKING]
            meta = {
                "uid": pod.metadata.uid,
                "resourceVersion": pod.metadata.resource_version,
                "finalizers": left,
            }
            try:
                await self._client.patch(PODS, pod.metadata.name, {"metadata": meta}, pod.metadata.namespace)
            except NotFound:
                _log.debug("pod is gone", pod=pod.key)
            self._untracked.add(pod.metadata.uid)

        await run_all([lambda pod=pod: untrack(pod) for pod in pods])  # type: ignore[misc]  # a default binds the loop's value

    async def _write(self, job: Job, status: JobStatus) -> Job:
        if status == job.status:
            return job
        written = await self._client.update(JOBS, replace(job, status=status), subresource="status")
        self._metrics.count_pods(job, status)
        return written


def _with(status: JobStatus, now: datetime, kind: str, value: str, reason: str, message: str) -> JobStatus:
    moment = rfc3339(now)
    new = JobCondition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        last_probe_time=moment,
        last_transition_time=moment,
    )
    return replace(status, conditions=(*(c for c in status.conditions if c.type != kind), new))


def _with_index(pod: Pod, job: Job, index: int, failures: int) -> Pod:
    meta = pod.metadata
    annotations = {**meta.annotations, INDEX: str(index)}
    if job.spec.backoff_limit_per_index is not None:
        annotations[policy.FAILURES] = str(failures)
    variable = EnvVar(
        name="JOB_COMPLETION_INDEX",
        value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{INDEX}']")),
    )
    spec = replace(
        pod.spec,
        hostname=pod.spec.hostname or f"{job.metadata.name}-{index}",
        containers=tuple(replace(c, env=(*c.env, variable)) for c in pod.spec.containers),
        init_containers=tuple(replace(c, env=(*c.env, variable)) for c in pod.spec.init_containers),
    )
    return replace(
        pod,
        metadata=replace(
            meta,
            generate_name=f"{job.metadata.name}-{index}-",
            labels={**meta.labels, INDEX: str(index)},
            annotations=annotations,
        ),
        spec=spec,
    )


def _rank(pod: Pod) -> tuple[bool, bool, str]:
    """Return a key that sorts the pods with the least progress first, as they are deleted first."""
    return bool(pod.spec.node_name), is_ready(pod), pod.metadata.creation_timestamp or ""

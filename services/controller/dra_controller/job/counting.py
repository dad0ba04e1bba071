"""The effect of a Job's pods on the counts in its status (upstream's `trackJobStatusAndRemoveFinalizers`). Pure.

The order of the steps matters, because each uses the result of the previous one. First, listed pods without
the finalizer are added to the counters. Then pods that have ended since are classified, and listed as
uncounted. They lose the finalizer only after that list is stored, so each pod is counted exactly once even if
the controller crashes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dra_shared.api.batch import Job, JobStatus, UncountedTerminatedPods
from dra_shared.api.pod import Pod
from msgspec.structs import replace

from dra_controller.job import policy
from dra_controller.job.indexes import index_of, parse_indexes, text_of
from dra_controller.pods import is_active, is_ready, is_terminal


@dataclass(frozen=True)
class Ended:
    """The tracked pods that ended and are not listed as uncounted yet, as succeeded, failed and ignored."""

    succeeded: Sequence[Pod]
    failed: Sequence[Pod]
    ignored: Sequence[Pod]


@dataclass(frozen=True)
class Tally:
    """The counts of a Job.

    ``status`` lists the pods that have ended now. ``indexes`` are the indexes that succeeded, ``lost`` those
    that failed for good.
    """

    status: JobStatus
    ended: Ended
    active: Sequence[Pod]
    indexes: set[int]
    lost: set[int]
    succeeded: int
    failed: int

    @property
    def uncounted_pods(self) -> UncountedTerminatedPods:
        """The pods that are listed as uncounted and not part of the counters yet."""
        return self.status.uncounted_terminated_pods or UncountedTerminatedPods()


def count_untracked(
    status: JobStatus, uncounted: UncountedTerminatedPods, tracked: Collection[str]
) -> JobStatus:
    """Return ``status`` with the listed pods added to the counters that no longer have the finalizer."""
    failed = [uid for uid in uncounted.failed if uid not in tracked]
    succeeded = [uid for uid in uncounted.succeeded if uid not in tracked]
    return replace(
        status,
        failed=((status.failed or 0) + len(failed)) or None,
        succeeded=((status.succeeded or 0) + len(succeeded)) or None,
        uncounted_terminated_pods=UncountedTerminatedPods(
            succeeded=tuple(uid for uid in uncounted.succeeded if uid in tracked),
            failed=tuple(uid for uid in uncounted.failed if uid in tracked),
        ),
    )


def tally_pods(job: Job, pods: Sequence[Pod], tracked: Mapping[str, Pod]) -> Tally:
    """Return the counts of the Job now. ``tracked`` are its pods that have the finalizer, by uid."""
    status = count_untracked(
        job.status, job.status.uncounted_terminated_pods or UncountedTerminatedPods(), tracked
    )
    listed = status.uncounted_terminated_pods or UncountedTerminatedPods()
    ended = _classify(job, tracked, listed)
    indexes, lost = _indexes(job, status, ended)
    listed = UncountedTerminatedPods(
        succeeded=(*listed.succeeded, *(pod.metadata.uid for pod in ended.succeeded)),
        failed=(*listed.failed, *(pod.metadata.uid for pod in ended.failed)),
    )
    active = [pod for pod in pods if is_active(pod)]
    if policy.is_indexed(job):
        status = replace(status, completed_indexes=text_of(indexes))
        if job.spec.backoff_limit_per_index is not None:
            status = replace(status, failed_indexes=text_of(lost))
    status = replace(
        status,
        active=len(active) or None,
        ready=sum(is_ready(pod) for pod in active),
        terminating=sum(pod.metadata.deletion_timestamp is not None and not is_terminal(pod) for pod in pods),
        uncounted_terminated_pods=listed,
    )
    succeeded = len(indexes) if policy.is_indexed(job) else (status.succeeded or 0) + len(listed.succeeded)
    failed = (status.failed or 0) + len(listed.failed)
    return Tally(status, ended, active, indexes, lost, succeeded, failed)


def _classify(job: Job, tracked: Mapping[str, Pod], listed: UncountedTerminatedPods) -> Ended:
    succeeded: list[Pod] = []
    failed: list[Pod] = []
    ignored: list[Pod] = []
    for uid, pod in tracked.items():
        if uid in listed.succeeded or uid in listed.failed:
            continue
        if pod.status.phase == "Succeeded":
            succeeded.append(pod)
        elif policy.is_failed(job, pod):
            (ignored if policy.is_ignored(job, pod) else failed).append(pod)
    return Ended(succeeded, failed, ignored)


def _indexes(job: Job, status: JobStatus, ended: Ended) -> tuple[set[int], set[int]]:
    """Return the indexes that succeeded, and those that failed for good.

    An index of which any pod succeeded has not failed.
    """
    indexes, lost = parse_indexes(status.completed_indexes), parse_indexes(status.failed_indexes)
    if not policy.is_indexed(job):
        return indexes, lost
    limit = job.spec.completions or 0
    new = {index_of(pod) for pod in ended.succeeded}
    indexes |= {index for index in new if index is not None and index < limit}
    failing = {index_of(pod) for pod in ended.failed if policy.fails_index(job, pod)}
    lost |= {index for index in failing if index is not None}
    return indexes, lost - indexes


def count_rest(job: Job, tally: Tally, tracked: Mapping[str, Pod]) -> tuple[JobStatus, list[Pod]]:
    """Return the status once the outcome is certain, and the pods that lose the finalizer without having ended.

    The end of these pods is not awaited: they count as failed if the Job failed, and do not count if it
    succeeded.
    """
    outcome = policy.outcome(tally.status)
    if outcome is None:
        return tally.status, []
    listed = tally.uncounted_pods
    known = {*listed.succeeded, *listed.failed}
    rest = [pod for uid, pod in tracked.items() if uid not in known and pod not in tally.ended.ignored]
    if outcome.type == "FailureTarget":
        counted = (pod.metadata.uid for pod in rest if not policy.is_ignored(job, pod))
        listed = replace(listed, failed=(*listed.failed, *counted))
    status = replace(
        tally.status,
        active=None,
        ready=0,
        terminating=(tally.status.terminating or 0) + len(tally.active),
        uncounted_terminated_pods=listed,
    )
    return status, rest

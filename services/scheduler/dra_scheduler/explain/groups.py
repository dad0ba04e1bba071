"""The section about the pod's group in an explanation."""

from dra_shared.api.pod import Pod
from dra_shared.plurals import count

from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.explain.report import Change, GroupReport, MemberReport, NodeReport
from dra_scheduler.framework.cache import Cache
from dra_scheduler.queue.entry import Place, QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue

GANG_SCHEDULING = "GangScheduling"


class GroupExplainer:
    """Reports pods' groups. With ``gangs``, a gang's pods get nodes together or not at all."""

    def __init__(self, groups: PodGroups, queue: SchedulingQueue, cache: Cache, *, gangs: bool) -> None:
        self._groups = groups
        self._queue = queue
        self._cache = cache
        self._gangs = gangs

    def report(self, pod: Pod) -> GroupReport | None:
        """Report the pod's group and its other pods, or None if the group does not exist."""
        key, group = group_key(pod), self._groups.of(pod)
        if key is None or group is None:
            return None
        gang = group.spec.scheduling_policy.gang if self._gangs else None
        others = [other for other in self._groups.members(key) if other.metadata.uid != pod.metadata.uid]
        return GroupReport(
            group=key,
            min_count=gang.min_count if gang is not None else 0,
            placed=self._groups.count_placed(key),
            members=tuple(sorted(map(self._member, others), key=lambda member: member.pod)),
        )

    def _member(self, pod: Pod) -> MemberReport:
        node = self._cache.place_of(pod.metadata.uid) or ""
        if node:
            return MemberReport(pod=pod.key, state="placed", node=node)
        entry = self._queue.get(pod.metadata.uid)
        if entry is None:
            return MemberReport(pod=pod.key, state="not handled by this scheduler")
        state, message = queue_state(self._queue, entry)
        return MemberReport(pod=pod.key, state=state, message=message)


def queue_state(queue: SchedulingQueue, entry: QueuedPod) -> tuple[str, str]:
    """Return the part of the scheduling queue that the pod is in, and the message of its last attempt."""
    if not entry.gated:
        return entry.place.value, entry.message
    # The pod may no longer be gated. In that case it is tried together with the next pod of its gang.
    return ("gated", entry.message) if queue.is_gated(entry) else (Place.ACTIVE.value, "")


def waiting_for(group: GroupReport, whole: str = "") -> Change | None:
    """Return what must change in its group before a pod that fits a node is scheduled.

    None if the group is not the reason.
    """
    if whole:
        text = f"until enough groups of composite pod group {whole} can have nodes together"
        return Change(node="", kind="gang", text=text)
    if group.placed >= group.min_count:
        return None
    text = f"until at least {count(group.min_count, 'pod')} of {group.group} can have nodes together"
    return Change(node="", kind="gang", text=text)


def waits_for_gang(report: NodeReport, unknown: bool) -> bool:
    """True if the pod fits the node but its gang does not fit, or if the latter is ``unknown``."""
    return report.objections.keys() == {GANG_SCHEDULING} or (unknown and report.fits)

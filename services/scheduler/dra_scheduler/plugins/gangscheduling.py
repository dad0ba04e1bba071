"""GangScheduling: members of a gang wait until enough of them exist to be scheduled together.

Mirrors upstream's ``pkg/scheduler/framework/plugins/gangscheduling``.
"""

from collections.abc import Sequence

from dra_shared.api.pod import Pod

from dra_scheduler.dra.grouptree import GroupId, id_of, parent_of
from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.status import Status, unresolvable


class GangScheduling:
    """Keeps pods out of the active queue while their pod group does not exist or their gang is incomplete.

    ``trees``: a group with a parent is scheduled as part of the parent's tree (gate CompositePodGroup).
    """

    name = "GangScheduling"
    # No member has to wait in Permit, because the pod group cycle places all members at once.
    upstream_points = ("permit",)

    def __init__(self, groups: PodGroups, *, trees: bool = False) -> None:
        self._groups = groups
        self._trees = trees

    def pre_enqueue(self, pod: Pod) -> Status | None:
        key = group_key(pod)
        if key is None:
            return None
        group = self._groups.of(pod)
        if group is None:
            return unresolvable(
                f'waiting for pods\'s pod group "{key.partition("/")[2]}" to appear in scheduling queue'
            )
        parent = parent_of(group) if self._trees else None
        if parent is not None:
            return self._check_tree(parent)
        if group.spec.scheduling_policy.gang is not None and not self._groups.is_ready(GroupId(key)):
            return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return None

    def _check_tree(self, parent: GroupId) -> Status | None:
        root = self._groups.root_of(parent)
        if root is not None and self._groups.is_ready(root):
            return None
        name = (root or parent).key.partition("/")[2]
        return unresolvable(f'waiting for composite pod group "{name}" tree to meet quorum')

    def events_to_register(self) -> Sequence[Interest]:
        interests = [Interest(Kind.POD_GROUP, Action.ADD | Action.UPDATE, self._about_group)]
        if self._trees:
            interests.append(Interest(Kind.COMPOSITE_POD_GROUP, Action.ADD, self._about_group))
        return interests

    def _about_group(self, pod: Pod, event: Event) -> bool:
        subject, own = event.new, group_key(pod)
        if isinstance(subject, Pod):
            key = group_key(subject)
            changed = GroupId(key) if key is not None else None
        else:
            changed = id_of(subject)
        if own is None or changed is None or not self._together(GroupId(own), changed):
            return False
        return self.pre_enqueue(pod) is None

    def _together(self, one: GroupId, other: GroupId) -> bool:
        """True if the groups are in the same tree."""
        if one == other or not self._trees:
            return one == other
        root = self._groups.root_of(one)
        return root is not None and root == self._groups.root_of(other)

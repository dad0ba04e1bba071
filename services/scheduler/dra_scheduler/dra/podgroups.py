"""Pod groups and their members, and the composite pod groups above them.

Mirrors upstream's ``pkg/scheduler/backend/cache/podgroupstate.go``, ``hierarchy.go`` included.
"""

from dra_shared.api.pod import Pod
from dra_shared.api.scheduling import CompositePodGroup, PodGroup
from dra_shared.claims import pod_group_name

from dra_scheduler.dra.grouptree import GroupId, GroupTree, id_of, minimum_of, parent_of


class PodGroups:
    """The pod groups of the cluster, with the pods that name them, whether scheduled or not.

    With ``trees`` (gate CompositePodGroup), a group that names a parent is scheduled as part of that parent's
    tree.
    """

    def __init__(self, *, trees: bool = False) -> None:
        self._trees = trees
        self._groups: dict[GroupId, PodGroup | CompositePodGroup] = {}
        self._children: dict[GroupId, dict[GroupId, None]] = {}
        self._members: dict[str, dict[str, Pod]] = {}
        self._placed: dict[str, set[str]] = {}

    def get(self, namespace: str, name: str) -> PodGroup | None:
        """Return the pod group with that name, or None."""
        return self._group(f"{namespace}/{name}")

    def of(self, pod: Pod) -> PodGroup | None:
        """Return the group that the pod is a member of, or None if it does not exist."""
        key = group_key(pod)
        return None if key is None else self._group(key)

    def _group(self, key: str) -> PodGroup | None:
        group = self._groups.get(GroupId(key))
        return group if isinstance(group, PodGroup) else None

    def set_group(self, group: PodGroup | CompositePodGroup) -> None:
        """Add or update a group."""
        own = id_of(group)
        self._forget_parent(own)
        self._groups[own] = group
        parent = parent_of(group)
        if parent is not None:
            self._children.setdefault(parent, {})[own] = None

    def delete_group(self, group: PodGroup | CompositePodGroup) -> None:
        """Remove a group."""
        own = id_of(group)
        self._forget_parent(own)
        self._groups.pop(own, None)

    def _forget_parent(self, own: GroupId) -> None:
        group = self._groups.get(own)
        parent = parent_of(group) if group is not None else None
        if parent is not None:
            self._children[parent].pop(own, None)
            if not self._children[parent]:
                del self._children[parent]

    # Trees

    def root_of(self, group: GroupId) -> GroupId | None:
        """Return the root of the group's tree, or None if one of its ancestors does not exist."""
        seen: set[GroupId] = set()
        while group not in seen:
            seen.add(group)
            known = self._groups.get(group)
            if known is None:
                return None
            parent = parent_of(known) if self._trees else None
            if parent is None:
                return group
            group = parent
        return None

    def above(self, key: str) -> list[PodGroup | CompositePodGroup]:
        """Return the pod group with that key and its existing ancestors, up to the first that does not exist."""
        found: list[PodGroup | CompositePodGroup] = []
        group = self._groups.get(GroupId(key))
        while group is not None and group not in found:
            found.append(group)
            parent = parent_of(group) if self._trees else None
            group = self._groups.get(parent) if parent is not None else None
        return found

    def tree(self, root: GroupId) -> GroupTree | None:
        """Return the group with all its descendants, or None if it does not exist."""
        group = self._groups.get(root)
        if group is None:
            return None
        below = (self.tree(child) for child in self._children.get(root, ())) if self._trees else ()
        return GroupTree(group, tuple(child for child in below if child is not None))

    def is_ready(self, group: GroupId) -> bool:
        """True if scheduling may be tried: the group has its minimum number of pods, or of ready child groups."""
        known = self._groups.get(group)
        if known is None:
            return False
        if group.composite:
            there = sum(map(self.is_ready, self._children.get(group, ())))
        else:
            there = len(self._members.get(group.key, ()))
        return there >= minimum_of(known)

    # Members

    def set_pod(self, pod: Pod, *, placed: bool) -> None:
        """Add or update a member. ``placed`` says whether it has a node or is assumed to have one."""
        key = group_key(pod)
        if key is None:
            return
        self._members.setdefault(key, {})[pod.metadata.uid] = pod
        places = self._placed.setdefault(key, set())
        if placed:
            places.add(pod.metadata.uid)
        else:
            places.discard(pod.metadata.uid)

    def displace(self, pod: Pod) -> None:
        """Record that a member is no longer assumed to have a node."""
        self._placed.get(group_key(pod) or "", set()).discard(pod.metadata.uid)

    def delete_pod(self, pod: Pod) -> None:
        """Remove a member."""
        key = group_key(pod)
        if key is None or key not in self._members:
            return
        self._members[key].pop(pod.metadata.uid, None)
        self._placed[key].discard(pod.metadata.uid)
        if not self._members[key]:
            del self._members[key], self._placed[key]

    def members(self, key: str) -> list[Pod]:
        """Return the group's pods."""
        return list(self._members.get(key, {}).values())

    def count_placed(self, key: str) -> int:
        """Return the number of the group's pods that have a node or are assumed to have one."""
        return len(self._placed.get(key, ()))

    def has_placed_others(self, pod: Pod) -> bool:
        """True if another pod of the pod's group has a node or is assumed to have one."""
        return bool(self._placed.get(group_key(pod) or "", set()) - {pod.metadata.uid})

    def placed_pods(self, key: str) -> list[Pod]:
        """Return the group's pods that have a node or are assumed to have one."""
        members = self._members.get(key, {})
        return [members[uid] for uid in self._placed.get(key, ()) if uid in members]


def group_key(pod: Pod) -> str | None:
    """Return ``namespace/name`` of the group that the pod is a member of."""
    name = pod_group_name(pod)
    return None if name is None else f"{pod.metadata.namespace}/{name}"

"""Trees of pod groups: the leaves have the pods, and composite pod groups are above them.

Mirrors upstream's ``PodGroupInfo`` (``pkg/scheduler/framework``) and its hierarchies of Kubernetes 1.37.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dra_shared.api.scheduling import CompositePodGroup, PodGroup


class GroupId(NamedTuple):
    """``key`` is ``namespace/name``; a composite group may have the name of another one."""

    key: str
    composite: bool = False


@dataclass(frozen=True, slots=True)
class GroupTree:
    """A group and the groups below it, of which only a composite one has some."""

    group: PodGroup | CompositePodGroup
    children: tuple["GroupTree", ...] = ()

    @property
    def id(self) -> GroupId:
        return id_of(self.group)

    @property
    def minimum(self) -> int:
        """Of how many pods, or groups right below, there must be enough, or none is scheduled."""
        return minimum_of(self.group)

    def leaves(self) -> Iterator[tuple[GroupId, PodGroup]]:
        """The groups that have pods."""
        if isinstance(self.group, PodGroup):
            yield self.id, self.group
        for child in self.children:
            yield from child.leaves()


def id_of(group: PodGroup | CompositePodGroup) -> GroupId:
    """The group's identity."""
    return GroupId(group.key, isinstance(group, CompositePodGroup))


def parent_of(group: PodGroup | CompositePodGroup) -> GroupId | None:
    """The composite group that the group names as its parent."""
    name = group.spec.parent_composite_pod_group_name
    return GroupId(f"{group.metadata.namespace}/{name}", True) if name else None


def minimum_of(group: PodGroup | CompositePodGroup) -> int:
    """How many pods, or groups right below it, the group needs; without a gang it is one."""
    if isinstance(group, PodGroup):
        gang = group.spec.scheduling_policy.gang
        return gang.min_count if gang is not None else 1
    whole = group.spec.scheduling_policy.gang
    return whole.min_group_count if whole is not None else 1

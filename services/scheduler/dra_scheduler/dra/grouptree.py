"""Trees of pod groups: the leaves have pods, and composite pod groups are above them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dra_shared.api.scheduling import CompositePodGroup, PodGroup


class GroupId(NamedTuple):
    """The identity of a group. ``key`` is ``namespace/name``. A composite group may have the name of a pod group."""

    key: str
    composite: bool = False


@dataclass(frozen=True, slots=True)
class GroupTree:
    """A group and its child groups. Only a composite group has children."""

    group: PodGroup | CompositePodGroup
    children: tuple["GroupTree", ...] = ()

    @property
    def id(self) -> GroupId:
        return id_of(self.group)

    @property
    def minimum(self) -> int:
        """The minimum number of pods or child groups. With fewer, none is scheduled."""
        return minimum_of(self.group)

    def leaves(self) -> Iterator[tuple[GroupId, PodGroup]]:
        """Yield the groups that have pods."""
        if isinstance(self.group, PodGroup):
            yield self.id, self.group
        for child in self.children:
            yield from child.leaves()


def id_of(group: PodGroup | CompositePodGroup) -> GroupId:
    """Return the group's identity."""
    return GroupId(group.key, isinstance(group, CompositePodGroup))


def parent_of(group: PodGroup | CompositePodGroup) -> GroupId | None:
    """Return the composite group that the group names as its parent."""
    name = group.spec.parent_composite_pod_group_name
    return GroupId(f"{group.metadata.namespace}/{name}", True) if name else None


def minimum_of(group: PodGroup | CompositePodGroup) -> int:
    """Return the number of pods or child groups that the group needs. It is one without a gang policy."""
    if isinstance(group, PodGroup):
        gang = group.spec.scheduling_policy.gang
        return gang.min_count if gang is not None else 1
    whole = group.spec.scheduling_policy.gang
    return whole.min_group_count if whole is not None else 1

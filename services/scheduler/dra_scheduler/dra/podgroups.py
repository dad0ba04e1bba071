"""Pod groups and their members.

Mirrors upstream's ``pkg/scheduler/backend/cache/podgroupstate.go``.
"""

from dra_shared.api.pod import Pod
from dra_shared.api.scheduling import PodGroup
from dra_shared.claims import pod_group_name


class PodGroups:
    """The pod groups of the cluster, with the pods that name them, scheduled or not."""

    def __init__(self) -> None:
        self._groups: dict[str, PodGroup] = {}
        self._members: dict[str, dict[str, Pod]] = {}
        self._placed: dict[str, set[str]] = {}

    def get(self, namespace: str, name: str) -> PodGroup | None:
        """The group of that name."""
        return self._groups.get(f"{namespace}/{name}")

    def of(self, pod: Pod) -> PodGroup | None:
        """The group that the pod is a member of, if it exists."""
        key = group_key(pod)
        return None if key is None else self._groups.get(key)

    def set_group(self, group: PodGroup) -> None:
        """A group came or changed."""
        self._groups[group.key] = group

    def delete_group(self, key: str) -> None:
        """A group went."""
        self._groups.pop(key, None)

    def set_pod(self, pod: Pod, *, placed: bool) -> None:
        """A member came or changed; ``placed``: it has a node, or is assumed to."""
        key = group_key(pod)
        if key is None:
            return
        self._members.setdefault(key, {})[pod.metadata.uid] = pod
        places = self._placed.setdefault(key, set())
        if placed:
            places.add(pod.metadata.uid)
        else:
            places.discard(pod.metadata.uid)

    def delete_pod(self, pod: Pod) -> None:
        """A member went."""
        key = group_key(pod)
        if key is None or key not in self._members:
            return
        self._members[key].pop(pod.metadata.uid, None)
        self._placed[key].discard(pod.metadata.uid)
        if not self._members[key]:
            del self._members[key], self._placed[key]

    def members(self, key: str) -> list[Pod]:
        """The group's pods."""
        return list(self._members.get(key, {}).values())

    def placed(self, key: str) -> int:
        """How many of the group's pods have a node, or are assumed to."""
        return len(self._placed.get(key, ()))


def group_key(pod: Pod) -> str | None:
    """``namespace/name`` of the group that the pod is a member of."""
    name = pod_group_name(pod)
    return None if name is None else f"{pod.metadata.namespace}/{name}"

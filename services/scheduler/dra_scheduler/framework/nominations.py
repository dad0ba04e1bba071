"""Nominations: preempting pods that wait for their victims to terminate, and the nodes reserved for these pods.

Mirrors upstream's ``pkg/scheduler/backend/queue/nominator.go``.
"""

from collections.abc import Callable

from dra_shared.api.pod import Pod


class Nominations:
    """The nodes for which waiting pods are nominated. ``on_change`` is called with each affected node."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._by_uid: dict[str, tuple[str, Pod]] = {}
        self._by_node: dict[str, dict[str, Pod]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def set(self, pod: Pod, node_name: str) -> None:
        """Nominate the pod for that node only, or for none if the name is empty."""
        uid = pod.metadata.uid
        self.delete(uid)
        if node_name:
            self._by_uid[uid] = node_name, pod
            self._by_node.setdefault(node_name, {})[uid] = pod
            self._on_change(node_name)

    def delete(self, uid: str) -> None:
        """Remove the nomination of a pod that was deleted or has its node."""
        known = self._by_uid.pop(uid, None)
        if known is None:
            return
        node_name, _ = known
        pods = self._by_node[node_name]
        del pods[uid]
        if not pods:
            del self._by_node[node_name]
        self._on_change(node_name)

    def node_of(self, uid: str) -> str:
        """Return the name of the node that the pod is nominated for, or an empty string."""
        known = self._by_uid.get(uid)
        return known[0] if known is not None else ""

    def on(self, node_name: str) -> list[Pod]:
        """Return the pods that are nominated for the node."""
        return list(self._by_node.get(node_name, {}).values())

    def ahead_of(self, pod: Pod, node_name: str) -> list[Pod]:
        """Return the node's nominated pods with the same or a higher priority, whose resources ``pod`` must not use."""
        others = self._by_node.get(node_name)
        if not others:
            return []
        own = pod.spec.priority or 0
        return [
            other
            for uid, other in others.items()
            if uid != pod.metadata.uid and (other.spec.priority or 0) >= own
        ]

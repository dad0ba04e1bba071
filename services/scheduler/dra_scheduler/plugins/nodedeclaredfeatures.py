"""NodeDeclaredFeatures: kubelet features that a pod needs.

Mirrors upstream's ``pkg/scheduler/framework/plugins/nodedeclaredfeatures``.
"""

from collections.abc import Hashable, Sequence

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable


class NodeDeclaredFeatures:
    """Filters by ``status.declaredFeatures`` of the nodes."""

    name = "NodeDeclaredFeatures"

    def events_to_register(self) -> Sequence[Interest]:
        # Updates of the pod cannot help, because the features that it needs follow from immutable fields.
        return (Interest(Kind.NODE, Action.ADD | Action.NODE_FEATURES, _declares_others),)

    def sign(self, pod: Pod) -> Hashable:
        return _needed_features(pod)

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        needed = _needed_features(pod)
        if not needed:
            return None, SKIP
        state.write(self.name, needed)
        return None, None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        needed: frozenset[str] = state.read(self.name, frozenset) or frozenset()
        assert node.node is not None
        if needed <= set(node.node.status.declared_features):
            return None
        return unresolvable("node(s) didn't match Pod's required features")


def _needed_features(pod: Pod) -> frozenset[str]:
    """Return the features of component-helpers' nodedeclaredfeatures that matter to scheduling."""
    spec, needed = pod.spec, set()
    if any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    ):
        needed.add("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return frozenset(needed)


def _declares_others(pod: Pod, event: Event) -> bool:
    return event.old is None or event.old.status.declared_features != event.new.status.declared_features

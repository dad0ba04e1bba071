"""The nodes on which a DaemonSet's pods run, and the affinity that ties a pod to its node. Pure.

Mirrors pkg/controller/daemon/util/daemonset_util.go, and ``NodeShouldRunDaemonPod`` in daemon_controller.go.
"""

from dra_shared.api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Toleration
from dra_shared.api.pod import Affinity, NodeAffinity, Pod, PodSpec
from dra_shared.nodeselector import required_affinity_matches
from dra_shared.taints import NO_EXECUTE, NO_SCHEDULE, tolerates
from msgspec.structs import replace

# pkg/controller/daemon/util: daemons stay when their node has problems.
_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def with_tolerations(spec: PodSpec) -> PodSpec:
    """Return the spec with the tolerations that every daemon pod has."""
    wanted = (*_TOLERATIONS, _NETWORK) if spec.host_network else _TOLERATIONS
    added = [
        Toleration(key=key, operator="Exists", effect=effect)
        for key, effect in wanted
        if not any(t.key == key and t.effect == effect and t.operator == "Exists" for t in spec.tolerations)
    ]
    return replace(spec, tolerations=(*spec.tolerations, *added))


def tie_to_node(spec: PodSpec, node: str) -> PodSpec:
    """Return the spec with an affinity that only ``node`` satisfies, so that the scheduler puts the pod there."""
    requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    affinity = spec.affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    required = nodes.required_during_scheduling_ignored_during_execution
    if required is None or not required.node_selector_terms:
        terms: tuple[NodeSelectorTerm, ...] = (NodeSelectorTerm(match_fields=(requirement,)),)
    else:
        terms = tuple(replace(term, match_fields=(requirement,)) for term in required.node_selector_terms)
    nodes = replace(
        nodes, required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=terms)
    )
    return replace(spec, affinity=replace(affinity, node_affinity=nodes))


def node_of(pod: Pod) -> str:
    """Return the node on which a pod of a DaemonSet runs, or that its affinity selects."""
    if pod.spec.node_name or pod.spec.affinity is None or pod.spec.affinity.node_affinity is None:
        return pod.spec.node_name
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    for term in required.node_selector_terms if required is not None else ():
        for requirement in term.match_fields:
            if requirement.key == "metadata.name" and len(requirement.values) == 1:
                return requirement.values[0]
    return ""


def should_run(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Return whether a new pod of the DaemonSet may go to the node, and whether an existing one may stay."""
    if spec.node_name and spec.node_name != node.metadata.name:
        return False, False
    if not required_affinity_matches(spec, node):
        return False, False
    tolerations = with_tolerations(spec).tolerations

    def is_blocked(*effects: str) -> bool:
        return any(
            taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations)
            for taint in node.spec.taints
        )

    if is_blocked(NO_SCHEDULE, NO_EXECUTE):
        return False, not is_blocked(NO_EXECUTE)
    return True, True

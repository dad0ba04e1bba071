"""Obstacles: the fields of pod and node that caused a plugin's rejection, and the changes that would help."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dra_shared.api.node import Node, NodeSelector, NodeSelectorRequirement
from dra_shared.api.pod import Pod
from dra_shared.nodeselector import required_selector, requirement_holds
from dra_shared.quantity import Format, Quantity

from dra_scheduler.framework.nodeinfo import NodeInfo, host_ports
from dra_scheduler.framework.resources import CPU, pod_requests
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.plugins.nodeports import conflict
from dra_scheduler.plugins.tainttoleration import find_untolerated

_INSUFFICIENT = "Insufficient "
# The maximum number of pods that are tried as the obstacle, one after the other.
_MOST_PODS = 200
_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The facts on which the plugin based its rejection, and a change after which it would accept the node.

    ``remedy`` may be empty.
    """

    saw: str
    remedy: str = ""


def obstacles(plugin: str, reasons: Sequence[str], pod: Pod, node: NodeInfo) -> list[Obstacle]:
    """Return the fields behind the plugin's reasons, if they add information."""
    find = _FINDERS.get(plugin)
    return [] if find is None or node.node is None else find(reasons, pod, node, node.node)


def _resources(reasons: Sequence[str], pod: Pod, info: NodeInfo, node: Node) -> list[Obstacle]:
    needs = pod_requests(pod, claims=False)
    found = []
    for reason in reasons:
        name = reason.removeprefix(_INSUFFICIENT)
        if name == reason:
            allowed = f"{len(info.pods)} of {info.pods_allowed} pods are there"
            found.append(Obstacle(allowed, f"if a pod left node {info.name}"))
            continue
        total = info.allocatable.get(name, 0)
        left = total - info.requested.get(name, 0)
        saw = (
            f"{name}: the pod asks for {_amount(name, needs.get(name, 0))}, {_amount(name, max(left, 0))} of "
        )
        saw += f"{_amount(name, total)} are left" if total else "none are left: the node has no such resource"
        remedy = f"if the pod asked for no more {name} than {_amount(name, left)}" if left > 0 else ""
        if not remedy and needs.get(name, 0) <= total:
            remedy = f"if pods on node {info.name} gave {name} back"
        found.append(Obstacle(saw.replace("0 of none are left", "none is left"), remedy))
    return found


def _amount(name: str, value: int) -> str:
    if name == CPU:
        return f"{value}m" if value % 1000 else str(value // 1000)
    binary = str(Quantity(value, 0, Format.BINARY_SI))
    return min(binary, str(Quantity(value)), key=len)


def _affinity(reasons: Sequence[str], pod: Pod, info: NodeInfo, node: Node) -> list[Obstacle]:
    labels = node.metadata.labels
    found = [
        Obstacle(
            f"nodeSelector {key}={value}: {_label(key, labels)}",
            # Each node has its own hostname.
            f"if the pod had no nodeSelector {key}"
            if key == _HOSTNAME
            else f"if node {info.name} had the label {key}={value}",
        )
        for key, value in pod.spec.node_selector.items()
        if labels.get(key) != value
    ]
    selector = required_selector(pod.spec)
    terms = selector.node_selector_terms if selector is not None else ()
    unmet = [
        [
            f"{requirement_text(requirement)}: {_label(requirement.key, labels)}"
            for requirement in term.match_expressions
            if not requirement_holds(requirement, labels.get(requirement.key))
        ]
        + [
            f"{requirement_text(requirement)}: the node is {info.name}"
            for requirement in term.match_fields
            if not requirement_holds(requirement, info.name)
        ]
        for term in terms
    ]
    if unmet and all(unmet):
        closest = min(unmet, key=len)
        found.append(
            Obstacle(f"node affinity {'; '.join(closest)}", "if the pod had no required node affinity")
        )
    return found


def requirement_text(requirement: NodeSelectorRequirement) -> str:
    """Format a requirement for people."""
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def selector_text(selector: NodeSelector) -> str:
    """Format a selector for people."""
    return " or ".join(
        ", ".join(map(requirement_text, (*term.match_fields, *term.match_expressions)))
        for term in selector.node_selector_terms
    )


def _label(key: str, labels: Mapping[str, str]) -> str:
    return f"the node has {key}={labels[key]}" if key in labels else f"the node has no label {key}"


def _taints(reasons: Sequence[str], pod: Pod, info: NodeInfo, node: Node) -> list[Obstacle]:
    taint = find_untolerated(pod, node.spec.taints)
    if taint is None:
        return []
    text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
    return [Obstacle(f"taint {text}", f"if the pod tolerated taint {text}")]


def _cordon(reasons: Sequence[str], pod: Pod, info: NodeInfo, node: Node) -> list[Obstacle]:
    return [Obstacle("the node is cordoned", f"if it were uncordoned: kubectl uncordon {info.name}")]


def _ports(reasons: Sequence[str], pod: Pod, info: NodeInfo, node: Node) -> list[Obstacle]:
    found = []
    for wanted in host_ports(pod):
        users = [
            other.key for other in info.pods.values() if any(conflict(wanted, p) for p in host_ports(other))
        ]
        if users:
            port = f"{wanted[2]}/{wanted[0]}"
            found.append(
                Obstacle(f"host port {port} is pod {users[0]}'s", f"if pod {users[0]} left host port {port}")
            )
    return found


_FINDERS: Mapping[str, Callable[[Sequence[str], Pod, NodeInfo, Node], list[Obstacle]]] = {
    "NodeResourcesFit": _resources,
    "NodeAffinity": _affinity,
    "TaintToleration": _taints,
    "NodeUnschedulable": _cordon,
    "NodePorts": _ports,
}


def find_blocking_pod(
    framework: Framework, nodes: Sequence[NodeInfo], state: CycleState, pod: Pod, node: NodeInfo, plugin: str
) -> list[Obstacle]:
    """Return a pod on the node without which the plugin would accept the node, or None."""
    judges = [each for each in framework.filters(state) if each.name == plugin]
    others = ((other, info) for info in nodes for other in list(info.pods.values()))
    for other, info in itertools.islice(others, _MOST_PODS):
        without, there = node.copy(), info.copy()
        place = without if info is node else there
        framework.remove_pod(state, pod, other, place)
        try:
            gone = not framework.objections(judges, state, pod, without)
        finally:
            framework.add_pod(state, pod, other, place)
        if gone:
            saw = f"because of pod {other.key} on node {info.name}"
            return [Obstacle(saw, f"if pod {other.key} were gone")]
    return []

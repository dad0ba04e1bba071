"""Node labels that a pod requires but no node has, with the most similar label."""

from collections.abc import Iterator, Sequence

from dra_shared.api.node import Node, NodeSelectorRequirement
from dra_shared.api.pod import Pod
from dra_shared.nodeselector import required_selector

from dra_scheduler.explain.near import names_hint


def label_shortfalls(pod: Pod, nodes: Sequence[Node]) -> list[str]:
    """Return the labels of the pod's nodeSelector, required affinity or spreading that no node has."""
    found: list[str] = []
    if not nodes:
        return []
    for key, value in pod.spec.node_selector.items():
        found += _find_lacking("nodeSelector", key, (value,), nodes)
    selector = required_selector(pod.spec)
    for term in selector.node_selector_terms if selector is not None else ():
        for requirement in term.match_expressions:
            found += _find_unmet(requirement, nodes)
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable == "DoNotSchedule":
            found += _find_lacking("topology spread constraint", constraint.topology_key, (), nodes)
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()
    for each in terms:
        found += _find_lacking("pod affinity", each.topology_key, (), nodes)
    return list(dict.fromkeys(found))


def _find_unmet(requirement: NodeSelectorRequirement, nodes: Sequence[Node]) -> Iterator[str]:
    if requirement.operator in ("In", "Exists"):
        yield from _find_lacking("node affinity", requirement.key, requirement.values, nodes)


def _find_lacking(what: str, key: str, values: Sequence[str], nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a message if no node has the label with one of the values. Without values any value suffices."""
    labels = [node.metadata.labels for node in nodes]
    known = {each[key] for each in labels if key in each}
    if not known:
        names = {name for each in labels for name in each}
        yield f"{what}: no node has the label {key}{names_hint(key, names, others=False)}"
    elif values and known.isdisjoint(values):
        wanted = " or ".join(f"{key}={value}" for value in values)
        yield f"{what}: no node has the label {wanted}{names_hint(values[0], known)}"

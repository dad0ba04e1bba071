"""Match node selectors like upstream's ``component-helpers/scheduling/corev1/nodeaffinity``."""

from dra_shared.api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_shared.api.pod import PodSpec


def matches(selector: NodeSelector, node: Node) -> bool:
    """True if one of the selector's terms matches the node. An empty term matches no node."""
    return any(term_matches(term, node) for term in selector.node_selector_terms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """True if the node satisfies all of the term's requirements. A term without requirements matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels
    return all(requirement_holds(r, labels.get(r.key)) for r in term.match_expressions) and all(
        r.key == "metadata.name" and requirement_holds(r, node.metadata.name) for r in term.match_fields
    )


def requirement_holds(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    """True if the value of the label or field, None if it is absent, satisfies the requirement."""
    values = requirement.values
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            try:
                have, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return have > bound if requirement.operator == "Gt" else have < bound
    return False


def required_affinity_matches(spec: PodSpec, node: Node) -> bool:
    """True if the node has the labels of the spec's nodeSelector and satisfies its required node affinity."""
    labels = node.metadata.labels
    for key, value in spec.node_selector.items():
        if labels.get(key) != value:
            return False
    selector = required_selector(spec)
    return selector is None or matches(selector, node)


def required_selector(spec: PodSpec) -> NodeSelector | None:
    """Return the required node affinity, or None."""
    affinity = spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def named_nodes(selector: NodeSelector) -> frozenset[str] | None:
    """Return the only nodes that can match, if every term has ``metadata.name In``; else None."""
    names: set[str] = set()
    for term in selector.node_selector_terms:
        allowed: set[str] | None = None
        for requirement in term.match_fields:
            if requirement.key == "metadata.name" and requirement.operator == "In":
                allowed = set(requirement.values) if allowed is None else allowed & set(requirement.values)
        if allowed is None:
            return None
        names |= allowed
    return frozenset(names)

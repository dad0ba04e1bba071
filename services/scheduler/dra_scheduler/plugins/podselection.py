"""Pod selection of (anti-)affinity terms and spread constraints: selectors, namespaces, topology domains."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from dra_shared.api.meta import LabelSelector as LabelSelectorSpec
from dra_shared.api.meta import LabelSelectorRequirement
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod, PodAffinityTerm
from dra_shared.selectors import LabelSelector, label_selector

# Returns the labels of the namespace with that name.
NamespaceLabels = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Term:
    """A pod affinity term with parsed selectors."""

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    topology_key: str

    def selects(self, pod: Pod, namespace_labels: NamespaceLabels) -> bool:
        """True if the term matches the pod."""
        namespace = pod.metadata.namespace
        if namespace not in self.namespaces and not self.namespace_selector.matches(
            namespace_labels(namespace)
        ):
            return False
        return self.selector.matches(pod.metadata.labels)

    def domain(self, node: Node) -> str | None:
        """Return the node's topology domain, or None if it has none."""
        return node.metadata.labels.get(self.topology_key)


def term(owner: Pod, spec: PodAffinityTerm) -> Term:
    """Return the term of ``owner``'s affinity. Its own namespace applies if the term names none."""
    own_only = not spec.namespaces and spec.namespace_selector is None
    namespaces = frozenset((owner.metadata.namespace,)) if own_only else frozenset(spec.namespaces)
    selector = with_label_keys(
        spec.label_selector, owner.metadata.labels, spec.match_label_keys, spec.mismatch_label_keys
    )
    return Term(
        selector=label_selector(selector),
        namespaces=namespaces,
        namespace_selector=label_selector(spec.namespace_selector),
        topology_key=spec.topology_key,
    )


def with_label_keys(
    selector: LabelSelectorSpec | None,
    labels: Mapping[str, str],
    match: Sequence[str],
    mismatch: Sequence[str] = (),
) -> LabelSelectorSpec | None:
    """Return the selector limited to pods with (or without) the pod's own values of some labels.

    The API server does this for affinity terms when a pod is created. Doing it twice makes no difference.
    """
    if selector is None or not (match or mismatch):
        return selector
    more = [
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for keys, operator in ((match, "In"), (mismatch, "NotIn"))
        for key in keys
        if key in labels
    ]
    return msgspec.structs.replace(selector, match_expressions=(*selector.match_expressions, *more))


def required_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return the terms of required affinity."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return ()
    return affinity.pod_affinity.required_during_scheduling_ignored_during_execution


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return the terms of required anti-affinity."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    return affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution


def preferred_terms(pod: Pod) -> list[tuple[PodAffinityTerm, int]]:
    """Return the preferred terms with weights, which are negative for anti-affinity."""
    affinity = pod.spec.affinity
    found: list[tuple[PodAffinityTerm, int]] = []
    if affinity is not None and affinity.pod_affinity is not None:
        terms = affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution
        found += [(weighted.pod_affinity_term, weighted.weight) for weighted in terms]
    if affinity is not None and affinity.pod_anti_affinity is not None:
        terms = affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution
        found += [(weighted.pod_affinity_term, -weighted.weight) for weighted in terms]
    return found

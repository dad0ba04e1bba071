"""Warn about deprecated labels of nodes (upstream's ``pkg/api/node``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dra_shared.jsontypes import JsonObject
from dra_shared.names import label_value

DEPRECATED: Mapping[str, str] = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def term_warnings(term: JsonObject, path: str, *, values: bool = False) -> Iterator[str]:
    """Yield the warnings of a node selector's term.

    A preferred term's ``values`` are checked here, because they are not validated.
    """
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        key = expression.get("key", "")
        if key in DEPRECATED:
            yield f"{at}.key: {key} is {DEPRECATED[key]}"
        if values:
            for number, value in enumerate(expression.get("values") or ()):
                for problem in label_value(value):
                    yield f"{at}.values[{number}]: {value} is invalid, {problem}"


def selector_warnings(selector: JsonObject | None, path: str) -> Iterator[str]:
    """Yield the warnings of a label selector for nodes."""
    if selector is None:
        return
    yield from term_warnings(selector, path)
    for key in selector.get("matchLabels") or {}:
        if key in DEPRECATED:
            yield f"{path}.matchLabels.{key}: {DEPRECATED[key]}"

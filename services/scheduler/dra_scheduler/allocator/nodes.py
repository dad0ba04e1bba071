"""Matching of a slice or device with a node (core/v1 NodeSelector, evaluated as k8s.io/component-helpers does)."""

import functools
import json
import re
from collections.abc import Mapping

from dra_shared.api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_shared.selectors import requirement_problems

from dra_scheduler.allocator.errors import AllocationError

_INTEGER = re.compile(r"[+-]?[0-9]+")
# The label selector operators that correspond to these operators. Errors list them in this order.
_EXPRESSION_OPERATORS = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}
_FIELD_OPERATORS = ("In", "NotIn")


def node_matches(
    node: Node, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None
) -> bool:
    """True if a slice or device with these node fields can be reached from the node.

    Raises:
        AllocationError: the selector is invalid. The API server normally rejects such selectors.
    """
    if node_name:
        return node.metadata.name == node_name
    if all_nodes:
        return True
    if selector is None:
        return False
    problem = selector_problem(selector)
    if problem is not None:
        raise AllocationError(f"failed to parse node selector {_go_text(selector)}: {problem}")
    labels, name = node.metadata.labels, node.metadata.name
    return any(_term_matches(term, labels, name) for term in selector.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if not all(_expression_matches(requirement, labels) for requirement in term.match_expressions):
        return False
    if not name:
        return True
    return all(_field_matches(requirement, name) for requirement in term.match_fields)


def _expression_matches(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not _INTEGER.fullmatch(value):
        return False
    left, right = int(value), int(requirement.values[0])
    return left > right if requirement.operator == "Gt" else left < right


def _field_matches(requirement: NodeSelectorRequirement, name: str) -> bool:
    value = name if requirement.key == "metadata.name" else ""
    return (value == requirement.values[0]) == (requirement.operator == "In")


@functools.lru_cache(maxsize=4096)
def _requirement_problems(requirement: NodeSelectorRequirement, path: str, *, field: bool) -> tuple[str, ...]:
    operator, values = requirement.operator, requirement.values
    known = _FIELD_OPERATORS if field else tuple(_EXPRESSION_OPERATORS)
    if operator not in known:
        supported = ", ".join(f'"{name}"' for name in known)
        return (f'{path}.operator: Unsupported value: "{operator}": supported values: {supported}',)
    if not field:
        return tuple(requirement_problems(requirement.key, _EXPRESSION_OPERATORS[operator], values, path))
    if len(values) == 1:
        return ()
    shown = json.dumps(values, separators=(",", ":"), ensure_ascii=False) if values else "null"
    return (f"{path}.values: Invalid value: {shown}: must have one element",)


@functools.lru_cache(maxsize=4096)
def selector_problem(selector: NodeSelector) -> str | None:
    """Return the reason why the selector cannot be parsed, in upstream's words, or None."""
    problems = dict.fromkeys(
        problem
        for index, term in enumerate(selector.node_selector_terms)
        for kind, requirements in (
            ("matchExpressions", term.match_expressions),
            ("matchFields", term.match_fields),
        )
        for at, requirement in enumerate(requirements)
        for problem in _requirement_problems(
            requirement, f"nodeSelectorTerms[{index}].{kind}[{at}]", field=kind == "matchFields"
        )
    )
    if not problems:
        return None
    return next(iter(problems)) if len(problems) == 1 else f"[{', '.join(problems)}]"


def _go_text(selector: NodeSelector) -> str:
    """Format the selector as Go's generated String methods do."""

    def requirements(items: tuple[NodeSelectorRequirement, ...]) -> str:
        texts = [
            f"NodeSelectorRequirement{{Key:{item.key},Operator:{item.operator},"
            f"Values:[{' '.join(item.values)}],}},"
            for item in items
        ]
        return f"[]NodeSelectorRequirement{{{''.join(texts)}}}"

    terms = [
        f"NodeSelectorTerm{{MatchExpressions:{requirements(term.match_expressions)},"
        f"MatchFields:{requirements(term.match_fields)},}},"
        for term in selector.node_selector_terms
    ]
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{''.join(terms)}}},}}"

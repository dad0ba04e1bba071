"""Node selectors of slices and devices."""

from typing import Any

import pytest
from dra_scheduler.allocator import AllocationError
from dra_scheduler.allocator.nodes import node_matches, selector_problem
from dra_shared.api.node import NodeSelector
from msgspec import convert

from tests.scheduler.allocator.worlds import node
from tests.support.cases import each_case

NODE = node("n0", zone="a", rank="7")


def _selector(*terms: dict[str, Any]) -> NodeSelector:
    return convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _field(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


@each_case(
    ("selector", "expected"),
    [
        (_selector(), False),
        (_selector({}), False),
        (_selector(_expression("zone", "In", "a", "b")), True),
        (_selector(_expression("zone", "In", "b")), False),
        (_selector(_expression("zone", "NotIn", "b")), True),
        (_selector(_expression("none", "NotIn", "b")), True),
        (_selector(_expression("zone", "Exists")), True),
        (_selector(_expression("zone", "DoesNotExist")), False),
        (_selector(_expression("rank", "Gt", "6")), True),
        (_selector(_expression("rank", "Gt", "7")), False),
        (_selector(_expression("rank", "Lt", "8")), True),
        (_selector(_expression("zone", "Gt", "6")), False),
        (_selector(_expression("none", "Lt", "6")), False),
        (_selector(_field("In", "n0")), True),
        (_selector(_field("NotIn", "n0")), False),
        (_selector(_field("In", "n1"), _expression("zone", "In", "a")), True),
        (_selector({**_field("In", "n1"), **_expression("zone", "In", "a")}), False),
    ],
)
def test_a_node_selector_matches_labels_and_fields(selector: NodeSelector, expected: bool) -> None:
    assert node_matches(NODE, None, None, selector) is expected


def test_node_name_takes_precedence_over_all_nodes_and_all_nodes_over_the_selector() -> None:
    everywhere = _selector(_expression("zone", "Exists"))

    assert node_matches(NODE, "n0", None, None)
    assert not node_matches(NODE, "n1", True, everywhere)
    assert node_matches(NODE, None, True, _selector())
    assert not node_matches(NODE, None, None, None)


@each_case(
    ("selector", "message"),
    [
        (
            _selector(_expression("zone", "Near", "a")),
            "failed to parse node selector &NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{"
            "MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:zone,Operator:Near,Values:[a],},},"
            "MatchFields:[]NodeSelectorRequirement{},},},}: "
            'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near": '
            'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        ),
        (_selector(_field("In")), "must have one element"),
        (_selector(_expression("zone", "In")), "values set can't be empty"),
        (_selector(_expression("zone", "Exists", "x")), "values set must be empty"),
        (_selector(_expression("zone", "Gt", "x")), "the value must be an integer"),
        (_selector(_expression("zone", "Gt", "1", "2")), "exactly one value is required"),
    ],
)
def test_a_selector_that_validation_would_reject_is_an_error(selector: NodeSelector, message: str) -> None:
    with pytest.raises(AllocationError) as caught:
        node_matches(NODE, None, None, selector)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        (
            _selector(_expression("zone", "Gt", "-1")),
            'nodeSelectorTerms[0].matchExpressions[0].values[0][zone]: Invalid value: "-1": a valid label must be an '
            "empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            _selector(_field("In", "a", "b")),
            'nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["a","b"]: must have one element',
        ),
        (
            _selector(_field("In")),
            "nodeSelectorTerms[0].matchFields[0].values: Invalid value: null: must have one element",
        ),
        (
            _selector(_expression("zone", "In"), _expression("zone", "Exists", "x")),
            "[nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, "
            'values set can\'t be empty, nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: ["x"]: '
            "values set must be empty for exists and does not exist]",
        ),
    ],
)
def test_the_error_text_for_a_node_selector_describes_why_it_is_invalid(
    selector: NodeSelector, problem: str
) -> None:
    assert selector_problem(selector) == problem

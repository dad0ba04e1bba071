"""Answers of extenders are decoded as Go decodes them, with the errors of encoding/json."""

from typing import Any

import pytest
from dra_scheduler.extenders.answers import BINDING, FILTER, PREEMPTION, PRIORITIES, AnswerError, Type, read

from tests.support.cases import each_case


@each_case(
    ("kind", "value", "expected"),
    [
        (FILTER, {"nodenames": ["a", None], "ERROR": None, "x": []}, {"NodeNames": ["a", ""]}),
        (FILTER, {"Nodes": {"items": [{"metadata": {"name": "a", "labels": 5}}]}}, None),
        (FILTER, None, {}),
        (PRIORITIES, None, []),
        (PRIORITIES, [{"host": "a", "score": 5}, None], [{"Host": "a", "Score": 5}, {}]),
        (PREEMPTION, {"NodeNameToMetaVictims": {"a": None}}, {"NodeNameToMetaVictims": {"a": {}}}),
    ],
)
def test_responses_are_decoded_by_their_types(kind: Type, value: Any, expected: Any) -> None:
    wanted = {"Nodes": {"items": [{"metadata": {"name": "a"}}]}} if expected is None else expected
    assert read(kind, value) == wanted


@each_case(
    ("kind", "value", "text"),
    [
        (FILTER, [], "array into Go value of type v1.ExtenderFilterResult"),
        (
            FILTER,
            {"NodeNames": 5},
            "number into Go struct field ExtenderFilterResult.NodeNames of type []string",
        ),
        (
            FILTER,
            {"NodeNames": [5]},
            "number into Go struct field ExtenderFilterResult.NodeNames of type string",
        ),
        (FILTER, {"Error": {}}, "object into Go struct field ExtenderFilterResult.Error of type string"),
        (
            FILTER,
            {"FailedNodes": ["a"]},
            "array into Go struct field ExtenderFilterResult.FailedNodes of type v1.Fai",
        ),
        (
            FILTER,
            {"Nodes": {"items": 5}},
            "number into Go struct field NodeList.Nodes.items of type []v1.Node",
        ),
        (
            FILTER,
            {"Nodes": {"items": [{"metadata": {"name": True}}]}},
            "bool into Go struct field ObjectMeta.Nodes.it",
        ),
        (PRIORITIES, {}, "object into Go value of type v1.HostPriorityList"),
        (PRIORITIES, [{"Score": "9"}], "string into Go struct field HostPriority.Score of type int64"),
        (PRIORITIES, [{"Score": 1.5}], "number 1.5 into Go struct field HostPriority.Score of type int64"),
        (
            PRIORITIES,
            [{"Score": 1 << 70}],
            "number 1180591620717411303424 into Go struct field HostPriority.Score",
        ),
        (BINDING, {"Error": 5}, "number into Go struct field ExtenderBindingResult.Error of type string"),
        (
            PREEMPTION,
            {"NodeNameToMetaVictims": []},
            "array into Go struct field ExtenderPreemptionResult.NodeNameToMet",
        ),
        (PREEMPTION, {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": 5}]}}}, "of type string"),
    ],
)
def test_responses_of_wrong_types_are_errors(kind: Type, value: Any, text: str) -> None:
    with pytest.raises(AnswerError) as error:
        read(kind, value)
    assert str(error.value).startswith("json: cannot unmarshal ")
    assert text in str(error.value)

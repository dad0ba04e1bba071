"""Test JSON patches, with the leniency of Kubernetes' library."""

import copy
from typing import Any

import pytest
from dra_apiserver.patch.operations import OperationFailed, apply_operations

from tests.support.cases import each_case

OBJECT = {"a": {"b": [1, 2, 3], "c/d": "x"}, "n": 1}


def apply_to_object(*operations: dict[str, Any]) -> Any:
    return apply_operations(copy.deepcopy(OBJECT), list(operations))


@each_case(
    ("operation", "path", "value"),
    [
        ({"op": "add", "path": "/a/b/-", "value": 4}, ("a", "b"), [1, 2, 3, 4]),
        ({"op": "add", "path": "/a/b/-1", "value": 4}, ("a", "b"), [1, 2, 3, 4]),
        ({"op": "add", "path": "/a/b/+1", "value": 4}, ("a", "b"), [1, 4, 2, 3]),
        ({"op": "remove", "path": "/a/b/-1"}, ("a", "b"), [1, 2]),
        ({"op": "replace", "path": "/a/new", "value": 4}, ("a", "new"), 4),
        ({"op": "add", "path": "ignored/new"}, ("new",), None),
        ({"op": "copy", "path": "/a/c", "from": "/a/nothing"}, ("a", "c"), None),
        ({"op": "move", "path": "/m", "from": "/a/c~1d"}, ("m",), "x"),
        ({"op": "replace", "path": "", "value": {"z": 1}}, ("z",), 1),
        ({"op": "test", "path": "/a/nothing"}, ("n",), 1),
    ],
)
def test_each_json_patch_operation_has_the_expected_result(
    operation: dict[str, Any], path: tuple[str, ...], value: Any
) -> None:
    found = apply_to_object(operation)
    for step in path:
        found = found[step]
    assert found == value


@each_case(
    ("operation", "message"),
    [
        (
            {"op": "add", "path": "", "value": 1},
            'add operation does not apply: doc is missing path: "": missing',
        ),
        (
            {"op": "add", "path": "/a/b/5", "value": 1},
            "error in add for path: '/a/b/5': Unable to access invalid",
        ),
        (
            {"op": "add", "path": "/a/b/1_0", "value": 1},
            "error in add for path: '/a/b/1_0': value was not a proper array index: '1_0': strconv",
        ),
        (
            {"op": "remove", "path": "/a/x"},
            "error in remove for path: '/a/x': Unable to remove nonexistent key: x",
        ),
        ({"op": "replace", "path": "/a/b/-"}, "replace operation does not apply: doc is missing key: /a/b/-"),
        ({"op": "replace", "path": "", "value": 1}, "replace operation value must be object or array"),
        (
            {"op": "move", "path": "/a/b/x", "from": "/a"},
            "move operation does not apply: doc is missing destination",
        ),
        (
            {"op": "copy", "path": "/x", "from": "/n/0"},
            "copy operation does not apply: doc is missing from path",
        ),
        ({"op": "test", "path": "/n", "value": 1.0}, "testing value /n failed: test failed"),
        ({"op": "test", "path": "/a/b", "value": [1, 2]}, "testing value /a/b failed: test failed"),
        ({"op": "test", "value": 1}, "test operation failed to decode path: operation missing path field"),
        ({"op": "what"}, "Unexpected kind: what"),
        ({"path": "/n"}, "Unexpected kind: unknown"),
    ],
)
def test_each_failing_json_patch_operation_has_the_expected_error(
    operation: dict[str, Any], message: str
) -> None:
    with pytest.raises(OperationFailed) as caught:
        apply_to_object(operation)
    assert str(caught.value).startswith(message)


def test_values_of_a_patch_are_copied() -> None:
    value: dict[str, Any] = {"x": 1}
    apply_to_object({"op": "add", "path": "/v", "value": value}, {"op": "add", "path": "/v/x", "value": 2})
    assert value == {"x": 1}


def test_repeated_copy_operations_are_limited_in_size() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{number}"} for number in range(40)]
    with pytest.raises(
        OperationFailed, match=r"accumulated size increase of copy is [0-9]+, exceeding the limit 3145728"
    ):
        apply_to_object(*doubling)
    assert apply_to_object(*doubling[:3])["a"]["2"]["1"]["0"] == OBJECT["a"]

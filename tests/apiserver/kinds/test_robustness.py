"""Test that every body, whatever it contains, is answered with a Status."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from dra_recordings.validate import answer
from dra_shared.jsontypes import JsonObject
from dra_shared.version import DEFAULT, RECORDED
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import apiobjects as objects
from tests.support.cases import each_case
from tests.support.sampling import either

RESOURCE = [
    objects.CLAIM,
    objects.TEMPLATE,
    objects.SLICE,
    objects.CLASS,
    objects.RULE,
    objects.POOL_STATUS,
]
GATES = {
    "DRAListTypeAttributes": True,
    "DRANodeAllocatableResources": True,
    "DRAConsumableCapacity": True,
    "DRAPartitionableDevices": True,
}
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, [], {}, "", "x" * 300, -1, 0, 2**31, 2**63 - 1, 2**64, 1e30, 0.5, True, False, "0", "-1", "1e400", "1n",
     "0.0001m", [None], [[]], [{}], {"": None}, {"a": {}}, "\x00", "é" * 40, "a/b/c", ["a", "a"], "9" * 400,
     "1e99999999", "1Ki", "100000000000Ei", "-0"]
)  # fmt: skip
Change = tuple[int, bool, Any]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) in a JSON value except the apiVersion and kind."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key not in ("apiVersion", "kind"):
            yield value, key
            yield from _places(item)


def _mutate(obj: JsonObject, changes: list[Change]) -> JsonObject:
    made = copy.deepcopy(obj)
    for number, remove, junk in changes:
        places = list(_places(made))
        if not places:
            return made
        container, key = places[number % len(places)]
        if remove:
            del container[key]
        else:
            container[key] = copy.deepcopy(junk)
    return made


_CHANGES = st.lists(st.tuples(st.integers(0, 10_000), st.booleans(), JUNK), min_size=1, max_size=4)


def _case(obj: JsonObject, old: JsonObject, operation: str) -> JsonObject:
    namespaces = [{"metadata": {"name": "default"}}]
    return {
        "object": obj,
        "oldObject": old,
        "operation": operation,
        "featureGates": GATES,
        "namespaces": namespaces,
    }


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["create", "update", "statusUpdate"])
@settings(max_examples=either(300, few=50), deadline=None, derandomize=True)
@given(base=st.sampled_from(RESOURCE), changes=_CHANGES)
def test_any_body_is_accepted_or_rejected_without_an_exception(
    operation: str, base: JsonObject, changes: list[Change]
) -> None:
    case = _case(_mutate(base, changes), base, operation)
    for version in (RECORDED, DEFAULT):
        ours = answer({**copy.deepcopy(case), "kubernetesVersion": str(version)})
        assert "oracleError" in ours or isinstance(ours["server"]["allowed"], bool)


@each_case("obj", objects.CORE, ids=[obj["kind"] for obj in objects.CORE])
def test_a_valid_object_of_each_kind_is_accepted(obj: JsonObject) -> None:
    new = copy.deepcopy(obj)
    del new["metadata"]["resourceVersion"]
    ours = answer(_case(new, new, "create"))
    assert ours["server"]["allowed"], ours
    stored = {**ours["server"]["object"], "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    # Responses omit it, and updates of some kinds need it.
    stored["metadata"]["resourceVersion"] = obj["metadata"]["resourceVersion"]
    if obj["kind"] == "Job":
        # Responses omit the uid, and a job's pods are named after it.
        stored["metadata"]["uid"] = stored["spec"]["template"]["metadata"]["labels"]["controller-uid"]
    again = answer(_case(stored, stored, "update"))
    assert again["server"]["allowed"], again


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["create", "update", "statusUpdate"])
@settings(max_examples=either(400, few=60), deadline=None, derandomize=True)
@given(base=st.sampled_from(objects.CORE), changes=_CHANGES)
def test_any_body_of_a_core_kind_is_accepted_or_rejected(
    operation: str, base: JsonObject, changes: list[Change]
) -> None:
    ours = answer(_case(_mutate(base, changes), base, operation))
    assert "oracleError" in ours or isinstance(ours["server"]["allowed"], bool)


# Go rounds a quantity up to a whole number, so a step of 1n counts as a step of 1.
@pytest.mark.parametrize(
    ("step", "refused"), [("0", True), ("-1", False), ("1n", False), ("0.5", False), ("9" * 30, True)]
)
def test_capacity_steps_of_any_size_are_validated(step: str, refused: bool) -> None:
    obj = copy.deepcopy(objects.SLICE)
    obj["spec"]["devices"][0]["capacity"]["memory"]["requestPolicy"]["validRange"]["step"] = step
    fields = [error["field"] for error in answer(_case(obj, obj, "create"))["server"]["errors"]]
    assert any(field.endswith("validRange.step") for field in fields) == refused

"""Test the checks of Kubernetes 1.37 for node-allocatable resources and capacity ranges."""

from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.apiserver.kinds.resource.answers import Errors, errors, slice_of
from tests.support.cases import each_case


def allocatable(entry: JsonObject, name: str = "cpu") -> Errors:
    device = {
        "name": "d",
        "capacity": {"cores": {"value": "4"}},
        "nodeAllocatableResources": {name: entry},
    }
    at = f"spec.devices[0].nodeAllocatableResources[{name}]"
    return [
        (type_, field.removeprefix(at), body)
        for type_, field, body in errors(slice_of(device), "DRANodeAllocatableResources")
    ]


@each_case(
    ("entry", "wanted"),
    [
        ({"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}}, []),
        ({"mapping": {"deviceMultiplier": "2"}, "overhead": {"perPod": "0"}}, []),
        ({}, [("FieldValueRequired", "", "Required value: at least one of mapping or overhead must be set")]),
        (
            {"mapping": {"capacityKey": "cores"}},
            [
                (
                    "FieldValueRequired",
                    ".mapping.capacityMultiplier",
                    "Required value: capacityMultiplier is required when capacityKey is set",
                )
            ],
        ),
        (
            {"mapping": {"capacityMultiplier": "1"}},
            [
                (
                    "FieldValueRequired",
                    ".mapping.capacityKey",
                    "Required value: capacityKey is required when capacityMultiplier is set",
                ),
                (
                    "FieldValueInvalid",
                    ".mapping",
                    'Invalid value: "": must specify one of: `capacityKey`, `deviceMultiplier`',
                ),
            ],
        ),
        (
            {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1", "deviceMultiplier": "1"}},
            [
                (
                    "FieldValueInvalid",
                    ".mapping",
                    'Invalid value: "{capacityKey, deviceMultiplier}": '
                    "must specify exactly one of: `capacityKey`, `deviceMultiplier`",
                )
            ],
        ),
        (
            {"mapping": {"capacityKey": "none", "capacityMultiplier": "0"}},
            [
                ("FieldValueNotFound", ".mapping.capacityKey", 'Not found: "none"'),
                ("FieldValueInvalid", ".mapping.capacityMultiplier", 'Invalid value: "0": must be positive'),
            ],
        ),
        (
            {"mapping": {"deviceMultiplier": "-1"}},
            [("FieldValueInvalid", ".mapping.deviceMultiplier", 'Invalid value: "-1": must be positive')],
        ),
        (
            {"overhead": {}},
            [
                (
                    "FieldValueInvalid",
                    ".overhead",
                    'Invalid value: "": at least one of perPod or perContainer must be set',
                )
            ],
        ),
        (
            {"overhead": {"perContainer": "-1Mi"}},
            [
                (
                    "FieldValueInvalid",
                    ".overhead.perContainer",
                    'Invalid value: "-1Mi": must be non-negative',
                )
            ],
        ),
    ],
)
def test_node_allocatable_resources_are_checked(entry: JsonObject, wanted: Errors) -> None:
    assert allocatable(entry) == wanted


def test_only_resources_of_nodes_are_accepted_as_node_allocatable() -> None:
    text = 'Invalid value: "example.com/gpu": must be a node allocatable resource name'
    assert allocatable({"mapping": {"deviceMultiplier": "1"}}, "example.com/gpu") == [
        ("FieldValueInvalid", "", text)
    ]


def ranges(valid_range: JsonObject, default: str = "1", value: str = "10", **how: Any) -> Errors:
    policy = {"default": default, "validRange": valid_range}
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": value, "requestPolicy": policy}},
    }
    at = "spec.devices[0].capacity[m].requestPolicy.validRange"
    gates = ["DRAConsumableCapacity", *how.pop("gates", ())]
    return [
        (type_, field.removeprefix(at), body)
        for type_, field, body in errors(slice_of(device), *gates, **how)
    ]


FRACTIONS = {"gates": ("DRAFractionalCapacityRange",)}
STEP = "must be greater than zero"


@each_case(
    ("valid_range", "default", "how", "wanted"),
    [
        ({"min": "500m", "step": "500m", "max": "2500m"}, "1", FRACTIONS, []),
        (
            {"min": "500m", "step": "500m"},
            "1200m",
            FRACTIONS,
            [
                (
                    "FieldValueInvalid",
                    ".step",
                    'Invalid value: "1200m": value is not a multiple of a given step (500m) from (500m)',
                )
            ],
        ),
        (
            {"min": "1u"},
            "1",
            FRACTIONS,
            [
                (
                    "FieldValueInvalid",
                    ".min",
                    'Invalid value: "1u": value cannot be represented as a milli value',
                )
            ],
        ),
        ({"min": "1", "step": "0"}, "1", {}, [("FieldValueInvalid", ".step", f'Invalid value: "0": {STEP}')]),
        (
            {"min": "-1", "step": "1"},
            "1",
            {},
            [("FieldValueInvalid", ".min", 'Invalid value: "-1": must be greater than or equal to 0')],
        ),
        (
            {"min": "2"},
            "1",
            {},
            [("FieldValueInvalid", ".default", 'Invalid value: "1": default is less than min: 2')],
        ),
        (
            {"min": "2"},
            "1",
            {"version": V1_36},
            [("FieldValueInvalid", ".min", 'Invalid value: "1": default is less than min: 2')],
        ),
        # Without the gate whole units count, and half a step rounds up to one.
        ({"min": "500m", "step": "500m"}, "1200m", {}, []),
    ],
)
def test_invalid_ranges_of_capacity_are_rejected(
    valid_range: JsonObject, default: str, how: JsonObject, wanted: Errors
) -> None:
    assert ranges(valid_range, default, **dict(how)) == wanted


def test_capacity_range_bounds_beyond_64_bits_are_rejected() -> None:
    text = 'Invalid value: "18446744073709551616": must not be larger than 9223372036854775807'
    huge = "18446744073709551616"
    assert ranges({"min": "0", "step": huge}, "0", "36893488147419103232") == [
        ("FieldValueInvalid", ".step", text)
    ]


def test_valid_capacity_values_may_differ_by_a_fraction_if_the_gate_is_enabled() -> None:
    policy = {"default": "1", "validValues": ["500m", "1"]}
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "10", "requestPolicy": policy}},
    }
    gates = ("DRAConsumableCapacity", "DRAFractionalCapacityRange")
    assert errors(slice_of(device), *gates) == []
    assert [type_ for type_, _, _ in errors(slice_of(device), gates[0])] == ["FieldValueDuplicate"]


def test_unchanged_capacity_is_not_validated_again() -> None:
    policy = {"default": "1", "validRange": {"min": "2"}}
    capacity = {"m": {"value": "10", "requestPolicy": policy}}
    old = slice_of({"name": "d", "allowMultipleAllocations": True, "capacity": capacity})
    old["metadata"]["resourceVersion"] = "1"
    assert errors(old, "DRAConsumableCapacity", old=old) == []
    assert errors(old, "DRAConsumableCapacity", old=old, version=V1_36) != []

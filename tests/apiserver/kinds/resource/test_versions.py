"""Test the differences in the validation of resource.k8s.io between versions of Kubernetes."""

from typing import Any

import pytest
from dra_recordings.validate import answer
from dra_shared.jsontypes import JsonObject


def errors(version: str, obj: JsonObject) -> list[tuple[str, str]]:
    found: JsonObject = answer({"object": obj, "kubernetesVersion": version})["server"]
    return [(error["field"], error["body"]) for error in found["errors"]]


def slice_of(*devices: JsonObject, **spec: Any) -> JsonObject:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d.example.com", "pool": pool, "allNodes": True, "devices": list(devices), **spec},
    }


def claim(*requests: JsonObject, **devices: Any) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def request(name: str) -> JsonObject:
    exactly = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    return {"name": name, "exactly": exactly}


COUNTERS = [{"name": "cs", "counters": {"memory": {"value": "80Gi"}}}]
CONSUMES = [{"counterSet": "cs", "counters": {"memory": {"value": "40Gi"}}}]
NO_VALUE = "exactly one value must be specified"


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
def test_counter_sets_and_devices_must_be_in_separate_slices_since_1_35(version: str) -> None:
    one_slice = errors(
        version, slice_of({"name": "a", "consumesCounters": CONSUMES}, sharedCounters=COUNTERS)
    )
    apart = errors(version, slice_of({"name": "a", "consumesCounters": CONSUMES}))
    if version == "1.34":
        text = 'Invalid value: "cs": must reference a counterSet defined in the ResourceSlice sharedCounters'
        assert one_slice == []
        assert apart == [("spec.devices[0].consumesCounters[0].counterSet", text)]
    else:
        assert one_slice == [
            ("spec", 'Invalid value: "": only one of `sharedCounters` or `devices` is allowed')
        ]
        assert apart == []


def test_counters_must_be_in_the_same_slice_and_are_limited_in_1_34() -> None:
    def consumer(**counters: str) -> JsonObject:
        return {
            "name": "a",
            "consumesCounters": [
                {"counterSet": "cs", "counters": {name: {"value": value} for name, value in counters.items()}}
            ],
        }

    assert errors("1.34", slice_of(consumer(cores="1"), sharedCounters=COUNTERS)) == [
        (
            "spec.devices[0].consumesCounters[0].counters",
            'Invalid value: "cores": must reference a counter defined in the ResourceSlice sharedCounters',
        )
    ]
    many = {f"c{index}": {"value": "1"} for index in range(33)}
    sets = [{"name": "cs", "counters": many}]
    consuming = {"name": "a", "consumesCounters": [{"counterSet": "cs", "counters": many}]}
    assert errors("1.34", slice_of(consuming, sharedCounters=sets)) == [
        ("spec.devices[0]", "Invalid value: 33: the total number of counters must not exceed 32"),
        ("spec.sharedCounters", "Invalid value: 33: the total number of shared counters must not exceed 32"),
    ]


@pytest.mark.parametrize(("version", "at"), [("1.34", "[1].name"), ("1.35", "[1]")])
def test_duplicates_are_reported_at_the_entry_since_1_35(version: str, at: str) -> None:
    expected = [(f"spec.devices.requests{at}", 'Duplicate value: "a"')]
    assert errors(version, claim(request("a"), request("a"))) == expected


@pytest.mark.parametrize(("version", "found"), [("1.34", 33), ("1.35", 1)])
def test_entries_of_lists_that_are_too_long_are_not_checked_since_1_35(version: str, found: int) -> None:
    requests = [{**request(f"r{index}"), "name": f"R{index}"} for index in range(33)]
    assert len(errors(version, claim(*requests))) == (found + 1 if version == "1.34" else found)


@pytest.mark.parametrize(("version", "kind"), [("1.34", "Required value"), ("1.35", 'Invalid value: ""')])
def test_an_attribute_needs_a_value(version: str, kind: str) -> None:
    device = {"name": "a", "attributes": {"model": {}}}
    assert errors(version, slice_of(device)) == [("spec.devices[0].attributes[model]", f"{kind}: {NO_VALUE}")]


def test_a_driver_without_a_name_has_two_errors_in_1_34() -> None:
    unnamed = slice_of()
    unnamed["spec"]["driver"] = ""
    assert [body for _, body in errors("1.35", unnamed)] == ["Required value"]
    first, second = (body for _, body in errors("1.34", unnamed))
    assert first == "Required value"
    assert second.startswith('Invalid value: "": a lowercase RFC 1123 subdomain')


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.34", "must include a domain"),
        ("1.35", "a fully qualified name must be a domain and a name separated by a slash"),
    ],
)
def test_an_attribute_of_a_constraint_needs_a_domain(version: str, text: str) -> None:
    expected = [("spec.devices.constraints[0].matchAttribute", f'Invalid value: "numa": {text}')]
    assert errors(version, claim(request("a"), constraints=[{"matchAttribute": "numa"}])) == expected


@pytest.mark.parametrize(("version", "expected"), [("1.34", 2), ("1.35", 1)])
def test_a_request_with_both_exactly_and_first_available_has_both_validated_in_1_34(
    version: str, expected: int
) -> None:
    both = {**request("a"), "firstAvailable": [{"name": "B", "deviceClassName": "c"}]}
    both["firstAvailable"][0] |= {"allocationMode": "ExactCount", "count": 1}
    assert len(errors(version, claim(both))) == expected


@pytest.mark.parametrize(("version", "allowed"), [("1.34", False), ("1.35", True)])
def test_taints_without_effect_are_valid_since_1_35(version: str, allowed: bool) -> None:
    device = {"name": "a", "taints": [{"key": "k", "effect": "None"}]}
    found = errors(version, slice_of(device))
    assert not found if allowed else [field for field, _ in found] == ["spec.devices[0].taints[0].effect"]
    if not allowed:
        assert found[0][1] == 'Unsupported value: "None": supported values: "NoExecute", "NoSchedule"'


@pytest.mark.parametrize(("version", "at"), [("1.35", "attributes[a b]"), ("1.36", "attributes")])
def test_invalid_map_keys_are_reported_at_the_map_since_1_36(version: str, at: str) -> None:
    device = {"name": "a", "attributes": {"a b": {"int": 1}}}
    assert [field for field, _ in errors(version, slice_of(device))] == [f"spec.devices[0].{at}"]


def test_rules_for_taints_select_by_class_and_expression_in_1_34_alone() -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {"deviceClassName": "Bad", "selectors": [{"cel": {"expression": "1"}}]},
            "taint": {"key": "k", "effect": "NoExecute"},
        },
    }
    assert [field for field, _ in errors("1.34", rule)] == [
        "spec.deviceSelector.deviceClassName",
        "spec.deviceSelector.selectors[0].cel.expression",
    ]
    refused = answer({"object": rule, "kubernetesVersion": "1.36"})["oracleError"]
    assert 'unknown field "spec.deviceSelector.deviceClassName"' in refused


def test_fields_of_later_versions_are_unknown() -> None:
    device = {"name": "a", "attributes": {"models": {"strings": ["x"]}}}
    refused = answer({"object": slice_of(device), "kubernetesVersion": "1.35"})["oracleError"]
    assert 'unknown field "spec.devices[0].attributes.models.strings"' in refused
    assert "server" in answer({"object": slice_of(device), "kubernetesVersion": "1.36"})

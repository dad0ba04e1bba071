"""Validation of resource.k8s.io since Kubernetes 1.38."""

import pytest
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, V1_38, Version

from tests.apiserver.kinds.resource.answers import errors, get_answer, slice_of

_BOTH = pytest.mark.parametrize("version", [V1_37, V1_38], ids=str)
_AT = "spec.devices.requests[0].exactly.capacity.requests"


def claim(kind: str = "ResourceClaim", **amounts: str) -> JsonObject:
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": amounts}}
    spec: JsonObject = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    meta = {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    whole = spec if kind == "ResourceClaim" else {"spec": spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": meta, "spec": whole}


def remove_identity(obj: JsonObject) -> JsonObject:
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {**obj, "metadata": metadata}


def mark_stored(obj: JsonObject) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "uid": "u", "resourceVersion": "1"}}


@_BOTH
def test_names_and_amounts_of_requested_capacities_are_validated(version: Version) -> None:
    found = errors(remove_identity(claim(**{"a/b/c": "1", "memory": "-1"})), version=version)
    if version < V1_38:
        assert found == []
        return
    assert sorted(found) == [
        ("FieldValueInvalid", _AT, 'Invalid value: "a/b/c": must not contain more than one slash'),
        ("FieldValueInvalid", f"{_AT}[memory]", 'Invalid value: "-1": must be greater than or equal to 0'),
    ]


def test_more_than_32_requested_capacities_are_refused() -> None:
    found = errors(remove_identity(claim(**{f"c{index}": "1" for index in range(33)})), version=V1_38)
    assert found == [("FieldValueTooMany", _AT, "Too many: 33: must have at most 32 items")]


@_BOTH
def test_update_of_a_template_validates_its_spec_again(version: Version) -> None:
    template = claim("ResourceClaimTemplate", memory="1")
    template["spec"]["spec"]["devices"]["requests"][0]["name"] = "Not a label"
    found = errors(template, version=version, old=template)
    assert [field for _, field, _ in found] == ["spec.spec.devices.requests[0].name"]


def test_stored_template_keeps_the_names_of_its_capacities() -> None:
    template = claim("ResourceClaimTemplate", **{"a/b/c": "1"})
    assert errors(template, version=V1_38, old=template) == []
    assert errors(remove_identity(template), version=V1_38) != []


@_BOTH
def test_devices_that_did_not_change_are_not_validated_again(version: Version) -> None:
    old = mark_stored(slice_of({"name": "Not a label"}))
    changed = mark_stored(slice_of({"name": "Not a label"}, pool={**old["spec"]["pool"], "generation": 2}))
    assert (errors(changed, version=version, old=old) == []) is (version >= V1_38)
    more = mark_stored(slice_of({"name": "Not a label"}, {"name": "b"}))
    assert "spec.devices[0].name" in [field for _, field, _ in errors(more, version=version, old=old)]


@_BOTH
def test_a_node_selector_of_a_device_with_two_terms_is_rejected(version: Version) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    device = {"name": "a", "nodeSelector": {"nodeSelectorTerms": [term, term]}}
    obj = slice_of(device, perDeviceNodeSelection=True)
    del obj["spec"]["nodeName"]
    found = [(field, text.rpartition(": ")[2]) for _, field, text in errors(obj, version=version)]
    wanted = ("spec.devices[0].nodeSelector.nodeSelectorTerms", "must have exactly one node selector term")
    assert found == ([] if version < V1_38 else [wanted])


@_BOTH
@pytest.mark.parametrize("text", ["1.2.9999999999999999999", "1.2.3-9999999999999999999"])
def test_version_attributes_with_numbers_of_more_than_18_digits_are_rejected(
    version: Version, text: str
) -> None:
    found = errors(slice_of({"name": "a", "attributes": {"fw": {"version": text}}}), version=version)
    assert [field for _, field, _ in found] == (
        [] if version < V1_38 else ["spec.devices[0].attributes[fw].version"]
    )
    assert errors(slice_of({"name": "a", "attributes": {"fw": {"version": "1.2.3-4.rc+5"}}})) == []


@_BOTH
def test_a_node_resource_mapping_needs_a_capacity_key_and_a_multiplier(version: Version) -> None:
    device = {
        "name": "a",
        "capacity": {"cores": {"value": "4"}},
        "nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "cores"}}},
    }
    found = errors(slice_of(device), "DRANodeAllocatableResources", version=version)
    at = "spec.devices[0].nodeAllocatableResources[cpu].mapping.capacityMultiplier"
    text = (
        "capacityMultiplier is required when capacityKey is set"
        if version < V1_38
        else "must be set when capacityKey is set"
    )
    assert found == [("FieldValueRequired", at, f"Required value: {text}")]


@_BOTH
@pytest.mark.parametrize(("selector", "warned"), [(None, False), ({}, True), ({"driver": "d"}, False)])
def test_a_taint_rule_with_an_empty_selector_gets_a_warning(
    version: Version, selector: JsonObject | None, warned: bool
) -> None:
    spec: JsonObject = {"taint": {"key": "k", "effect": "NoSchedule"}}
    if selector is not None:
        spec["deviceSelector"] = selector
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": spec,
    }
    server = get_answer(rule, "DRADeviceTaintRules", version=version)["server"]
    text = "spec.deviceSelector: an empty selector matches every device from every driver in the cluster"
    assert (server.get("warnings") or []) == ([text] if warned and version >= V1_38 else [])


@pytest.mark.parametrize(("status", "valid"), [("True", True), ("Unknown", True), ("Maybe", False)])
def test_the_status_of_a_condition_is_one_of_three_values(status: str, valid: bool) -> None:
    old = claim(memory="1")
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    old["status"] = {"allocation": {"devices": {"results": [result]}}}
    condition = {"type": "Ready", "status": status, "reason": "R", "message": ""}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    device = {"driver": "gpu.example.com", "pool": "p", "device": "d", "conditions": [condition]}
    new = {**old, "status": {**old["status"], "devices": [device]}}
    found = errors(new, version=V1_38, old=old, operation="statusUpdate")
    where = "status.devices[0].conditions[0].status"
    text = 'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"'
    assert found == ([] if valid else [("FieldValueNotSupported", where, text)])


def test_the_status_of_a_taint_rule_is_validated_by_declared_rules_without_a_warning() -> None:
    spec = {"deviceSelector": {}, "taint": {"key": "a", "effect": "NoSchedule"}}
    meta = {"name": "r", "uid": "u", "resourceVersion": "1"}
    old = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": meta, "spec": spec}
    new = {**old, "status": {"conditions": [{"status": "True", "reason": "R", "message": ""}]}}
    server = get_answer(new, version=V1_38, old=old, operation="statusUpdate")["server"]
    found = {error["field"]: error["body"] for error in server["errors"]}
    assert found["status.conditions[0].type"] == "Required value"
    assert not server.get("warnings")

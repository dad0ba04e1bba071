"""Test cases in which the real validation of a release and dralab's differed (``make compare COMPARE=validate``)."""

from typing import Any

import pytest
from dra_recordings.validate import answer
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version, release

from tests.apiserver.kinds.resource.answers import errors, get_stored, slice_of

ADMIN = {"metadata": {"name": "default", "labels": {}}}


def claim(exactly: JsonObject | None = None, status: JsonObject | None = None, **devices: Any) -> JsonObject:
    request = {"name": "r", "exactly": {"deviceClassName": "c", **(exactly or {})}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default", "resourceVersion": "1"},
        "spec": {"devices": {"requests": [request], **devices}},
        **({"status": status} if status is not None else {}),
    }


def build_allocation(**result: Any) -> JsonObject:
    results = [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "d0", **result}]
    return {"allocation": {"devices": {"results": results}}}


def update_status(
    new: JsonObject, old: JsonObject, kubernetes: Version, **more: Any
) -> list[tuple[str, str]]:
    """Return the types and fields of the errors. All gates have their defaults."""
    case = {
        "operation": "statusUpdate",
        "kubernetesVersion": str(kubernetes),
        "featureGates": {name: gate.default for name, gate in release(kubernetes).gates.items()},
        "namespaces": [ADMIN],
        "object": claim(status=new),
        "oldObject": claim(status=old),
        **more,
    }
    return [(error["type"], error["field"]) for error in answer(case)["server"]["errors"]]


def test_admin_access_is_checked_if_an_allocation_without_it_changes() -> None:
    found = update_status(build_allocation(adminAccess=True), build_allocation(), V1_37)
    assert ("FieldValueForbidden", "status.allocation.devices.results[0].adminAccess") in found


def test_admin_access_that_was_granted_is_not_checked_again() -> None:
    granted = build_allocation(adminAccess=True)
    assert update_status(granted, granted, V1_37) == []


@pytest.mark.parametrize(
    ("kubernetes", "field", "kinds"),
    [
        (V1_36, "status.devices[0].conditions[0]", {"FieldValueInvalid", "FieldValueNotSupported"}),
        (V1_37, "status.devices[0].conditions[0]", {"FieldValueRequired"}),
    ],
)
def test_empty_type_and_status_of_a_condition_are_reported_as_missing_since_1_37(
    kubernetes: Version, field: str, kinds: set[str]
) -> None:
    good = {"reason": "Good", "message": "", "lastTransitionTime": "2024-05-06T07:08:09Z"}
    device = {"driver": "d.example.com", "pool": "p", "device": "d0", "conditions": [good]}
    found = update_status({**build_allocation(), "devices": [device]}, build_allocation(), kubernetes)
    assert {kind for kind, _ in found} == kinds
    assert {name for _, name in found} == {f"{field}.type", f"{field}.status"}


def test_the_second_of_two_equal_device_statuses_requires_permission_to_update_it() -> None:
    device = {"driver": "d.example.com", "pool": "p", "device": "d0"}
    status = {**build_allocation(), "devices": [device, device]}
    denied = {"resource": "resourceclaims", "allowed": False, "reason": "no"}
    driver = {
        **denied,
        "verb": "arbitrary-node:update",
        "subresource": "driver",
        "name": "d.example.com",
    }
    found = update_status(status, status, V1_37, authorizationChecks=[driver])
    assert ("FieldValueForbidden", "status.devices") in found


def test_errors_with_the_same_text_are_reported_once_since_1_37() -> None:
    obj = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "c", "labels": {"a b": "c"}, "resourceVersion": "1"},
        "spec": {},
    }
    old = {**obj, "metadata": {"name": "c"}}
    assert len(errors(obj, version=V1_37, old=old)) == 1
    assert len(errors(obj, version=V1_36, old=old)) > 1


@pytest.mark.parametrize(
    ("name", "good"), [("cpu", True), ("hugepages-1Gi", True), ("kubernetes.io/x", False), ("gpus", False)]
)
def test_node_allocatable_resources_of_devices_must_be_resources_of_nodes(name: str, good: bool) -> None:
    device = {"name": "d", "nodeAllocatableResources": {name: {"mapping": {"deviceMultiplier": "1"}}}}
    found = errors(slice_of(device), "DRANodeAllocatableResources")
    assert [text for _, _, text in found] == (
        [] if good else [f'Invalid value: "{name}": must be a node allocatable resource name']
    )


def test_a_stored_unknown_operation_to_skip_is_not_rejected() -> None:
    old = slice_of(skipNodeOperations=["Later"])
    new = slice_of(skipNodeOperations=["*", "Later"])
    new["metadata"]["resourceVersion"] = "1"
    gates = ("DRAOptionalNodeOperations", "NodeDeclaredFeatures")
    assert errors(new, *gates, old=old) == []
    assert [kind for kind, _, _ in errors(new, *gates)] == ["FieldValueNotSupported"]


def test_derived_attributes_are_validated_even_if_there_are_too_many() -> None:
    derived = [{"name": f"a.example.com/n{number}", "expression": "1"} for number in range(33)]
    found = errors(claim({"derivedAttributes": derived}), "DRADerivedAttributes")
    assert len(found) == 34
    assert found[-1][0] == "FieldValueTooMany"


def test_invalid_name_and_missing_reference_of_a_derived_attribute_are_two_errors() -> None:
    derived = [{"name": "UPPER/b", "expression": "1"}]
    found = [text for _, _, text in errors(claim({"derivedAttributes": derived}), "DRADerivedAttributes")]
    assert len(found) == 2
    assert "must be referenced" in found[0]


def test_a_changed_claim_spec_is_only_reported_as_immutable_if_beta_rules_are_off() -> None:
    old = claim({"derivedAttributes": [{"name": "a.example.com/n", "expression": "1"}]})
    new = claim({"derivedAttributes": [{}]})
    found = errors(new, "DRADerivedAttributes", old=old, off=("DeclarativeValidationBeta",))
    assert [field for _, field, _ in found] == ["spec"]


def test_empty_tolerations_of_v1beta1_are_absent_in_v1() -> None:
    obj = claim()
    request = {"name": "r", "deviceClassName": "c", "tolerations": []}
    template = {
        **obj,
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaimTemplate",
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    new = {**template, "spec": {"spec": {"devices": {"requests": [{**request, "count": 2}]}}}}
    [(_, _, text)] = errors(new, old=template)
    assert '"Tolerations":null' in text


def test_v1beta1_request_with_only_false_admin_access_is_converted_to_exactly() -> None:
    obj = claim()
    obj |= {
        "apiVersion": "resource.k8s.io/v1beta1",
        "spec": {"devices": {"requests": [{"name": "r", "adminAccess": False}]}},
    }
    assert "spec.devices.requests[0].exactly.deviceClassName" in {field for _, field, _ in errors(obj)}


def test_1_34_keeps_distinct_attributes_of_claims_while_the_gate_is_off() -> None:
    obj = claim(constraints=[{"distinctAttribute": "a.example.com/b"}])
    stored = get_stored(obj, version=V1_34, off=("DRAConsumableCapacity",))
    assert stored["spec"]["devices"]["constraints"] == obj["spec"]["devices"]["constraints"]
    found = errors(obj, version=V1_35, off=("DRAConsumableCapacity",))
    assert [field for _, field, _ in found] == ["spec.devices.constraints[0].matchAttribute"]


def test_empty_capacity_of_a_stored_claim_counts_as_field_in_use() -> None:
    obj = claim({"capacity": {"requests": {}}})
    assert errors(obj, version=V1_35, old=obj, off=("DRAConsumableCapacity",)) == []


@pytest.mark.parametrize(("kubernetes", "most"), [(V1_34, 4), (V1_35, 16)])
def test_number_of_taints_of_a_device_is_limited(kubernetes: Version, most: int) -> None:
    def count_errors(taints: int) -> int:
        device = {
            "name": "d",
            "taints": [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(taints)],
        }
        return len(errors(slice_of(device), "DRADeviceTaints", version=kubernetes))

    assert (count_errors(most), count_errors(most + 1)) == (0, 1)


def test_an_empty_name_is_shown_as_an_empty_string_in_messages() -> None:
    old = claim()
    new = claim(constraints=[{"distinctAttribute": ""}])
    text = next(text for _, field, text in errors(new, old=old, version=V1_34) if field == "spec")
    assert '"MatchAttribute":null,"DistinctAttribute":""' in text


def test_a_stored_derived_attribute_without_name_is_not_rejected_at_an_update() -> None:
    def template(count: int) -> JsonObject:
        obj = claim({"count": count, "derivedAttributes": [{"expression": "1"}]})
        return {**obj, "kind": "ResourceClaimTemplate", "spec": {"spec": obj["spec"]}}

    missing = "spec.spec.devices.requests[0].exactly.derivedAttributes[0].name"
    assert missing in {field for _, field, _ in errors(template(1), "DRADerivedAttributes")}
    changed = errors(template(2), "DRADerivedAttributes", old=template(1))
    assert missing not in {field for _, field, _ in changed}


def test_equal_errors_of_pool_status_requests_are_reported_once_in_1_36() -> None:
    obj = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "r", "finalizers": ["a b/c", "a b/c"]},
        "spec": {"driver": "d.example.com"},
    }
    assert len(errors(obj, "DRAResourcePoolStatus", version=V1_36)) == 1


def test_long_keys_are_shortened_by_their_bytes() -> None:
    counters = {"\u00e9" * 33: {"value": "1"}}
    device = {"name": "d", "consumesCounters": [{"counterSet": "c", "counters": counters}]}
    fields = {field for _, field, _ in errors(slice_of(device), "DRAPartitionableDevices", version=V1_34)}
    key = "\u00e9" * 15 + "..." + "\u00e9" * 15
    assert f"spec.devices[0].consumesCounters[0].counters[{key}]" in fields

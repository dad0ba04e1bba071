"""Test the limits and values of resource.k8s.io's types that the hand-written rules use."""

import pytest
from dra_apiserver.kinds.resource.claimspec import check_claim_spec
from dra_apiserver.kinds.resource.declared import limit, values
from dra_shared.features import FeatureGates


def test_limits_and_allowed_values_are_read_from_declared_tags() -> None:
    assert limit("DeviceAllocationResult", "config") == 64
    assert limit("NetworkDeviceData", "hardwareAddress") == 128
    assert values("DeviceToleration", "operator") == ("Equal", "Exists")


def test_reading_the_limit_of_a_field_without_a_declared_limit_raises() -> None:
    with pytest.raises(LookupError, match=r"Device\.name declares no limit"):
        limit("Device", "name")
    with pytest.raises(LookupError, match=r"Device\.name declares no values"):
        values("Device", "name")
    with pytest.raises(LookupError, match="Device has no field colour"):
        limit("Device", "colour")


def test_the_number_of_constraints_of_a_claim_is_limited_to_the_declared_maximum() -> None:
    allowed = limit("DeviceClaim", "constraints")
    one = {"matchAttribute": "gpu.example.com/numa"}
    devices = {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]}
    gates = FeatureGates()
    assert check_claim_spec({"devices": {**devices, "constraints": [one] * allowed}}, "spec", gates) == []
    errors = check_claim_spec({"devices": {**devices, "constraints": [one] * (allowed + 1)}}, "spec", gates)
    assert [str(error) for error in errors] == [
        "spec.devices.constraints: Too many: 33: must have at most 32 items"
    ]

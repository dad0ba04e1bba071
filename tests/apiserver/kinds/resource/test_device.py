"""Test that devices equal to one that is known to be valid are not checked again."""

from typing import Any

from dra_apiserver.kinds.resource.device import check_device
from dra_shared.features import FeatureGates

_GATES = FeatureGates()


def _device(**attributes: Any) -> dict[str, Any]:
    return {"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def _errors(device: dict[str, Any], old: dict[str, Any] | None = None, per_device: bool = False) -> list[str]:
    return [error.field for error in check_device(device, old, per_device, "d", _GATES)]


def test_the_length_of_a_string_that_differs_from_a_valid_device_is_checked() -> None:
    assert _errors(_device(uuid={"string": "a"})) == []
    assert _errors(_device(uuid={"string": "b" * 64})) == []
    assert _errors(_device(uuid={"string": "b" * 65})) == ["d.attributes[uuid].string"]
    assert _errors(_device(uuid={"string": "ü" * 33})) == ["d.attributes[uuid].string"]
    assert _errors(_device(uuid={"string": "a", "int": 1})) == ["d.attributes[uuid]"]
    assert _errors(_device(uuid={})) == ["d.attributes[uuid]"]


def test_a_device_with_another_version_attribute_name_or_key_is_validated_fully() -> None:
    assert _errors(_device(driver={"version": "1.0.0"})) == []
    assert _errors(_device(driver={"version": "1.0"})) == ["d.attributes[driver].version"]
    assert _errors({**_device(), "name": "Gpu"}) == ["d.name"]
    assert _errors(_device(**{"a-b": {"string": "a"}})) == ["d.attributes"]


def test_a_device_with_another_node_is_validated_again() -> None:
    device = {**_device(), "nodeName": "node-0"}
    assert _errors(device, per_device=True) == []
    assert _errors(device) == ["d"]


def test_devices_that_an_update_did_not_change_are_not_checked() -> None:
    bad = {**_device(), "taints": [{"key": "a b", "effect": "NoSchedule"}]}
    assert _errors(bad, old=bad) == []
    assert _errors(bad) == ["d.taints[0].key"]

"""Test the conversion of parameters of unknown drivers, and of manifests with mistakes."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from dra_shared.classic import Conversion, convert
from dra_shared.classic.notes import find_lost
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY

_PARAMETERS: JsonObject = {
    "apiVersion": "acc.resource.acme.dev/v1alpha2",
    "kind": "AccClaimParameters",
    "metadata": {"name": "two"},
    "spec": {"count": 2, "type": "half"},
}
_CLAIM: JsonObject = {
    "apiVersion": "resource.k8s.io/v1alpha2",
    "kind": "ResourceClaim",
    "metadata": {"name": "two"},
    "spec": {
        "resourceClassName": "acc",
        "parametersRef": {
            "apiGroup": "acc.resource.acme.dev",
            "kind": "AccClaimParameters",
            "name": "two",
        },
    },
}
_CLASS: JsonObject = {
    "apiVersion": "resource.k8s.io/v1alpha2",
    "kind": "ResourceClass",
    "metadata": {"name": "acc"},
    "driverName": "acc.acme.dev",
}


def _devices(conversion: Conversion) -> JsonObject:
    [claim] = [one for one in conversion.objects if one["kind"] == "ResourceClaim"]
    devices: JsonObject = claim["spec"]["devices"]
    return devices


@pytest.mark.parametrize("objects", [[_PARAMETERS, _CLAIM], [_CLAIM, _PARAMETERS]])
def test_count_and_class_of_unknown_parameters_are_kept(objects: list[JsonObject]) -> None:
    conversion = convert(objects)
    exactly = {"deviceClassName": "acc", "allocationMode": "ExactCount", "count": 2}
    assert _devices(conversion) == {"requests": [{"name": "device", "exactly": exactly}]}
    assert [one["kind"] for one in conversion.objects] == ["ResourceClaim"]
    assert {(note.subject, note.path) for note in find_lost(conversion.notes)} == {
        ("AccClaimParameters two", ""),
        ("AccClaimParameters two", "spec.type"),
        ("ResourceClaim two", "spec.parametersRef"),
    }


def test_unknown_parameters_are_a_config_of_the_driver_that_the_class_names() -> None:
    conversion = convert([_CLASS, _CLAIM, _PARAMETERS])
    parameters = {name: _PARAMETERS[name] for name in ("apiVersion", "kind", "spec")}
    devices = _devices(conversion)
    assert devices["config"] == [{"opaque": {"driver": "acc.acme.dev", "parameters": parameters}}]
    assert devices["requests"][0]["exactly"]["count"] == 2
    assert [one["kind"] for one in conversion.objects] == ["DeviceClass", "ResourceClaim"]
    assert ("AccClaimParameters two", "") in {(one.subject, one.path) for one in find_lost(conversion.notes)}


def test_each_claim_gives_shared_parameters_to_the_driver_of_its_class() -> None:
    other_class = {**_CLASS, "metadata": {"name": "other"}, "driverName": "other.acme.dev"}
    other_claim = {**_CLAIM, "metadata": {"name": "other"}}
    other_claim["spec"] = {**_CLAIM["spec"], "resourceClassName": "other"}
    conversion = convert([_CLASS, other_class, _CLAIM, other_claim, _PARAMETERS])
    claims = [one for one in conversion.objects if one["kind"] == "ResourceClaim"]
    drivers = [claim["spec"]["devices"]["config"][0]["opaque"]["driver"] for claim in claims]
    assert drivers == ["acc.acme.dev", "other.acme.dev"]


def test_unknown_parameters_without_a_reference_are_reported_as_lost() -> None:
    conversion = convert([_PARAMETERS])
    assert not conversion.objects
    assert [note.path for note in find_lost(conversion.notes)] == ["", "spec.type"]


def test_parameters_of_an_unknown_kind_are_removed_whatever_their_name() -> None:
    parameters = {**_PARAMETERS, "kind": "Accelerators"}
    claim = copy.deepcopy(_CLAIM)
    claim["spec"]["parametersRef"]["kind"] = "Accelerators"
    assert [one["kind"] for one in convert([claim, parameters]).objects] == ["ResourceClaim"]


def test_a_config_map_that_was_read_as_parameters_is_kept() -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"a": "b"}}
    claim = copy.deepcopy(_CLAIM)
    claim["spec"]["parametersRef"] = {"kind": "ConfigMap", "name": "s"}
    conversion = convert([claim, settings])
    assert settings in conversion.objects
    assert "config" not in _devices(conversion)


def test_objects_with_the_state_of_old_drivers_are_reported_as_lost() -> None:
    state = {**_PARAMETERS, "kind": "AccAllocationState"}
    [note] = find_lost(convert([state]).notes)
    assert note.text == "a driver publishes its devices as ResourceSlices"


def test_the_driver_name_of_known_parameters_is_not_taken_from_the_class() -> None:
    parameters = {
        "apiVersion": "gpu.nvidia.com/v1",
        "kind": "GpuClaimParameters",
        "metadata": {"name": "two"},
        "spec": {"sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"timeSlice": "Long"}}},
    }
    claim = copy.deepcopy(_CLAIM)
    claim["spec"]["parametersRef"] |= {"apiGroup": "gpu.nvidia.com", "kind": "GpuClaimParameters"}
    devices = _devices(convert([claim, parameters]))
    assert devices["config"][0]["opaque"]["driver"] == "gpu.nvidia.com"
    assert devices["requests"][0]["exactly"]["deviceClassName"] == "acc"


def _driver_requests(*drivers: str) -> list[JsonObject]:
    requests = [{"driverName": driver, "requests": [{"namedResources": {}}]} for driver in drivers]
    parameters = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaimParameters",
        "metadata": {"name": "two"},
        "driverRequests": requests,
    }
    claim = copy.deepcopy(_CLAIM)
    claim["spec"]["parametersRef"] |= {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters"}
    return [claim, parameters]


def test_requests_of_one_driver_keep_the_class_that_is_missing() -> None:
    conversion = convert(_driver_requests("acc.acme.dev"))
    assert [one["exactly"]["deviceClassName"] for one in _devices(conversion)["requests"]] == ["acc"]
    assert not find_lost(conversion.notes)


def test_a_missing_class_is_reported_for_requests_of_several_drivers() -> None:
    conversion = convert(_driver_requests("acc.acme.dev", "net.acme.dev"))
    assert [note.path for note in find_lost(conversion.notes)] == ["spec.resourceClassName"]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path and path[0] not in ("apiVersion", "kind"):
        yield path
    if isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(below, (*path, key))


@each_case("name", ["device-plugin", "named-resources", "nvidia", "training", "versions"])
@each_case("wrong", [None, "x", 7, [], [None], {"x": [1]}], ids=str)
def test_converting_a_manifest_with_a_value_of_a_wrong_type_raises_no_exception(
    name: str, wrong: Any
) -> None:
    objects = list(yaml.safe_load_all((REPOSITORY / "tests/data/classic" / f"{name}.yaml").read_text()))
    for index, obj in enumerate(objects):
        for *path, last in _places(obj):
            changed = copy.deepcopy(objects)
            parent = changed[index]
            for key in path:
                parent = parent[key]
            parent[last] = wrong
            convert(changed, {})

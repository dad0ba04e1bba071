"""Fields of some versions, and gated fields, are known, dropped or stored as upstream."""

import copy
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.common.declarative.structs import fields
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version, release

from tests.support.reference import reference_path

Path_ = tuple[str | int, ...]
_RELEASES = (V1_34, V1_35, V1_36, V1_37)

_DEVICE: Path_ = ("spec", "devices", 0)
_REQUEST: Path_ = ("spec", "devices", "requests", 0)
_EXACT: Path_ = (*_REQUEST, "exactly")
_FIRST: Path_ = (*_REQUEST, "firstAvailable")
_RESULT: Path_ = ("status", "allocation", "devices", "results", 0)
_SHARE = "8f6b7a0e-7a3c-4b0a-9a86-3d1a2f6f2a10"
_SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
_TOLERATIONS = [{"key": "example.com/broken", "operator": "Exists"}]
_COUNTERS = {"memory": {"value": "1Gi"}}
_CONSUMES = [{"counterSet": "set", "counters": _COUNTERS}]
_CAPACITY = {"requests": {"memory": "1Gi"}}
_DERIVED = [{"name": "example.com/half", "expression": "1"}]
_MATCH_DERIVED: dict[Path_, Any] = {
    ("spec", "devices", "constraints"): [{"matchAttribute": "example.com/half"}]
}
_SUBREQUEST = {"name": "first", "deviceClassName": "gpu"}
_PER_DEVICE: dict[Path_, Any] = {("spec", "allNodes"): None, ("spec", "perDeviceNodeSelection"): True}
_CONDITIONS: dict[Path_, Any] = {
    (*_DEVICE, "bindingConditions"): ["ready"],
    (*_DEVICE, "bindingFailureConditions"): ["failed"],
}
_RESULT_CONDITIONS: dict[Path_, Any] = {
    (*_RESULT, "bindingConditions"): ["ready"],
    (*_RESULT, "bindingFailureConditions"): ["failed"],
}


@dataclass(frozen=True)
class Case:
    """A field of an object, in v1's form. ``also`` has other fields that are required while the gate is enabled."""

    plural: str
    at: Path_
    value: Any
    also: dict[Path_, Any] = field(default_factory=dict)
    # Fields that are always present.
    always: dict[Path_, Any] = field(default_factory=dict)


def _list_attribute(name: str, value: Any) -> Case:
    at = (*_DEVICE, "attributes", "list")
    both = {at: {"string": "one", name: [value]}}
    return Case("resourceslices", (*at, name), [value], {at: {name: [value]}}, both)


def _sub(name: str, value: Any, also: dict[Path_, Any] | None = None) -> Case:
    return Case("resourceclaims", (*_FIRST, 0, name), value, also or {}, {_FIRST: [_SUBREQUEST]})


_CASES = {
    "AllocatedDeviceStatus.shareID": Case(
        "resourceclaims/status",
        ("status", "devices", 0, "shareID"),
        _SHARE,
        {(*_RESULT, "shareID"): _SHARE},
        {("status", "devices"): [{"driver": "gpu.example.com", "pool": "p", "device": "d"}]},
    ),
    "AllocationResult.allocationTimestamp": Case(
        "resourceclaims/status", ("status", "allocation", "allocationTimestamp"), "2026-01-01T00:00:00Z"
    ),
    "Device.allNodes": Case("resourceslices", (*_DEVICE, "allNodes"), True, _PER_DEVICE),
    "Device.nodeName": Case("resourceslices", (*_DEVICE, "nodeName"), "n", _PER_DEVICE),
    "Device.nodeSelector": Case("resourceslices", (*_DEVICE, "nodeSelector"), _SELECTOR, _PER_DEVICE),
    "Device.allowMultipleAllocations": Case("resourceslices", (*_DEVICE, "allowMultipleAllocations"), True),
    "Device.bindingConditions": Case(
        "resourceslices", (*_DEVICE, "bindingConditions"), ["ready"], _CONDITIONS
    ),
    "Device.bindingFailureConditions": Case(
        "resourceslices", (*_DEVICE, "bindingFailureConditions"), ["failed"], _CONDITIONS
    ),
    "Device.bindsToNode": Case("resourceslices", (*_DEVICE, "bindsToNode"), True, _CONDITIONS),
    "Device.consumesCounters": Case("resourceslices", (*_DEVICE, "consumesCounters"), _CONSUMES),
    "Device.nodeAllocatableResourceMappings": Case(
        "resourceslices",
        (*_DEVICE, "nodeAllocatableResourceMappings"),
        {"cpu": {"allocationMultiplier": "1"}},
    ),
    "Device.nodeAllocatableResources": Case(
        "resourceslices",
        (*_DEVICE, "nodeAllocatableResources"),
        {"cpu": {"mapping": {"deviceMultiplier": "1"}}},
    ),
    "Device.taints": Case(
        "resourceslices",
        (*_DEVICE, "taints"),
        [{"key": "example.com/broken", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    ),
    "DeviceAttribute.bools": _list_attribute("bools", True),
    "DeviceAttribute.ints": _list_attribute("ints", 1),
    "DeviceAttribute.strings": _list_attribute("strings", "a"),
    "DeviceAttribute.versions": _list_attribute("versions", "1.2.3"),
    "DeviceCapacity.requestPolicy": Case(
        "resourceslices",
        (*_DEVICE, "capacity", "memory", "requestPolicy"),
        {"default": "1Gi", "validValues": ["1Gi"]},
        {(*_DEVICE, "allowMultipleAllocations"): True},
    ),
    "DeviceClassSpec.extendedResourceName": Case(
        "deviceclasses", ("spec", "extendedResourceName"), "example.com/gpu"
    ),
    "DeviceConstraint.distinctAttribute": Case(
        "resourceclaims",
        ("spec", "devices", "constraints", 0, "distinctAttribute"),
        "example.com/numa",
        {("spec", "devices", "constraints", 0, "matchAttribute"): None},
        {("spec", "devices", "constraints"): [{"matchAttribute": "example.com/numa"}]},
    ),
    "DeviceCounterConsumption.compatibilityGroups": Case(
        "resourceslices",
        (*_DEVICE, "consumesCounters", 0, "compatibilityGroups"),
        ["mig"],
        always={(*_DEVICE, "consumesCounters"): _CONSUMES},
    ),
    "DeviceRequest.firstAvailable": Case("resourceclaims", _FIRST, [_SUBREQUEST]),
    "DeviceRequestAllocationResult.adminAccess": Case(
        "resourceclaims/status", (*_RESULT, "adminAccess"), True
    ),
    "DeviceRequestAllocationResult.bindingConditions": Case(
        "resourceclaims/status", (*_RESULT, "bindingConditions"), ["ready"], _RESULT_CONDITIONS
    ),
    "DeviceRequestAllocationResult.bindingFailureConditions": Case(
        "resourceclaims/status", (*_RESULT, "bindingFailureConditions"), ["failed"], _RESULT_CONDITIONS
    ),
    "DeviceRequestAllocationResult.consumedCapacity": Case(
        "resourceclaims/status",
        (*_RESULT, "consumedCapacity"),
        {"memory": "1Gi"},
        {(*_RESULT, "shareID"): _SHARE},
    ),
    "DeviceRequestAllocationResult.shareID": Case("resourceclaims/status", (*_RESULT, "shareID"), _SHARE),
    "DeviceRequestAllocationResult.skipNodeOperations": Case(
        "resourceclaims/status", (*_RESULT, "skipNodeOperations"), ["*"]
    ),
    "DeviceRequestAllocationResult.tolerations": Case(
        "resourceclaims/status", (*_RESULT, "tolerations"), _TOLERATIONS
    ),
    "DeviceSubRequest.capacity": _sub("capacity", _CAPACITY),
    "DeviceSubRequest.derivedAttributes": _sub("derivedAttributes", _DERIVED, _MATCH_DERIVED),
    "DeviceSubRequest.tolerations": _sub("tolerations", _TOLERATIONS),
    "ExactDeviceRequest.adminAccess": Case("resourceclaims", (*_EXACT, "adminAccess"), True),
    "ExactDeviceRequest.capacity": Case("resourceclaims", (*_EXACT, "capacity"), _CAPACITY),
    "ExactDeviceRequest.derivedAttributes": Case(
        "resourceclaims", (*_EXACT, "derivedAttributes"), _DERIVED, _MATCH_DERIVED
    ),
    "ExactDeviceRequest.tolerations": Case("resourceclaims", (*_EXACT, "tolerations"), _TOLERATIONS),
    "ResourceClaimStatus.devices": Case(
        "resourceclaims/status",
        ("status", "devices"),
        [{"driver": "gpu.example.com", "pool": "p", "device": "d"}],
    ),
    "ResourceSliceSpec.partitionTypeAttribute": Case(
        "resourceslices",
        ("spec", "partitionTypeAttribute"),
        "gpu.example.com/profile",
        {
            (*_DEVICE, "consumesCounters"): _CONSUMES,
            (*_DEVICE, "attributes"): {"profile": {"string": "half"}},
        },
    ),
    "ResourceSliceSpec.perDeviceNodeSelection": Case(
        "resourceslices",
        ("spec", "perDeviceNodeSelection"),
        True,
        {("spec", "allNodes"): None, (*_DEVICE, "nodeName"): "n"},
    ),
    "ResourceSliceSpec.sharedCounters": Case(
        "resourceslices",
        ("spec", "sharedCounters"),
        [{"name": "set", "counters": _COUNTERS}],
        {("spec", "devices"): None},
    ),
    "ResourceSliceSpec.skipNodeOperations": Case("resourceslices", ("spec", "skipNodeOperations"), ["*"]),
    "ResourcePoolStatusRequestSpec.defaultPartitionTypeAttribute": Case(
        "resourcepoolstatusrequests", ("spec", "defaultPartitionTypeAttribute"), "example.com/profile"
    ),
}

# Fields that the strategies do not drop although tags name a gate; by version.
_NEVER: dict[str, tuple[Version, ...]] = {
    "AllocationResult.allocationTimestamp": (V1_35, V1_36, V1_37),
    "DeviceConstraint.distinctAttribute": (V1_34,),
    "DeviceRequestAllocationResult.tolerations": _RELEASES,
    "DeviceSubRequest.tolerations": (V1_34,),
    "ExactDeviceRequest.tolerations": (V1_34,),
}
# In v1beta1, the fields of a request and of a device are in other types.
_IN_V1BETA1 = {"BasicDevice": "Device", "DeviceRequest": "ExactDeviceRequest"}


def _fields() -> dict[str, dict[str, dict[str, JsonObject]]]:
    """Return the table's entry by API version, type and field."""
    table = json.loads(reference_path("reference", "kubernetes-1.37", "fields-by-version.json").read_text())
    versions: dict[str, dict[str, dict[str, JsonObject]]] = table["versions"]
    return versions


def _table() -> Iterator[tuple[str, str, JsonObject]]:
    """Yield API version, field and entry of fields whose types every API version has."""
    for group_version, types in _fields().items():
        for type_name, listed in types.items():
            for name, about in listed.items():
                place = f"{type_name}.{name}"
                if group_version.endswith("v1beta1") and name != "firstAvailable":
                    place = f"{_IN_V1BETA1.get(type_name, type_name)}.{name}"
                if about.get("featureGate"):
                    yield group_version, place, about


@pytest.mark.parametrize("version", _RELEASES, ids=str)
def test_each_version_has_the_fields_of_its_types(version: Version) -> None:
    has = release(version)
    for group_version, types in _fields().items():
        package = f"resource/{group_version.partition('/')[2]}"
        for type_name, about in types.items():
            wanted = {name: str(version) in one["presentIn"] for name, one in about.items()}
            ours = {name: has.has_field(package, type_name, name) for name in about}
            # A type that the version lacks altogether needs no line on a page: no field and no kind leads to it.
            listed = {one.name for one in fields(f"io.k8s.api.{package.replace('/', '.')}.{type_name}")}
            lacked = listed == set(about) and not any(wanted.values())
            assert ours == wanted or lacked, (package, type_name)


def test_every_gated_field_has_a_case() -> None:
    assert {place for _, place, _ in _table()} == set(_CASES)


def _base(plural: str) -> JsonObject:
    kinds: dict[str, tuple[str, JsonObject]] = {
        "deviceclasses": ("DeviceClass", {}),
        "resourceclaims": (
            "ResourceClaim",
            {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        ),
        "resourceslices": (
            "ResourceSlice",
            {
                "driver": "gpu.example.com",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "allNodes": True,
                "devices": [{"name": "d", "capacity": {"memory": {"value": "8Gi"}}}],
            },
        ),
        "resourcepoolstatusrequests": ("ResourcePoolStatusRequest", {"driver": "gpu.example.com"}),
    }
    kind, spec = kinds[plural.partition("/")[0]]
    return {"kind": kind, "metadata": {}, "spec": copy.deepcopy(spec)}


def _put(obj: Any, at: Path_, value: Any) -> None:
    for key in at[:-1]:
        obj = obj[key] if isinstance(key, int) else obj.setdefault(key, {})
    if value is None:
        obj.pop(at[-1], None)
    else:
        obj[at[-1]] = copy.deepcopy(value)


def _get(obj: Any, at: Path_) -> Any:
    for key in at:
        if isinstance(key, int):
            obj = obj[key] if isinstance(obj, list) and len(obj) > key else None
        else:
            obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


def _flatten(obj: JsonObject) -> JsonObject:
    """Return the object in the form of v1beta1."""
    for request in _get(obj, ("spec", "devices", "requests")) or () if obj["kind"] == "ResourceClaim" else ():
        request |= request.pop("exactly", {})
    if obj["kind"] == "ResourceSlice":
        devices = obj["spec"].get("devices") or ()
        for device in devices:
            device["basic"] = {key: device.pop(key) for key in [*device] if key != "name"}
    return obj


def _flat(at: Path_) -> Path_:
    if at[:4] == _REQUEST and at[4:5] == ("exactly",):
        return (*_REQUEST, *at[5:])
    return (*_DEVICE, "basic", *at[3:]) if at[:3] == _DEVICE and len(at) > 3 else at


class _Cluster:
    """An API server of one version, with the gates enabled or disabled."""

    def __init__(self, version: Version, gates: FeatureGates, client: httpx.AsyncClient) -> None:
        self.version, self.gates, self._client = version, gates, client
        self._count = 0

    def keeps(self, place: str, about: JsonObject) -> bool:
        """True if the server stores the field."""
        if str(self.version) not in about["presentIn"]:
            return False
        gates = about["featureGate"][str(self.version)].split(",")
        if place.startswith("DeviceRequestAllocationResult.binding") and self.version >= V1_35:
            gates = ["DRADeviceBindingConditions"]
        if place.startswith("DeviceSubRequest") and not self.gates.enabled("DRAPrioritizedList"):
            return False
        return self.gates.all_enabled(gates) or self.version in _NEVER.get(place, ())

    async def answer(self, api: str, case: Case, *, kept: bool, strict: bool) -> httpx.Response:
        """Return the server's response for an object with the field."""
        self._count += 1
        name = f"o{self._count}"
        plural, _, status = case.plural.partition("/")
        root = f"/apis/{api}/{'namespaces/lab/' if plural == 'resourceclaims' else ''}{plural}"
        obj = _base(plural) | {"apiVersion": api, "metadata": {"name": name}}
        params = {"fieldValidation": "Strict" if strict else "Warn"}
        if not status:
            return await self._client.post(
                root, json=self._complete(api, case, obj, kept=kept), params=params
            )
        made = await self._client.post(root, json=_as(api, obj))
        assert made.status_code == 201, made.text
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"}
        obj["status"] = {"allocation": {"devices": {"results": [result]}}}
        body = self._complete(api, case, obj, kept=kept)
        return await self._client.put(f"{root}/{name}/status", json=body, params=params)

    def _complete(self, api: str, case: Case, obj: JsonObject, *, kept: bool) -> JsonObject:
        for at, value in case.always.items():
            _put(obj, at, value)
        _put(obj, case.at, case.value)
        for at, value in (case.also if kept else {}).items():
            _put(obj, at, value)
        if _get(obj, _FIRST) and self.gates.enabled("DRAPrioritizedList"):
            _put(obj, _EXACT, None)
        if _get(obj, (*_DEVICE, "consumesCounters")) and self.version < V1_35:
            obj["spec"]["sharedCounters"] = [{"name": "set", "counters": _COUNTERS}]
        return _as(api, obj)


def _as(api: str, obj: JsonObject) -> JsonObject:
    return _flatten(copy.deepcopy(obj)) if api.endswith("v1beta1") else obj


@pytest.fixture(params=[(v, on) for v in _RELEASES for on in (True, False)], ids=lambda p: f"{p[0]}-{p[1]}")
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[_Cluster]:
    version, on = request.param
    tagged = {
        gate
        for _, _, about in _table()
        for gates in about["featureGate"].values()
        for gate in gates.split(",")
    }
    known = release(version).gates
    wanted = {name: known[name].default if known[name].locked else on for name in tagged & known.keys()}
    gates = FeatureGates(version, **wanted)
    config = Config(
        port=0,
        data=tmp_path,
        database=IN_MEMORY,
        runtime_config="api/all=true",
        features=gates,
        disabled_plugins=frozenset({"ServiceAccount", "NodeDeclaredFeatureValidator"}),
    )
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        labels = {"resource.kubernetes.io/admin-access": "true"}
        made = await client.post("/api/v1/namespaces", json={"metadata": {"name": "lab", "labels": labels}})
        assert made.status_code == 201
        yield _Cluster(version, gates, client)


async def test_fields_are_stored_dropped_or_rejected_by_version_and_gate(cluster: _Cluster) -> None:
    wrong = []
    for api, place, about in _table():
        case = _CASES[place]
        if not release(cluster.version).serves(api, case.plural.partition("/")[0]):
            continue
        at = _flat(case.at) if api.endswith("v1beta1") else case.at
        kept = cluster.keeps(place, about)
        for strict in (True, False):
            answer = await cluster.answer(api, case, kept=kept, strict=strict)
            if strict and str(cluster.version) not in about["presentIn"]:
                if answer.status_code != 400 or "unknown field" not in answer.text:
                    wrong.append((api, place, "not refused", answer.text[:300]))
            elif answer.status_code not in (200, 201):
                wrong.append((api, place, "refused", answer.text[:300]))
            elif (_get(answer.json(), at) is not None) != kept:
                wrong.append((api, place, "kept" if not kept else "dropped", answer.text[:300]))
    assert wrong == []

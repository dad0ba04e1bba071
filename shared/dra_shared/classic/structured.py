"""Convert resource.k8s.io v1alpha3 (1.31), v1beta1 and v1beta2 to v1: the same model in another form.

Upstream's conversions are in `pkg/apis/resource/v1beta1/conversion.go`. v1beta1 removed the fields
`controller` and `suitableNodes` of v1alpha3.
"""

import copy
from collections.abc import Callable
from typing import Any

from dra_shared.classic.fields import Fields, entries, mapping, take_metadata
from dra_shared.classic.notes import Notes
from dra_shared.classic.sharing import convert_config
from dra_shared.jsontypes import JsonObject

V1 = "resource.k8s.io/v1"
_FLAT = frozenset({"v1alpha3", "v1beta1"})
_EXACTLY = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)


def convert_structured(obj: JsonObject, notes: Notes) -> list[JsonObject]:
    """Convert an object of a version with structured parameters to v1."""
    version = obj["apiVersion"].rpartition("/")[2]
    changed = copy.deepcopy(obj)
    fields = Fields(obj, notes)
    changed["metadata"] = take_metadata(fields)
    kind = obj["kind"]
    # v1 does not have this kind.
    target = obj["apiVersion"] if kind == "ResourcePoolStatusRequest" else V1
    if target != obj["apiVersion"]:
        notes.note_moved("apiVersion", target)
    changed["apiVersion"] = target
    if changed.pop("status", None):
        notes.note_implied("status", "the cluster writes this")
    change = _CHANGES.get(kind)
    if change is not None and isinstance(changed.get("spec"), dict):
        change(changed["spec"], version, notes)
    return [changed]


def _claim(spec: JsonObject, version: str, notes: Notes, path: str = "spec") -> None:
    if spec.pop("controller", None):
        notes.note_lost(
            f"{path}.controller", "the scheduler allocates claims, and not a controller of the driver"
        )
    devices = mapping(spec.get("devices"))
    _configs(devices.get("config"), f"{path}.devices.config", notes)
    if version not in _FLAT:
        return
    for index, request in enumerate(entries(devices.get("requests"))):
        if not isinstance(request, dict):
            continue
        where = f"{path}.devices.requests[{index}]"
        exactly = {name: request.pop(name) for name in _EXACTLY if name in request}
        for name in exactly:
            notes.note_moved(f"{where}.{name}", f"{where}.exactly.{name}")
        if exactly:
            request["exactly"] = exactly


def _template(spec: JsonObject, version: str, notes: Notes) -> None:
    if isinstance(spec.get("spec"), dict):
        _claim(spec["spec"], version, notes, "spec.spec")


def _configs(configs: Any, path: str, notes: Notes) -> None:
    """Move NVIDIA's opaque parameters to the API group that its driver reads today."""
    for index, config in enumerate(entries(configs)):
        opaque = config.get("opaque") if isinstance(config, dict) else None
        today = convert_config(opaque.get("parameters")) if isinstance(opaque, dict) else None
        if isinstance(opaque, dict) and today is not None:
            opaque["parameters"] = today
            notes.note_moved(f"{path}[{index}].opaque.parameters.apiVersion", today["apiVersion"])


def _class(spec: JsonObject, version: str, notes: Notes) -> None:
    _configs(spec.get("config"), "spec.config", notes)
    if spec.pop("suitableNodes", None):
        notes.note_lost(
            "spec.suitableNodes",
            "a class selects devices and not nodes: ResourceSlices say where devices are",
        )


def _slice(spec: JsonObject, version: str, notes: Notes) -> None:
    if version not in _FLAT:
        return
    for index, device in enumerate(entries(spec.get("devices"))):
        if not isinstance(device, dict):
            continue
        where = f"spec.devices[{index}]"
        basic = mapping(device.pop("basic", None))
        if version == "v1alpha3":
            capacity = {
                n: v if isinstance(v, dict) else {"value": v}
                for n, v in mapping(basic.get("capacity")).items()
            }
            basic = {**basic, "capacity": capacity} if capacity else basic
        for name in basic:
            notes.note_moved(f"{where}.basic.{name}", f"{where}.{name}")
        device.update(basic)


def _taint_rule(spec: JsonObject, version: str, notes: Notes) -> None:
    selector = spec.get("deviceSelector")
    for name in ("deviceClassName", "selectors"):
        if isinstance(selector, dict) and selector.pop(name, None):
            notes.note_lost(f"spec.deviceSelector.{name}", "a rule chooses devices by driver, pool and name")


_CHANGES: dict[str, Callable[[JsonObject, str, Notes], None]] = {
    "DeviceClass": _class,
    "DeviceTaintRule": _taint_rule,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "ResourceSlice": _slice,
}

"""Columns of volumes, their claims and classes (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE, UNSET
from dra_apiserver.common.objectcells import age, name, part, quantity_text

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access_modes(modes: Any) -> str:
    return ",".join(_MODES[mode] for mode in _MODES if mode in (modes or ()))


def volume(obj: JsonObject, now: datetime) -> list[Any]:
    metadata, spec, status = part(obj, "metadata"), part(obj, "spec"), part(obj, "status")
    claim = part(spec, "claimRef")
    phase = status.get("phase", "")
    return [
        name(obj),
        part(spec, "capacity").get("storage", ""),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if metadata.get("deletionTimestamp") else phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def claim(obj: JsonObject, now: datetime) -> list[Any]:
    metadata, spec, status = part(obj, "metadata"), part(obj, "spec"), part(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        name(obj),
        "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", ""),
        spec.get("volumeName", ""),
        part(status, "capacity").get("storage", "0") if bound else "",
        _access_modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def storage_class(obj: JsonObject, now: datetime) -> list[Any]:
    marks = part(obj, "metadata").get("annotations") or {}
    default = marks.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def attributes_class(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), obj.get("driverName", ""), age(obj, now)]


def attachment(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    pv = part(spec, "source").get("persistentVolumeName", "")
    attached = bool(part(obj, "status").get("attached"))
    return [name(obj), spec.get("attacher", ""), pv, spec.get("nodeName", ""), attached, age(obj, now)]


def csi_node(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), len(part(obj, "spec").get("drivers") or ()), age(obj, now)]


def csi_driver(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    attach = spec["attachRequired"] if spec.get("attachRequired") is not None else True
    flags = [bool(spec.get(key)) for key in ("podInfoOnMount", "storageCapacity")]
    tokens = ",".join(one.get("audience", "") for one in spec.get("tokenRequests") or ()) or UNSET
    modes = ",".join(spec.get("volumeLifecycleModes") or ()) or NONE
    return [name(obj), attach, *flags, tokens, bool(spec.get("requiresRepublish")), modes, age(obj, now)]


def storage_capacity(obj: JsonObject, now: datetime) -> list[Any]:
    capacity = obj.get("capacity")
    shown = UNSET if capacity is None else quantity_text(capacity)
    return [name(obj), obj.get("storageClassName", ""), shown]

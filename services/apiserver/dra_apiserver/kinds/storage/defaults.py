"""Defaults of volumes, their claims and classes (upstream's `defaults.go` of core and storage)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject


def claim_defaults(obj: JsonObject) -> None:
    """Set the defaults of a PersistentVolumeClaim, or of a volume claim template of a StatefulSet."""
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def volume_claim(obj: JsonObject, _version: str, _now: str) -> None:
    claim_defaults(obj)


def persistent_volume(obj: JsonObject, _version: str, _now: str) -> None:
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")


def storage_class(obj: JsonObject, _version: str, _now: str) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def csi_driver(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    for name in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(name, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]

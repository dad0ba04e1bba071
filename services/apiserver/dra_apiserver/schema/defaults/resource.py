"""Defaults of resource.k8s.io, as ``pkg/apis/resource/<version>/defaults.go`` sets them."""

from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]


def _count(request: Object) -> None:
    request.setdefault("allocationMode", "ExactCount")
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


def _requests(spec: Object, version: str) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if version == "v1beta1":
            # A request without a class has alternatives, which carry mode and count themselves.
            if request.get("deviceClassName"):
                _count(request)
        elif request.get("exactly") is not None:
            _count(request["exactly"])
        for alternative in request.get("firstAvailable") or ():
            _count(alternative)


def _claim(obj: Object, version: str) -> None:
    _requests(obj.setdefault("spec", {}), version)


def _template(obj: Object, version: str) -> None:
    _requests(obj.setdefault("spec", {}).setdefault("spec", {}), version)


def _slice(obj: Object, version: str) -> None:
    for device in (obj.get("spec") or {}).get("devices") or ():
        for holder in (device, device.get("basic") or {}):
            for mapping in (holder.get("nodeAllocatableResourceMappings") or {}).values():
                mapping.setdefault("allocationMultiplier", "1")


def taint_times(kind: str, obj: Object, now: str) -> None:
    """A taint without a time was added now."""
    spec = obj.get("spec") or {}
    taints: list[Object] = []
    if kind == "DeviceTaintRule" and spec.get("taint"):
        taints.append(spec["taint"])
    elif kind == "ResourceSlice":
        for device in spec.get("devices") or ():
            for holder in (device, device.get("basic") or {}):
                taints += holder.get("taints") or ()
    for taint in taints:
        taint.setdefault("timeAdded", now)


RULES: Mapping[tuple[str, str], Callable[[Object, str], None]] = {
    ("resource.k8s.io", "ResourceClaim"): _claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): _template,
    ("resource.k8s.io", "ResourceSlice"): _slice,
}

"""Defaults of resource.k8s.io, as ``pkg/apis/resource/<version>/defaults.go`` sets them."""

from dra_shared.jsontypes import JsonObject


def _count(request: JsonObject) -> None:
    request.setdefault("allocationMode", "ExactCount")
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


def _requests(spec: JsonObject, version: str) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if version == "v1beta1":
            # A request without a class has alternatives, which have mode and count themselves.
            if request.get("deviceClassName"):
                _count(request)
        elif request.get("exactly") is not None:
            _count(request["exactly"])
        for alternative in request.get("firstAvailable") or ():
            _count(alternative)


def resource_claim(obj: JsonObject, version: str, _now: str) -> None:
    """Set the mode and count of the claim's requests."""
    _requests(obj.setdefault("spec", {}), version)


def resource_claim_template(obj: JsonObject, version: str, _now: str) -> None:
    """Set the mode and count of the requests in the template."""
    _requests(obj.setdefault("spec", {}).setdefault("spec", {}), version)


def resource_slice(obj: JsonObject, _version: str, now: str) -> None:
    """Set multipliers of mapped capacity, and the time of taints."""
    for device in (obj.get("spec") or {}).get("devices") or ():
        for holder in (device, device.get("basic") or {}):
            for mapping in (holder.get("nodeAllocatableResourceMappings") or {}).values():
                mapping.setdefault("allocationMultiplier", "1")
            for taint in holder.get("taints") or ():
                _add_time(taint, now)


def device_taint_rule(obj: JsonObject, _version: str, now: str) -> None:
    """Set the time of the taint."""
    if taint := (obj.get("spec") or {}).get("taint"):
        _add_time(taint, now)


def _add_time(taint: JsonObject, now: str) -> None:
    """Set the time of a taint that has none to the current time."""
    if now:
        taint.setdefault("timeAdded", now)

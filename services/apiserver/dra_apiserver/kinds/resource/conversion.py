"""Convert resource.k8s.io/v1beta1 to and from the stored v1.

A v1beta1 request has the fields of v1's ``exactly`` directly, and a v1beta1 device has its fields in
``basic``. The kinds of v1beta2 and v1alpha3 have the stored form.
"""

from collections.abc import Callable, Iterator

from dra_shared.jsontypes import JsonObject

Convert = Callable[[JsonObject], None]

_EXACT = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)


def _requests(spec: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = (spec.get("devices") or {}).get("requests") or []
    return found


def _nest_requests(spec: JsonObject) -> None:
    for request in _requests(spec):
        flat = {key: request.pop(key) for key in _EXACT if key in request}
        # adminAccess counts as set even if it is False, although False equals 0 in Python.
        if any(value is False or value not in (None, "", 0) for value in flat.values()):
            if not flat.get("tolerations"):
                # Upstream's conversion copies them one by one.
                flat.pop("tolerations", None)
            flat.setdefault("deviceClassName", "")
            request["exactly"] = flat


def _flatten_requests(spec: JsonObject) -> None:
    for request in _requests(spec):
        # v1beta1 encodes the class even in a request with alternatives, which has none.
        request.update(request.pop("exactly", None) or {"deviceClassName": ""})


def _devices(obj: JsonObject) -> Iterator[JsonObject]:
    yield from (obj.get("spec") or {}).get("devices") or ()


def claim_from_beta(obj: JsonObject) -> None:
    _nest_requests(obj.get("spec") or {})


def claim_to_beta(obj: JsonObject) -> None:
    _flatten_requests(obj.get("spec") or {})


def template_from_beta(obj: JsonObject) -> None:
    _nest_requests((obj.get("spec") or {}).get("spec") or {})


def template_to_beta(obj: JsonObject) -> None:
    _flatten_requests((obj.get("spec") or {}).get("spec") or {})


def slice_from_beta(obj: JsonObject) -> None:
    for device in _devices(obj):
        device.update(device.pop("basic", None) or {})


def slice_to_beta(obj: JsonObject) -> None:
    for device in _devices(obj):
        basic = {key: device.pop(key) for key in list(device) if key != "name"}
        device["basic"] = basic

"""Devices that the lesson's nodes lack. They test a request with more devices than the cluster happens to have.

A sample is the first device of the cluster with other attributes and capacity; null removes one. Goals check
which samples a request accepts, so they do not depend on how a selector is written.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from dra_shared.api.resource import DeviceAttribute, DeviceCapacity
from dra_shared.cel import CelDevice, CompileError, EvaluationError, compile_expression
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity, QuantityError


def find_accepted(
    wanted: Iterable[JsonObject], classes: Mapping[str, JsonObject], samples: Mapping[str, CelDevice]
) -> list[list[str]]:
    """Return the names of the accepted samples for each request or alternative."""
    return [[name for name, sample in samples.items() if _accepts(one, classes, sample)] for one in wanted]


def sample_devices(
    slices: Mapping[str, JsonObject], changes: Mapping[str, JsonObject]
) -> dict[str, CelDevice]:
    """Return the samples by name. There are none before a driver has published a device."""
    found = [
        (device["name"], piece["spec"]["driver"], device)
        for piece in slices.values()
        for device in piece["spec"].get("devices", ())
    ]
    if not found:
        return {}
    _, driver, first = min(found, key=lambda each: each[:2])
    return {name: _change_device(driver, first, change) for name, change in changes.items()}


def _change_device(driver: str, device: JsonObject, change: JsonObject) -> CelDevice:
    return CelDevice(
        driver,
        msgspec.convert(_merge_fields(device, change, "attributes"), dict[str, DeviceAttribute]),
        msgspec.convert(_merge_fields(device, change, "capacity"), dict[str, DeviceCapacity]),
        device.get("allowMultipleAllocations"),
    )


def _merge_fields(device: JsonObject, change: JsonObject, field: str) -> dict[str, Any]:
    merged = {**device.get(field, {}), **change.get(field, {})}
    return {name: value for name, value in merged.items() if value is not None}


def _accepts(wanted: JsonObject, classes: Mapping[str, JsonObject], device: CelDevice) -> bool:
    """True if the class, the selectors and the amounts of a request accept the device."""
    one = classes.get(wanted.get("deviceClassName", ""))
    if one is None:
        return False
    selectors = [*one["spec"].get("selectors", ()), *wanted.get("selectors", ())]
    try:
        return all(_selects(selector["cel"]["expression"], device) for selector in selectors) and all(
            Quantity.parse(str(amount)) <= Quantity.parse(device.capacity[name].value)
            for name, amount in (wanted.get("capacity") or {}).get("requests", {}).items()
        )
    except (CompileError, EvaluationError, QuantityError, KeyError):
        return False


def _selects(expression: str, device: CelDevice) -> bool:
    return compile_expression(expression, features=FeatureGates()).matches(device)

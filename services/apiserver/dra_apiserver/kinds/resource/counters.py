"""Validate shared counters of a ResourceSlice, and their consumption by devices."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, Version

from dra_apiserver.common import names
from dra_apiserver.errors import FieldError, invalid, missing_field
from dra_apiserver.kinds.resource.declared import limit
from dra_apiserver.kinds.resource.lists import Lists

CONSUMPTIONS = limit("Device", "consumesCounters")
"""The highest number of counter sets that a device may consume."""
_COUNTERS = 32
_COUNTER_KEY_LENGTH = 63
_COUNTERS_PER_SLICE = 1024


def counters_and_devices_are_apart(kubernetes: Version) -> bool:
    """True if the counter sets of a pool are in separate slices.

    Before that, a device consumed counters of its own slice only, and the limits applied to whole slices and
    devices.
    """
    return kubernetes >= V1_35


def check_counter_set(counter_set: JsonObject, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate a named set of counters."""
    errors = _check_set_name(counter_set.get("name", ""), f"{path}.name")
    return errors + _check_counters(counter_set.get("counters"), f"{path}.counters", kubernetes)


def check_consumption(consumption: JsonObject, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate a device's consumption of one counter set."""
    name, at = consumption.get("counterSet", ""), f"{path}.counterSet"
    # A name that is not a valid label cannot be one of the slice's sets either. Report only the former.
    named = counters_and_devices_are_apart(kubernetes) or not name
    errors = _check_set_name(name, at) if named else []
    return errors + _check_counters(consumption.get("counters"), f"{path}.counters", kubernetes)


def check_consumption_of(
    device: JsonObject, counter_sets: list[JsonObject] | None, path: str
) -> list[FieldError]:
    """Check that a device only consumes counters of its own slice's sets, and not too many."""
    known = {one.get("name", ""): one.get("counters") or {} for one in counter_sets or ()}
    consumptions = device.get("consumesCounters") or []
    total = sum(len(one.get("counters") or ()) for one in consumptions)
    errors = []
    if total > _COUNTERS:
        errors.append(invalid(path, total, f"the total number of counters must not exceed {_COUNTERS}"))
    for index, consumption in enumerate(consumptions):
        at, name = f"{path}.consumesCounters[{index}]", consumption.get("counterSet", "")
        if name not in known:
            text = "must reference a counterSet defined in the ResourceSlice sharedCounters"
            errors.append(invalid(f"{at}.counterSet", name, text))
            continue
        text = "must reference a counter defined in the ResourceSlice sharedCounters"
        errors += [
            invalid(f"{at}.counters", counter, text)
            for counter in consumption.get("counters") or ()
            if counter not in known[name]
        ]
    return errors


def check_totals(spec: JsonObject, path: str) -> list[FieldError]:
    """Check the limits of a slice with counters and the devices that consume them."""
    consumed = sum(
        len(consumption.get("counters") or ())
        for device in spec.get("devices") or ()
        for consumption in device.get("consumesCounters") or ()
    )
    shared = sum(len(one.get("counters") or ()) for one in spec.get("sharedCounters") or ())
    errors = []
    if consumed > _COUNTERS_PER_SLICE:
        text = f"the total number of counters in devices must not exceed {_COUNTERS_PER_SLICE}"
        errors.append(invalid(f"{path}.devices", consumed, text))
    if shared > _COUNTERS:
        text = f"the total number of shared counters must not exceed {_COUNTERS}"
        errors.append(invalid(f"{path}.sharedCounters", shared, text))
    return errors


def _check_counters(counters: JsonObject | None, path: str, kubernetes: Version) -> list[FieldError]:
    if not counters:
        return [missing_field(path)]
    most = _COUNTERS if counters_and_devices_are_apart(kubernetes) else None
    return Lists(kubernetes).check_map(counters, most, _COUNTER_KEY_LENGTH, names.label, lambda *_: (), path)


def _check_set_name(name: str, path: str) -> list[FieldError]:
    return names.label(name, path) if name else [missing_field(path)]

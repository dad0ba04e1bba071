"""Comparison of our answers with those of the real code, for each kind."""

import re
from collections.abc import Callable
from typing import Any

import orjson
from dra_shared.jsontypes import JsonObject

from dra_recordings.devicemanager.checkpoints import decode_entries, text_facts

_STOPPED = re.compile(r"endpoint .* has been stopped")
_NUMBER = re.compile(r"\d+")
# Lists whose order is significant. All others are made from sets.
_IN_ORDER = frozenset(("steps", "containers", "hints", "pod"))
_CAN_BE_MISSING = frozenset(("health", "error", "readError"))


def agrees(ours: JsonObject, recorded: JsonObject) -> bool:
    """True if the answer to a case is the recorded one, or one of several."""
    actual = ours.get("actual")
    if not isinstance(actual, dict):
        return False
    compare = _COMPARISONS.get(ours["kind"], _same)
    return compare(actual, recorded)


def _same(ours: JsonObject, recorded: JsonObject) -> bool:
    return bool(_canonical(ours) == _canonical(recorded))


def _canonical(value: Any, key: str = "") -> Any:
    """Return the value with unordered lists sorted, and without meaningless entries."""
    if isinstance(value, dict):
        found = {name: _canonical(one, name) for name, one in value.items()}
        return {name: one for name, one in found.items() if one is not None or name not in _CAN_BE_MISSING}
    if isinstance(value, list):
        items = [_canonical(one) for one in value]
        if key == "calls":
            # Their order is only significant within a resource.
            return sorted(items, key=lambda call: str(call["resource"]))
        return items if key in _IN_ORDER else sorted(items, key=_text)
    return _STOPPED.sub("endpoint has been stopped", value) if isinstance(value, str) else value


def _text(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


# Chosen devices


def _devices_to_allocate(ours: JsonObject, recorded: JsonObject) -> bool:
    exact = ("error", "nothingToDo", "filterByAffinity")
    if any(_canonical(ours.get(key)) != _canonical(recorded.get(key)) for key in exact):
        return False
    if "calls" in recorded and _canonical(ours["calls"], "calls") != _canonical(recorded["calls"], "calls"):
        return False
    return _is_possible(ours.get("devices"), recorded.get("devices")) and _is_possible(
        ours["allocatedAfter"], recorded["allocatedAfter"]
    )


def _is_possible(ours: list[str] | None, recorded: JsonObject | None) -> bool:
    if ours is None or recorded is None:
        return ours is None and recorded is None
    chosen, always = set(ours), set(recorded["always"])
    return len(chosen) in recorded["counts"] and always <= chosen <= always | set(recorded["sometimes"])


def _run_container_options(ours: JsonObject, recorded: JsonObject) -> bool:
    return ours["options"] in recorded["variants"]


# Whole pods


def _steps(ours: JsonObject, recorded: JsonObject) -> bool:
    found = _canonical(ours["steps"], "steps")
    variants = [_canonical(variant, "steps") for variant in recorded["variants"]]
    if found in variants:
        return True
    if recorded.get("variantsComplete", True):
        return False
    # The variants are a sample of the outcomes. Ours must be consistent, and fail only for recorded reasons.
    seen = {reason for variant in variants for reason in _reasons(variant)}
    return len(found) == len(variants[0]) and _reasons(found) <= seen and _is_sound(found)


def _reasons(steps: Any) -> set[str]:
    """Return the errors with numbers replaced."""
    errors = (one.get("error") for step in steps for one in step.get("containers", ()))
    return {_NUMBER.sub("N", error) for error in errors if error is not None}


def _is_sound(steps: Any) -> bool:
    """True if no device is held by two pods, and everything that is held is allocated."""
    for step in steps:
        holders: dict[tuple[str, str], str] = {}
        for entry in step["podDevices"]:
            for id_ in (id_ for ids in entry["deviceIDsPerNUMANode"].values() for id_ in ids):
                if holders.setdefault((entry["resource"], id_), entry["podUID"]) != entry["podUID"]:
                    return False
                if id_ not in step["allocatedDevices"].get(entry["resource"], ()):
                    return False
    return True


# Courses


def _course(ours: JsonObject, recorded: JsonObject) -> bool:
    pairs = list(zip(ours["steps"], recorded["steps"], strict=False))
    return len(ours["steps"]) == len(recorded["steps"]) and all(_step_agrees(*pair) for pair in pairs)


def _step_agrees(ours: JsonObject, recorded: JsonObject) -> bool:
    ours, recorded = dict(ours), dict(recorded)
    # A deadline was awaited. A busy machine explains any longer wait.
    if ours.pop("seconds", 0) < recorded.pop("seconds", 0):
        return False
    held, wanted = ours.pop("getDevices", None), recorded.pop("getDevices", None)
    # Containers without devices may be listed or not.
    if wanted is not None and _held_devices(held or {}) != _held_devices(wanted):
        return False
    for key in ("containerStatuses", "initContainerStatuses"):
        if key in recorded:
            recorded[key] = [_status(one) for one in recorded[key]]
            ours[key] = [_status(one) for one in ours[key]]
    named, expected = ours.get("isDevicePluginResource", {}), recorded.get("isDevicePluginResource", {})
    if expected:
        ours["isDevicePluginResource"] = {key: named.get(key, False) for key in expected}
    return _same(ours, recorded)


def _held_devices(raw: JsonObject) -> Any:
    return _canonical({container: devices for container, devices in raw.items() if devices is not None})


def _status(raw: JsonObject) -> JsonObject:
    return {**raw, "allocatedResourcesStatus": raw.get("allocatedResourcesStatus") or []}


# Checkpoints


def _checkpoint_write(ours: JsonObject, recorded: JsonObject) -> bool:
    facts = text_facts(recorded["file"].encode())
    if facts != {"rightChecksum": recorded["checksum"], "hashedText": recorded["hashedText"]}:
        return False
    if ours["mode"] != recorded["mode"]:
        return False
    mine, theirs = ours["file"], orjson.loads(recorded["file"])
    if mine["Checksum"] != ours["checksum"] or set(mine) != set(theirs):
        return False
    same_data = _checkpoint_data(mine) == _checkpoint_data(theirs)
    return same_data and _is_restored(ours["restored"], recorded["restored"])


def _checkpoint_data(file: JsonObject) -> Any:
    data = file["Data"]
    return _canonical({**data, "PodDeviceEntries": decode_entries(data["PodDeviceEntries"])})


def _checkpoint_read(ours: JsonObject, recorded: JsonObject) -> bool:
    facts = ("rightChecksum", "hashedText")
    same_text = all(ours.get(key) == recorded[key] for key in facts if recorded.get(key) is not None)
    return same_text and _is_restored(ours, recorded)


# Well-known texts. Others are those of Go's decoder.
_EXACT_ERRORS = (None, "checkpoint is corrupted", "checkpoint is not found")


def _is_restored(ours: JsonObject, recorded: JsonObject) -> bool:
    for key in ("readError", "getError"):
        mine, theirs = ours.get(key), recorded.get(key)
        if mine != theirs and (mine in _EXACT_ERRORS or theirs in _EXACT_ERRORS):
            return False
    keys = ("podDevices", "allocatedDevices", "healthyDevices", "unhealthyDevices", "endpoints")
    after = ("capacity", "allocatable", "deleted")
    return all(
        _canonical_held(ours.get(key)) == _canonical_held(recorded.get(key)) for key in (*keys, *after)
    )


def _canonical_held(value: Any) -> Any:
    if isinstance(value, list):
        value = [
            _with_ids(one)
            for one in value
            if not isinstance(one, dict) or _with_ids(one)["deviceIDsPerNUMANode"]
        ]
    return _canonical(value)


def _with_ids(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    response = {key: one for key, one in (entry.get("response") or {}).items() if one}
    return {**entry, "response": response}


_COMPARISONS: dict[str, Callable[[JsonObject, JsonObject], bool]] = {
    "devicesToAllocate": _devices_to_allocate,
    "runContainerOptions": _run_container_options,
    "pods": _steps,
    "restart": _steps,
    "capacity": _course,
    "podResources": _course,
    "registrationCourse": _course,
    "checkpointWrite": _checkpoint_write,
    "checkpointRead": _checkpoint_read,
}

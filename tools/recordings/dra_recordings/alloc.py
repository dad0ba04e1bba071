"""Our answers in the form of the reference vectors, to compare them with recorded answers of the real allocator."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dra_scheduler.allocator.allocation import Allocator
from dra_scheduler.allocator.amounts import amount
from dra_scheduler.allocator.errors import AllocationError, ClassLookupError, TimeLimit
from dra_scheduler.allocator.features import Features, Implementation
from dra_scheduler.allocator.selectors import Compile
from dra_scheduler.allocator.state import AllocatedState, DeviceID
from dra_shared.api.codec import convert, to_builtins
from dra_shared.api.resource import DeviceClass
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.version import RECORDED, V1_36, Version

# The search calls ``check`` for every 64 devices or requests. The real allocator needs about 20 seconds for
# this many.
_MOST_CHECKS = 4_000


def case_features(case: Mapping[str, Any]) -> Features:
    """Return the features of a case. Gate names are expanded: binding conditions imply the device status.

    The case's ``implementation`` answers, or the one that upstream picks for these features.
    """
    names = set(case["features"])
    if "DRADeviceBindingConditions" in names:
        names.add("DRAResourceClaimDeviceStatus")
    features = Features.from_gates(names, Version.parse(case.get("kubernetesVersion", str(RECORDED))))
    implementation = case.get("implementation")
    if implementation is None:
        return features
    return replace(features, implementation=Implementation[implementation.upper()])


def _is_supported(case: Mapping[str, Any]) -> bool:
    """True if upstream would use the case's implementation. Until 1.35 the incubating one had no newer features."""
    features = case_features(case)
    newer = features.consumable_capacity or features.device_binding or features.list_type_attributes
    return case.get("implementation") != "incubating" or features.kubernetes >= V1_36 or not newer


def case_state(case: Mapping[str, Any]) -> AllocatedState:
    """Return the state with the devices that the case lists as allocated."""
    allocated = case.get("allocated") or {}
    state = AllocatedState()
    holdings: list[tuple[DeviceID, str | None, dict[str, int]]] = [
        (_device_id(item), None, {}) for item in allocated.get("devices") or ()
    ]
    holdings.extend(
        (_device_id(item), item.get("shareID", ""), {}) for item in allocated.get("sharedDeviceIDs") or ()
    )
    for item in allocated.get("aggregatedCapacity") or ():
        consumed = {name: amount(text) for name, text in (item.get("consumedCapacity") or {}).items()}
        state.consumed[_device_id(item)] = consumed
    state.hold_devices("allocated", holdings)
    return state


def _device_id(item: Mapping[str, str]) -> DeviceID:
    return DeviceID(item["driver"], item["pool"], item["device"])


def case_allocator(case: Mapping[str, Any], *, compile: Compile | None = None) -> Allocator:
    """Return the allocator for a case."""
    classes = {item["metadata"]["name"]: convert(DEVICE_CLASSES, item) for item in case.get("classes") or ()}

    def lookup(name: str) -> DeviceClass:
        if name not in classes:
            # The text of the lister with which the vectors were recorded.
            raise ClassLookupError(' "not found" not found')
        return classes[name]

    slices = [convert(RESOURCE_SLICES, item) for item in case.get("slices") or ()]
    return Allocator(case_features(case), case_state(case), lookup, slices, compile=compile)


class _StepLimit:
    """Stop a search after about as many steps as the real allocator was given. There is no clock to use instead."""

    def __init__(self) -> None:
        self._left = _MOST_CHECKS

    def __call__(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TimeLimit


def answer(case: Mapping[str, Any], *, compile: Compile | None = None) -> dict[str, Any]:
    """Return our answer to a case: ``allocated``, ``results`` and, if it failed, ``error``."""
    case = _without_nulls(case)
    if not _is_supported(case):
        return {"allocated": False, "results": None}
    node = convert(NODES, case["node"])
    claims = [convert(RESOURCE_CLAIMS, item) for item in case.get("claims") or ()]
    found: dict[str, Any] = {"allocated": False, "results": None}
    try:
        results = case_allocator(case, compile=compile).allocate(node, claims, check=_StepLimit())
    except AllocationError as error:
        found["error"] = str(error)
        return found
    if results is not None:
        found["allocated"] = True
        found["results"] = [to_builtins(result) for result in results]
    return found


def _without_nulls(value: Any) -> Any:
    """Drop nulls, which Go writes for some absent lists and maps. Opaque parameters are kept unchanged."""
    if isinstance(value, Mapping):
        return {
            key: item if key == "parameters" else _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def agrees(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """True if two answers are equal, except for share ids and the order within node selectors."""
    return _comparable(ours) == _comparable(theirs)


def _comparable(found: Mapping[str, Any]) -> tuple[Any, ...]:
    results = found.get("results")
    shown = None if results is None else [_plain(result) for result in results]
    return bool(found.get("allocated")), found.get("error") or "", shown


def _plain(value: Any, key: str = "") -> Any:
    if key == "shareID":
        return "share"
    if isinstance(value, Mapping):
        return {name: _plain(item, name) for name, item in value.items() if item not in (None, [], {}, "")}
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value]
        return sorted(items, key=repr) if key in ("matchExpressions", "matchFields") else items
    return value

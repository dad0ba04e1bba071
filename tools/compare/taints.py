"""Random histories of slices, device taint rules and classes, for the tracker that adds the taints of rules to slices.

A history is a list of events. After each event, the devices with their taints are compared, and the slices that the
tracker reports as changed.
"""

from collections.abc import Mapping
from typing import Any

from dra_scheduler.allocator.features import Features
from dra_scheduler.dra.manager import DRAManager
from dra_shared.api.codec import convert, to_builtins
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_SLICES
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.taintrules import can_select_by_class, taint_rules
from dra_shared.version import RECORDED, V1_35, Version

from tools.compare.draw import Draw

_DRIVERS = ("gpu.example.com", "nic.example.com")
_POOLS = ("node-0", "net")
_DEVICES = ("d0", "d1", "d2", "d3")
_EXPRESSIONS = (
    "true",
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].index > 0',
    "device.attributes[device.driver].?index.orValue(0) < 2",
    '"mem" in device.capacity[device.driver]',
    'device.capacity["gpu.example.com"].mem.isGreaterThan(quantity("1"))',
)
# Expressions that do not compile, at least without a feature gate.
_BROKEN = ("device.allowMultipleAllocations.orValue(false)", "device.driver ==", "device.nosuch")
_TIMES = (
    "2026-11-28T10:00:00Z",
    "2026-11-28T10:00:01Z",
)


def draw_history(seed: str, kubernetes: Version) -> JsonObject:
    """Return the history that is drawn from a seed, with only the features and fields that the release has."""
    return _History(Draw(f"{kubernetes} {seed}"), kubernetes).draw(seed)


class _History:
    """A history that is being drawn."""

    def __init__(self, draw: Draw, kubernetes: Version) -> None:
        self._draw = draw
        self._criteria = draw.weight() if can_select_by_class(kubernetes) else 0.0
        self._risks = 0.1 if draw.chance(0.2) else 0.0
        self._kubernetes = kubernetes

    def draw(self, name: str) -> JsonObject:
        draw = self._draw
        features = []
        if draw.chance(0.95):
            features.append("DRADeviceTaints")
            if self._kubernetes >= V1_35 and draw.chance(0.95):
                features.append("DRADeviceTaintRules")
        if draw.chance(0.5):
            features.append("DRAConsumableCapacity")
        stored: dict[tuple[str, str], JsonObject] = {}
        events = []
        kinds = ["ResourceSlice", "DeviceTaintRule", "DeviceTaintRule"]
        if self._criteria:
            kinds.append("DeviceClass")
        for _ in range(draw.number(2, 14)):
            kind = draw.pick(kinds)
            key = (kind, f"{kind[0].lower()}{draw.number(0, 2)}")
            if key in stored and draw.chance(0.4):
                events.append({"event": "delete", "kind": kind, "object": stored.pop(key)})
                continue
            event = "update" if key in stored else "add"
            stored[key] = self._change(kind, key[1], stored.get(key))
            events.append({"event": event, "kind": kind, "object": stored[key]})
        return {"name": name, "features": features, "events": events}

    def _change(self, kind: str, name: str, old: JsonObject | None) -> JsonObject:
        draw = self._draw
        spec: JsonObject
        if old is not None and draw.chance(0.15):
            # Change a field that the tracker does not read.
            spec = old["spec"]
        elif kind == "ResourceSlice":
            spec = self._slice(old)
        elif kind == "DeviceTaintRule":
            spec = self._rule(old)
        else:
            spec = {"selectors": self._selectors()}
        return {"metadata": {"name": name}, "spec": spec}

    def _slice(self, old: JsonObject | None) -> JsonObject:
        draw = self._draw
        moved = old is None or draw.chance(0.1)
        return {
            "driver": draw.pick(_DRIVERS) if moved or old is None else old["spec"]["driver"],
            "pool": {
                "name": draw.pick(_POOLS) if moved or old is None else old["spec"]["pool"]["name"],
                "generation": 1,
                "resourceSliceCount": 1,
            },
            "allNodes": True,
            "devices": [self._device(name) for name in draw.sample(_DEVICES, 3)] if draw.chance(0.95) else [],
        }

    def _device(self, name: str) -> JsonObject:
        draw = self._draw
        device: JsonObject = {"name": name}
        if draw.chance(0.7):
            device["attributes"] = {"index": {"int": draw.number(0, 3)}}
        if draw.chance(0.5):
            device["capacity"] = {"mem": {"value": draw.pick(("1", "2", "1Gi"))}}
        if draw.chance(0.3):
            device["taints"] = [self._taint() for _ in range(draw.pick((1, 1, 2)))]
        return device

    def _rule(self, old: JsonObject | None) -> JsonObject:
        draw = self._draw
        spec: JsonObject = {"taint": self._taint()}
        if old is not None and draw.chance(0.3):
            return {**old["spec"], **spec}
        if draw.chance(0.15):
            return spec
        selector: JsonObject = {}
        for field, values in (("driver", _DRIVERS), ("pool", _POOLS), ("device", _DEVICES)):
            if draw.chance(0.4):
                selector[field] = draw.pick(values)
        if draw.chance(self._criteria):
            selector["deviceClassName"] = f"d{draw.number(0, 3)}"
        if draw.chance(self._criteria):
            selector["selectors"] = self._selectors()
        return {"deviceSelector": selector, **spec}

    def _selectors(self) -> list[JsonObject]:
        draw = self._draw
        expressions = _BROKEN if draw.chance(self._risks) else _EXPRESSIONS
        return [{"cel": {"expression": one}} for one in draw.sample(expressions, 2)]

    def _taint(self) -> JsonObject:
        draw = self._draw
        effects = (
            ("NoSchedule", "NoExecute", "None") if self._kubernetes >= V1_35 else ("NoSchedule", "NoExecute")
        )
        taint: JsonObject = {"key": draw.pick(("a", "b")), "effect": draw.pick(effects)}
        if draw.chance(0.3):
            taint["value"] = draw.pick(("v", "w"))
        if draw.chance(0.4):
            taint["timeAdded"] = draw.pick(_TIMES)
        return taint


def answer(case: Mapping[str, Any]) -> JsonObject:
    """Return the devices and the reported slices after each event of a history."""
    kubernetes = Version.parse(case.get("kubernetesVersion", str(RECORDED)))
    names = set(case["features"])
    known = ["DRADeviceTaints"] + (["DRADeviceTaintRules"] if kubernetes >= V1_35 else [])
    gates = FeatureGates(kubernetes, **{gate: gate in names for gate in known})
    manager = DRAManager(Features.from_gates(names, kubernetes), taint_rules=taint_rules(gates) is not None)
    reported: list[str] = []
    manager.slices.add_listener(lambda old, new: reported.append(_name_change(old, new)))
    steps = []
    for event in case["events"]:
        reported.clear()
        _apply(manager, event)
        calls = list(reported)
        if event["kind"] != "ResourceSlice":
            # Ignore added slices: when a rule's invalid expression is corrected, the slices that it excluded return.
            # Only our tracker reports them, because the allocator gets its slices from these reports.
            calls = [call for call in calls if not call.startswith("add ")]
        listed = {piece.metadata.name: _list_devices(piece) for piece in manager.slices.list()}
        steps.append({"slices": listed, "calls": sorted(calls)})
    return {"steps": steps}


def _apply(manager: DRAManager, event: JsonObject) -> None:
    obj, deleted = event["object"], event["event"] == "delete"
    name = obj["metadata"]["name"]
    match event["kind"]:
        case "ResourceSlice":
            if deleted:
                manager.slices.delete_slice(name)
            else:
                manager.slices.set_slice(convert(RESOURCE_SLICES, obj))
        case "DeviceTaintRule":
            if deleted:
                manager.slices.delete_rule(name)
            else:
                manager.slices.set_rule(convert(DEVICE_TAINT_RULES, obj))
        case _:
            if deleted:
                manager.delete_class(name)
            else:
                manager.set_class(convert(DEVICE_CLASSES, obj))


def _name_change(old: ResourceSlice | None, new: ResourceSlice | None) -> str:
    piece = new or old
    assert piece is not None
    return f"{'add' if old is None else 'update' if new else 'delete'} {piece.metadata.name}"


def _list_devices(piece: ResourceSlice) -> list[JsonObject]:
    return [
        {"name": device.name, "taints": [to_builtins(taint) for taint in device.taints]}
        for device in piece.spec.devices
    ]


def agrees(ours: JsonObject, theirs: JsonObject) -> bool:
    """True if the answers agree. The order of the taints that different rules add to a device is ignored."""
    return _sort_taints(ours) == _sort_taints(theirs)


def _sort_taints(answered: JsonObject) -> list[Any]:
    return [
        (
            step["calls"],
            {
                name: [(device["name"], sorted(map(_plain, device["taints"] or ()))) for device in devices]
                for name, devices in step["slices"].items()
            },
        )
        for step in answered["steps"]
    ]


def _plain(taint: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(str(taint.get(field) or "") for field in ("key", "value", "effect", "timeAdded"))

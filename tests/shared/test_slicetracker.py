"""Test the tracking of slices and taint rules, also with rules of 1.34, which select by class and expression."""

import functools
from typing import Any

import msgspec
import pytest
from dra_shared.api.resource import DeviceClass, ResourceSlice
from dra_shared.api.taintrule import DeviceTaintRule, DeviceTaintRuleSpec
from dra_shared.cel import compile_expression
from dra_shared.features import FeatureGates
from dra_shared.slicetracker import SliceTracker
from dra_shared.taintcriteria import TaintCriteria
from dra_shared.version import V1_34

_INDEX = "device.attributes['gpu.example.com'].index"


def _slice(*devices: dict[str, Any]) -> ResourceSlice:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "devices": devices}
    return msgspec.convert({"metadata": {"name": "slice"}, "spec": spec}, ResourceSlice)


_GPUS = _slice(
    *({"name": f"gpu-{index}", "attributes": {"index": {"int": index}}} for index in range(3)),
    {"name": "bare"},
)


def _selectors(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def _rule(**selector: Any) -> DeviceTaintRule:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": "NoExecute"}}
    return msgspec.convert({"metadata": {"name": "rule"}, "spec": spec}, DeviceTaintRule)


def _class(*expressions: str) -> DeviceClass:
    spec = {"selectors": _selectors(*expressions)}
    return msgspec.convert({"metadata": {"name": "gpu"}, "spec": spec}, DeviceClass)


class _World:
    """A tracker and its reports."""

    def __init__(self, *classes: DeviceClass) -> None:
        self.classes = {known.metadata.name: known for known in classes}
        self.errors: list[str] = []
        self.tracker = SliceTracker(
            criteria=TaintCriteria(
                self.classes.get,
                functools.partial(compile_expression, features=FeatureGates(V1_34, DRADeviceTaints=True)),
                lambda rule, message: self.errors.append(message),
            )
        )
        self.tracker.set_slice(_GPUS)

    def find_tainted(self) -> list[str]:
        piece = self.tracker.get("slice")
        assert piece is not None
        return [device.name for device in piece.spec.devices if device.taints]


def test_the_cel_expression_of_a_taint_rule_selects_devices() -> None:
    world = _World()
    world.tracker.set_rule(_rule(selectors=_selectors(f"{_INDEX} > 0", f"{_INDEX} < 2")))
    assert world.find_tainted() == ["gpu-1"]
    assert world.errors == ["selector #0: runtime error: no such key: index"]


def test_the_class_of_a_taint_rule_selects_devices_and_its_errors_are_not_reported() -> None:
    world = _World(_class(f"{_INDEX} != 1"))
    world.tracker.set_rule(_rule(deviceClassName="gpu", selectors=_selectors(f"{_INDEX} > 0")))
    assert world.find_tainted() == ["gpu-2"]
    assert world.errors == []


def test_every_criterion_of_a_taint_rule_must_match() -> None:
    world = _World(_class())
    world.tracker.set_rule(_rule(deviceClassName="gpu", device="gpu-0"))
    assert world.find_tainted() == ["gpu-0"]
    world.tracker.set_rule(_rule(deviceClassName="gpu", driver="other.example.com"))
    assert world.find_tainted() == []


def test_a_taint_rule_follows_later_creation_and_changes_of_its_class() -> None:
    world = _World()
    changes: list[list[str]] = []
    world.tracker.add_listener(lambda old, new: changes.append(world.find_tainted()))
    world.tracker.set_rule(_rule(deviceClassName="gpu"))
    assert world.find_tainted() == []
    for expression in (f"{_INDEX} == 0", f"{_INDEX} == 0 || false", f"{_INDEX} == 1"):
        world.classes["gpu"] = _class(expression)
        world.tracker.update_class()
    assert changes == [[], ["gpu-0"], ["gpu-1"]]


def test_a_rule_with_an_invalid_expression_does_not_change_slices() -> None:
    world = _World()
    world.tracker.set_rule(_rule(device="gpu-0"))
    world.tracker.set_rule(_rule(selectors=_selectors("no.such.thing")))
    assert world.find_tainted() == ["gpu-0"]
    world.tracker.set_slice(_slice({"name": "new"}))
    assert world.tracker.get("slice") is not None
    assert world.find_tainted() == ["gpu-0"]
    world.tracker.delete_rule("rule")
    assert world.find_tainted() == []


@pytest.mark.parametrize("old", [False, True])
def test_taint_rules_without_criteria_taint_every_device(old: bool) -> None:
    tracker = _World().tracker if old else SliceTracker()
    tracker.set_slice(_GPUS)
    empty = _rule()
    for rule in (empty, msgspec.structs.replace(empty, spec=_without_selector(empty))):
        tracker.set_rule(rule)
        piece = tracker.get("slice")
        assert piece is not None
        assert all(device.taints for device in piece.spec.devices)
        tracker.delete_rule(rule.metadata.name)


def test_rules_without_a_selector_taint_no_device_since_1_37() -> None:
    tracker = SliceTracker(ignore_unselective=True)
    tracker.set_slice(_GPUS)
    rule = _rule()
    tracker.set_rule(rule)
    piece = tracker.get("slice")
    assert piece is not None
    assert all(device.taints for device in piece.spec.devices)
    tracker.set_rule(msgspec.structs.replace(rule, spec=_without_selector(rule)))
    piece = tracker.get("slice")
    assert piece is not None
    assert not any(device.taints for device in piece.spec.devices)


def _without_selector(rule: DeviceTaintRule) -> DeviceTaintRuleSpec:
    return msgspec.structs.replace(rule.spec, device_selector=None)


def test_taint_rules_since_1_35_ignore_class_and_expression() -> None:
    tracker = SliceTracker()
    tracker.set_slice(_GPUS)
    tracker.set_rule(_rule(deviceClassName="gpu"))
    piece = tracker.get("slice")
    assert piece is not None
    assert all(device.taints for device in piece.spec.devices)

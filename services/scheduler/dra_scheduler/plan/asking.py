"""Answers the requests of ``POST /plan/…``: converts each one to a question of the planner."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from dra_shared.api.node import Taint
from dra_shared.api.resource import DeviceTaint
from dra_shared.api.resources import DEVICE_CLASSES, NODES, POD_GROUPS, RESOURCE_SLICES

from dra_scheduler.componentconfig.load import load
from dra_scheduler.plan import requests
from dra_scheduler.plan.change import Comparison
from dra_scheduler.plan.fit import Fit, Wanted
from dra_scheduler.plan.manifests import Manifests
from dra_scheduler.plan.moves import Moves
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.packing.answer import Packing
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.purchase.answer import Purchase
from dra_scheduler.plan.purchase.buyer import NodeType
from dra_scheduler.plan.purchase.recorded import RecordedNode
from dra_scheduler.plan.replaying.answer import Replay
from dra_scheduler.plan.replaying.replayer import Arrival, Timeline
from dra_scheduler.plan.wanted import of

_MOST_COPIES = 100_000
_MOST_SECONDS = 3600.0


class Asked:
    """Answers requests with one planner. Invalid requests raise :class:`ValueError`."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def fit(self, asked: requests.FitRequest) -> Fit:
        """Answer ``plan fit``."""
        wanted = self._read_wanted(asked.objects, asked.count)
        return self._planner.fit(wanted, asked.count, most=asked.max, more=asked.more, without=asked.without)

    def drain(self, asked: requests.NodesRequest) -> Moves:
        """Answer ``plan drain``."""
        return self._planner.drain(asked.nodes)

    def remove(self, asked: requests.NodesRequest) -> Moves:
        """Answer ``plan remove``."""
        return self._planner.remove(asked.nodes)

    def upgrade(self, asked: requests.NodesRequest) -> Moves:
        """Answer ``plan upgrade``."""
        return self._planner.upgrade(asked.nodes)

    def taint(self, asked: requests.TaintRequest) -> Moves:
        """Answer ``plan taint``."""
        if asked.node:
            return self._planner.taint_node(
                asked.node, Taint(key=asked.key, value=asked.value, effect=asked.effect)
            )
        taint = DeviceTaint(key=asked.key, value=asked.value, effect=asked.effect)
        return self._planner.taint_device(asked.driver, asked.pool, asked.device, taint)

    def change(self, asked: requests.ChangeRequest) -> Comparison:
        """Answer ``plan change``."""
        after = apply_change(self._planner, asked)
        try:
            return self._planner.change(after, Manifests.of(asked.objects).left_out)
        finally:
            after.close()

    def nodes(self, asked: requests.PurchaseRequest) -> Purchase:
        """Answer ``plan nodes``."""
        wanted = self._read_wanted(asked.objects, asked.count) if asked.objects else Wanted(())
        types = list(map(_type, asked.types))
        return self._planner.nodes(types, wanted, asked.count, seconds=_seconds(asked.seconds))

    def pack(self, asked: requests.PackRequest) -> Packing:
        """Answer ``plan pack``."""
        wanted = self._read_wanted(asked.objects, asked.count) if asked.objects else None
        return self._planner.pack(wanted, asked.count, seconds=_seconds(asked.seconds))

    def replay(self, asked: requests.ReplayRequest) -> Replay:
        """Answer ``plan replay``."""
        if not asked.arrivals:
            raise ValueError("there are no arrivals")
        pods = [self._read_wanted((each.object,), None).pods[0] for each in asked.arrivals]
        others = Manifests.of(asked.objects)
        timeline = Timeline(
            [Arrival(each.at, each.lasts, pod) for each, pod in zip(asked.arrivals, pods, strict=True)],
            [obj for resource, obj in others.objects if resource is POD_GROUPS],  # type: ignore[misc]  # all of POD_GROUPS
            [each for each in others.objects if each[0] is not POD_GROUPS],
        )
        now, variants, left_out = self._planner, [], list(others.left_out)
        for number, change in enumerate(asked.changes, 1):
            now = apply_change(now, change)
            left_out += Manifests.of(change.objects).left_out
            variants.append((change.name or f"change {number}", now))
        return self._planner.replay(timeline, variants, starved_after=asked.starved_after, left_out=left_out)

    def _read_wanted(self, values: Sequence[dict[str, Any]], count: int | None) -> Wanted:
        if count is not None and not 0 < count <= _MOST_COPIES:
            raise ValueError(f"count must be between 1 and {_MOST_COPIES}")
        return of(Manifests.of(values), self._planner.objects)


def apply_change(planner: Planner, change: requests.ChangeRequest) -> Planner:
    """Return a planner for the world and the scheduler after the change.

    Raises:
        ValueError: a node, gate, version or the configuration is invalid.
    """
    setup = planner.setup.with_changes(change.feature_gates, change.kubernetes_version)
    if change.config is not None:
        text = msgspec.json.encode(change.config).decode()
        setup = replace(setup, load=lambda gates: load(text, gates))
    without = planner.without_nodes(change.remove)
    edits = Manifests.of(change.objects).objects
    return without.with_changes(without.objects.with_objects(edits), setup)


def _seconds(seconds: float) -> float:
    if not 0 < seconds <= _MOST_SECONDS:
        raise ValueError(f"seconds must be above 0 and at most {_MOST_SECONDS:g}")
    return seconds


def _type(asked: requests.NodeTypeRequest) -> NodeType:
    if asked.price <= 0 or (asked.limit is not None and asked.limit < 0):
        raise ValueError(f"type {asked.name}: the price must be above 0, and a limit not below")
    objects = Objects().with_objects(Manifests.of(asked.objects).objects)
    nodes = list(objects.of(NODES).values())
    if len(nodes) != 1:
        raise ValueError(f"type {asked.name}: objects must have one Node, and its ResourceSlices")
    recorded = RecordedNode(nodes[0], list(objects.of(RESOURCE_SLICES).values()))
    classes = tuple((DEVICE_CLASSES, each) for each in objects.of(DEVICE_CLASSES).values())
    return NodeType(asked.name, asked.price, recorded.make, asked.limit, classes)

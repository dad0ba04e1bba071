"""Answers the requests of ``POST /plan/…`` about one world, each with a scheduler of its own."""

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object
from dra_shared.api.node import Taint
from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceTaint
from dra_shared.api.resources import NODES, POD_GROUPS, RESOURCE_SLICES, Resource

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan import requests
from dra_scheduler.plan.change import Comparison, compared, places
from dra_scheduler.plan.edited import Edited
from dra_scheduler.plan.fit import Fit, Fitter, Wanted
from dra_scheduler.plan.moves import Mover, Moves
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_scheduler.plan.packing.answer import Packing
from dra_scheduler.plan.packing.freeing import Freer
from dra_scheduler.plan.packing.packer import Packer
from dra_scheduler.plan.purchase.answer import Purchase
from dra_scheduler.plan.purchase.buyer import Buyer, NodeType
from dra_scheduler.plan.purchase.recorded import RecordedNode
from dra_scheduler.plan.replaying.answer import Course, Replay
from dra_scheduler.plan.replaying.replayer import Arrival, Replayer, Timeline
from dra_scheduler.plan.simulation import Simulation, Stopped

_replace = msgspec.structs.replace
_MOST_COPIES = 100_000
_MOST_SECONDS = 3600.0

Answer = TypeVar("Answer")
Typed = tuple[Resource[Any], Object]


class Asked:
    """A world and the scheduler's configuration; answers raise :class:`ValueError` for what makes no sense."""

    def __init__(self, objects: Objects, config: SchedulerConfig) -> None:
        self._objects = objects
        self._config = SchedulerConfig(
            scheduler_name=config.scheduler_name, loaded=config.loaded, gates=config.gates
        )

    def fit(self, asked: requests.FitRequest) -> Fit:
        """``plan fit``."""
        wanted = _wanted(asked.objects, asked.count)
        objects = self._objects.without(NODES, asked.without) if asked.without else self._objects
        return self._with(
            objects, lambda w: Fitter(w, wanted).answer(asked.count, most=asked.max, more=False)
        )

    def drain(self, asked: requests.NodesRequest) -> Moves:
        """``plan drain``."""
        nodes = self._nodes(asked.nodes)
        return self._with(self._objects, lambda world: Mover(world).drain(nodes))

    def remove(self, asked: requests.NodesRequest) -> Moves:
        """``plan remove``."""
        nodes = self._nodes(asked.nodes)
        return self._with(self._objects, lambda world: Mover(world).remove(nodes))

    def upgrade(self, asked: requests.NodesRequest) -> Moves:
        """``plan upgrade``."""
        nodes = self._nodes(asked.nodes or tuple(self._objects.of(NODES)))
        return self._with(self._objects, lambda world: Mover(world).upgrade(nodes))

    def taint(self, asked: requests.TaintRequest) -> Moves:
        """``plan taint``."""
        if asked.effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise ValueError("effect must be NoSchedule, PreferNoSchedule or NoExecute")
        if asked.node:
            (node,) = self._nodes((asked.node,))
            taint = Taint(key=asked.key, value=asked.value, effect=asked.effect)
            return self._with(self._objects, lambda world: Mover(world).taint_node(node, taint))
        if not any(
            (piece.spec.driver, piece.spec.pool.name) == (asked.driver, asked.pool)
            and any(device.name == asked.device for device in piece.spec.devices)
            for piece in self._objects.of(RESOURCE_SLICES).values()
        ):
            raise ValueError(f"there is no device {asked.driver}/{asked.pool}/{asked.device}")
        of_device = DeviceTaint(key=asked.key, value=asked.value, effect=asked.effect)
        place = asked.driver, asked.pool, asked.device
        return self._with(self._objects, lambda world: Mover(world).taint_device(*place, of_device))

    def change(self, asked: requests.ChangeRequest) -> Comparison:
        """``plan change``."""
        start = Edited(self._objects, self._config)
        before, after = (_with(edited, places) for edited in (start, start.after(asked, _typed)))
        return compared(before, after)

    def nodes(self, asked: requests.PurchaseRequest) -> Purchase:
        """``plan nodes``."""
        if not asked.types:
            raise ValueError("there are no types")
        wanted = _wanted(asked.objects, asked.count) if asked.objects else Wanted(())
        in_time = _deadline(asked.seconds)
        buyer = Buyer(self._objects, wanted, list(map(_type, asked.types)), self._new, in_time=in_time)
        return buyer.answer(asked.count)

    def pack(self, asked: requests.PackRequest) -> Packing:
        """``plan pack``."""
        answer = self._with(self._objects, lambda world: Packer(world, self._objects).answer())
        if not asked.objects:
            return answer
        in_time = _deadline(asked.seconds)

        def go_on() -> None:
            if not in_time():
                raise Stopped

        wanted = _wanted(asked.objects, asked.count)
        room, _ = Freer(self._objects, wanted, self._new, go_on).answer(asked.count)
        return _replace(answer, room=room)

    def replay(self, asked: requests.ReplayRequest) -> Replay:
        """``plan replay``."""
        if not asked.arrivals:
            raise ValueError("there are no arrivals")
        pods = [_wanted((each.object,), None).pods[0] for each in asked.arrivals]
        others = _typed(asked.objects)
        timeline = Timeline(
            [Arrival(each.at, each.lasts, pod) for each, pod in zip(asked.arrivals, pods, strict=True)],
            [obj for resource, obj in others if resource is POD_GROUPS],  # type: ignore[misc]  # all of POD_GROUPS
            [each for each in others if each[0] is not POD_GROUPS],
        )
        edited, courses = Edited(self._objects, self._config), []
        for number, change in enumerate((requests.ChangeRequest(), *asked.changes)):
            edited = edited.after(change, _typed)
            name = change.name or (f"change {number}" if number else "as it is")
            courses.append(_with(edited, functools.partial(_replayed, timeline, name, asked.starved_after)))
        return Replay(courses=tuple(courses))

    def _nodes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            raise ValueError("there are no nodes")
        for name in names:
            if name not in self._objects.of(NODES):
                raise ValueError(f'there is no node "{name}"')
        return names

    def _new(self, running: Callable[[], bool]) -> Simulation:
        return Simulation(self._config, running=running)

    def _with(self, objects: Objects, ask: Callable[[Simulation], Answer]) -> Answer:
        return _with(Edited(objects, self._config), ask)


def _with(edited: Edited, ask: Callable[[Simulation], Answer]) -> Answer:
    world = Simulation(edited.config)
    try:
        world.load((resource, each.values()) for resource, each in edited.objects)
        return ask(world)
    finally:
        world.close()


def _replayed(timeline: Timeline, name: str, starved_after: float, world: Simulation) -> Course:
    return Replayer(world, timeline).run(name, starved_after)


def _deadline(seconds: float) -> Callable[[], bool]:
    if not 0 < seconds <= _MOST_SECONDS:
        raise ValueError(f"seconds must be above 0 and at most {_MOST_SECONDS:g}")
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _type(asked: requests.NodeTypeRequest) -> NodeType:
    if asked.price <= 0 or (asked.limit is not None and asked.limit < 0):
        raise ValueError(f"type {asked.name}: the price must be above 0, and a limit not below")
    objects = Objects().with_objects(_typed(asked.objects))
    nodes = list(objects.of(NODES).values())
    if len(nodes) != 1:
        raise ValueError(f"type {asked.name}: objects must have one Node, and its ResourceSlices")
    recorded = RecordedNode(nodes[0], list(objects.of(RESOURCE_SLICES).values()))
    return NodeType(asked.name, asked.price, recorded.made, asked.limit)


def _typed(values: Iterable[dict[str, Any]]) -> list[Typed]:
    found: list[Typed] = []
    for value in values:
        group = str(value.get("apiVersion", "")).rpartition("/")[0]
        resource = BY_KIND.get((group, str(value.get("kind"))))
        if resource is None:
            raise ValueError(
                f"objects of kind {value.get('kind')} do not count: send pods and what they refer to"
            )
        obj: Any = convert(resource, value)
        if resource.namespaced and not obj.metadata.namespace:
            obj = _replace(obj, metadata=_replace(obj.metadata, namespace="default"))
        found.append((resource, obj))
    return found


def _wanted(values: Iterable[dict[str, Any]], count: int | None) -> Wanted:
    if count is not None and not 0 < count <= _MOST_COPIES:
        raise ValueError(f"count must be between 1 and {_MOST_COPIES}")
    pods: list[Pod] = []
    groups, others = [], []
    for resource, obj in _typed(values):
        if isinstance(obj, Pod):
            pods.append(_replace(obj, spec=_replace(obj.spec, node_name="")))
        elif resource is POD_GROUPS:
            groups.append(obj)
        else:
            others.append((resource, obj))
    if not pods:
        raise ValueError("there are no pods among the objects")
    return Wanted(pods, groups, others)  # type: ignore[arg-type]  # all of POD_GROUPS

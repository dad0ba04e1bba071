"""``plan pack``: fill the world with each shape in turn, and find the devices that no shape uses."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS

from dra_scheduler.explain.free import Free, free
from dra_scheduler.plan.copies import copy_pods
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.packing.answer import Largest, NodeRoom, Packing
from dra_scheduler.plan.packing.largest import largest
from dra_scheduler.plan.packing.levels import Levels, counts, texts
from dra_scheduler.plan.packing.shapes import Shape, shapes_of
from dra_scheduler.plan.simulation import Simulation, Stopped

_LARGEST_BATCH = 1024


class Packer:
    """Answers ``plan pack`` for one world. ``world`` is the simulation of that world."""

    def __init__(
        self, world: Simulation, objects: Objects, progress: Callable[[int], None] = lambda placed: None
    ) -> None:
        self._world = world
        self._objects = objects
        self._progress = progress
        self._placed = 0

    def answer(self, asked: Sequence[Pod] = ()) -> Packing:
        """Return the free and stranded devices.

        ``asked`` are shapes to consider in addition to those of the world's pods.
        """
        pods = [
            pod for pod in self._objects.of(PODS).values() if pod.status.phase not in ("Succeeded", "Failed")
        ]
        waiting = [*(pod for pod in pods if not pod.spec.node_name), *asked]
        shapes = shapes_of(self._objects, waiting or [pod for pod in pods if pod.spec.resource_claims])
        takes: dict[str, dict[str, int]] = {}
        filled: list[Levels] = []
        complete = True
        before, most = self._now()
        try:
            for shape in shapes:
                levels, found = self._fill(shape)
                filled.append(levels)
                for node, number in found.items():
                    takes.setdefault(node, {})[shape.name] = number
        except Stopped:
            complete = False
        start = Levels.of(before)
        left = start.least(filled) if filled else Levels()
        nodes = tuple(
            NodeRoom(
                node=usage.node,
                stranded=counts(left.devices.get(usage.node, {})),
                counters=texts(left.counters.get(usage.node, {})),
                shares=texts(left.shares.get(usage.node, {})),
                takes=takes.get(usage.node, {}),
                largest=most.get(usage.node, ()),
            )
            for usage in before.nodes
        )
        return Packing(
            shapes={shape.name: shape.count for shape in shapes},
            waiting=bool(waiting),
            free=_total(start.devices),
            stranded=_total(left.devices),
            nodes=nodes,
            complete=complete,
        )

    def _now(self) -> tuple[Free, dict[str, tuple[Largest, ...]]]:
        """Place the waiting pods. Return the amounts that are still free, and the largest free shapes of each node."""
        scheduler = self._world.scheduler
        with self._world.trial():
            with suppress(Stopped):
                self._world.settle()
            nodes = scheduler.cache.node_objects()
            return self._report(), {n.metadata.name: tuple(largest(scheduler.manager, n)) for n in nodes}

    def _fill(self, shape: Shape) -> tuple[Levels, dict[str, int]]:
        """Fill the world with pods of the shape. Return the remaining devices, and the number of pods on each node."""
        world, keys, batch = self._world, list[str](), 1
        with world.trial(), world.without_quotas():
            world.settle()
            for resource, obj in shape.wanted.others:
                world.add(resource, obj)
            while True:
                new: list[str] = []
                for _ in range(batch):
                    _, pods = copy_pods(world, shape.wanted.pods, (), f"-{len(keys) + len(new) + 1}")
                    world.add(PODS, pods[0])
                    new.append(pods[0].key)
                world.settle()
                placed = [key for key in new if self._node(key)]
                keys += placed
                self._placed += len(placed)
                self._progress(self._placed)
                if len(placed) < len(new):
                    break
                batch = min(2 * batch, _LARGEST_BATCH)
            levels = Levels.of(self._report())
            takes: dict[str, int] = {}
            for key in keys:
                takes[self._node(key)] = takes.get(self._node(key), 0) + 1
        return levels, takes

    def _node(self, key: str) -> str:
        pod = self._world.pod(key)
        return pod.spec.node_name if pod is not None else ""

    def _report(self) -> Free:
        scheduler = self._world.scheduler
        return self._world.run(free(scheduler.manager, scheduler.cache.node_objects()))


def _total(amounts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for of_node in amounts.values():
        for name, value in of_node.items():
            total[name] = total.get(name, 0) + value
    return counts(total)

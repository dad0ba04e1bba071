"""``plan nodes``: the cheapest nodes of a catalog on which all waiting pods fit.

The scheduler decides what a node takes (:mod:`trials`), a search finds the cheapest nodes (:mod:`cover`),
and the scheduler verifies the placement in one world with everything in it. Existing nodes cost nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, POD_GROUPS, PODS, RESOURCE_QUOTAS, RESOURCE_SLICES
from dra_shared.refusals import REFUSED

from dra_scheduler.plan.copies import copy_pods
from dra_scheduler.plan.fit import PodPlace, Wanted
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.purchase.answer import Bought, Purchase
from dra_scheduler.plan.purchase.cover import Cover, Search, Supply
from dra_scheduler.plan.purchase.daemons import with_daemons
from dra_scheduler.plan.purchase.standing import groups
from dra_scheduler.plan.purchase.trials import OneNode, Typed, on_node, surroundings
from dra_scheduler.plan.purchase.units import Demand, Unit, new_pod
from dra_scheduler.plan.simulation import Simulation, Stopped

# With more kinds of existing nodes, the scheduler fills them first, and only the remaining pods are the
# demand.
_MODELLED = 12
# The maximum number of further nodes to try for pods whose placement depends on pods of other nodes.
_REPAIRS = 64


@dataclass(frozen=True)
class NodeType:
    """A type of node that can be bought, at most ``limit`` times. ``node`` creates one with its slices.

    ``classes`` are device classes for worlds that lack these names.
    """

    name: str
    price: float
    node: Callable[[str], Iterable[Typed]]
    limit: int | None = None
    classes: tuple[Typed, ...] = ()


@dataclass(frozen=True)
class _Node:
    """A node of the answer, bought or existing. ``equal`` are the names of all nodes like it."""

    name: str
    type: NodeType | None = None
    equal: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Places:
    """Nodes, and the assignment of pods to them by the pods' keys."""

    nodes: list[_Node] = field(default_factory=list)
    nominated: dict[str, str] = field(default_factory=dict)


class Buyer:
    """Answers for one world.

    ``new`` creates an empty simulation. Its argument is a function that the simulation calls to check for a
    stop.
    """

    def __init__(
        self,
        objects: Objects,
        wanted: Wanted,
        types: Sequence[NodeType],
        new: Callable[[Callable[[], bool]], Simulation],
        *,
        running: Callable[[], bool] = lambda: True,
        in_time: Callable[[], bool] = lambda: True,
    ) -> None:
        self._types = list(types)
        self._new = new
        self._running = running
        self._in_time = in_time
        self._wanted = wanted
        have = {(resource, obj.key) for resource, each in objects for obj in each.values()}
        missing = [each for type_ in types for each in type_.classes if (each[0], each[1].key) not in have]
        self._objects = objects.with_objects([*missing, *wanted.others])
        self._named = 0

    def answer(self, count: int | None = None) -> Purchase:
        """Buy nodes for the world's waiting pods and for ``count`` copies of the wanted pods (None: as they are)."""
        waiting = self._collect_waiting(count)
        may_refuse = self._objects.of(RESOURCE_QUOTAS) or any(
            REFUSED in pod.metadata.annotations for pod in waiting
        )
        refused = self._find_refused(waiting) if may_refuse else {}
        waiting = [pod for pod in waiting if pod.key not in refused]
        # Buying nodes does not change quotas.
        self._objects = self._objects.without(RESOURCE_QUOTAS, self._objects.of(RESOURCE_QUOTAS))
        standing = self._objects.without(PODS, [pod.key for pod in waiting])
        whole = self._new(lambda: True)
        whole.load((resource, each.values()) for resource, each in standing)
        try:
            answer = self._answer(whole, standing, waiting)
        finally:
            whole.close()
        unplaced = [PodPlace(pod=key, message=message) for key, message in refused.items()]
        return msgspec.structs.replace(
            answer, wanted=answer.wanted + len(refused), unplaced=(*answer.unplaced, *unplaced)
        )

    def _find_refused(self, waiting: Sequence[Pod]) -> dict[str, str]:
        """Return the new pods that the API server refuses, with its messages."""
        there = self._objects.without(NODES, self._objects.of(NODES))
        there = there.without(RESOURCE_SLICES, self._objects.of(RESOURCE_SLICES))
        world = self._new(lambda: True)
        try:
            world.load((resource, each.values()) for resource, each in there)
            new = [pod for pod in waiting if pod.key not in self._objects.of(PODS)]
            for pod in new:
                world.create(pod)
            return {pod.key: text for pod in new if (text := world.refusal(pod.key))}
        finally:
            world.close()

    def _collect_waiting(self, count: int | None) -> list[Pod]:
        pods = [
            pod
            for pod in self._objects.of(PODS).values()
            if not pod.spec.node_name
            and pod.status.phase not in ("Succeeded", "Failed")
            and not pod.spec.scheduling_gates
        ]
        pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
        empty = self._new(lambda: True)
        empty.load([(PODS, pods), (POD_GROUPS, self._objects.of(POD_GROUPS).values())])
        for number in range(count or 1):
            ending = "" if count is None else f"-{number + 1}"
            groups, made = copy_pods(empty, self._wanted.pods, self._wanted.groups, ending)
            self._objects = self._objects.with_objects((POD_GROUPS, group) for group in groups)
            for pod in made:
                empty.client.put(PODS, pod)
            pods += made
        empty.close()
        return pods

    def _answer(self, whole: Simulation, standing: Objects, waiting: list[Pod]) -> Purchase:
        there = groups(standing, waiting)
        placed: dict[str, str] = {}
        if len(there) > _MODELLED:
            found, _ = self._try(whole, [], waiting, {})
            placed = {key: place.node for key, place in found.items()}
            there = []
        demand = Demand(self._objects, [pod for pod in waiting if pod.key not in placed])
        world = surroundings(standing, demand, waiting)
        self._types = [self._with_daemons(type_, world) for type_ in self._types]
        nodes = [_Node("", type_) for type_ in self._types] + [
            _Node(names[0], equal=tuple(names)) for names in there
        ]
        trials = [
            OneNode(
                lambda: self._new(lambda: True),
                world,
                demand,
                on_node(standing, node.name) if node.type is None else node.type.node("new"),
            )
            for node in nodes
        ]
        try:
            cover, shapes, hopeless = self._cover(nodes, trials, demand)
        finally:
            for trial in trials:
                trial.close()
        places = self._assign(cover, nodes, shapes)
        places.nominated.update(placed)
        pods = [pod for pod in waiting if pod.key not in hopeless]
        return self._purchase(whole, pods, places, cover, hopeless)

    def _with_daemons(self, type_: NodeType, world: Objects) -> NodeType:
        node = with_daemons(type_.node, self._objects, world, lambda: self._new(lambda: True))
        return replace(type_, node=node)

    def _go_on(self) -> None:
        if not self._running() or not self._in_time():
            raise Stopped

    def _cover(
        self, nodes: Sequence[_Node], trials: Sequence[OneNode], demand: Demand
    ) -> tuple[Cover, list[list[Unit]], dict[str, str]]:
        """Return the cover, its units by shape, and the pods that fit on no kind of node, with the reasons."""
        fills = [trial.fills() for trial in trials]
        hopeless: dict[str, str] = {}
        kept = []
        for shape, units in enumerate(demand.shapes):
            if any(each.alone(shape, 1) for each in fills):
                kept.append(shape)
            else:
                reason = trials[0].refusal(units[0].pods[0]) if trials else "there are no nodes"
                hopeless |= {pod.key: reason for unit in units for pod in unit.pods}
        counts = tuple(len(units) if shape in kept else 0 for shape, units in enumerate(demand.shapes))
        supplies = [
            Supply(0.0, each, len(node.equal))
            if node.type is None
            else Supply(node.type.price, each, node.type.limit)
            for node, each in zip(nodes, fills, strict=True)
        ]
        cover = Search(supplies, counts, self._go_on).run()
        return cover, demand.shapes, hopeless

    def _assign(self, cover: Cover, nodes: Sequence[_Node], shapes: Sequence[Sequence[Unit]]) -> _Places:
        """Give the cover's nodes names, and assign the pods of the demand to them according to its fills."""
        places = _Places()
        next_unit = [0] * len(shapes)
        left = {index: iter(node.equal) for index, node in enumerate(nodes)}
        for index, fill in cover.picks:
            type_ = nodes[index].type
            node = self._another(type_) if type_ is not None else _Node(next(left[index]))
            places.nodes.append(node)
            for shape, count in enumerate(fill):
                for unit in shapes[shape][next_unit[shape] : next_unit[shape] + count]:
                    places.nominated.update((pod.key, node.name) for pod in unit.pods)
                next_unit[shape] += count
        return places

    def _another(self, type_: NodeType) -> _Node:
        while True:
            self._named += 1
            name = f"{type_.name}-{self._named}"
            if name not in self._objects.of(NODES):
                return _Node(name, type_)

    def _purchase(
        self, whole: Simulation, pods: list[Pod], places: _Places, cover: Cover, hopeless: dict[str, str]
    ) -> Purchase:
        bought = [node for node in places.nodes if node.type is not None]
        nominated = False
        found, refused = self._try(whole, bought, pods, {})
        if refused:
            nominated = True
            found, refused = self._try(whole, bought, pods, places.nominated)
        if refused:
            bought, found, refused = self._repair(whole, bought, pods, places.nominated, (found, refused))
        cost = sum(node.type.price for node in bought if node.type is not None)
        every = {**refused, **hopeless}
        bound = min(cover.bound, cost)
        interrupted = not self._running()
        counted = {type_.name: sum(node.type is type_ for node in bought) for type_ in self._types}
        return Purchase(
            cost=round(cost, 6),
            bound=round(bound, 6),
            gap=round(1 - bound / cost, 6) if cost else 0.0,
            optimal=not every and cost - bound < 1e-6,
            wanted=len(pods) + len(hopeless),
            nodes=tuple(
                Bought(type=t.name, count=counted[t.name], price=t.price)
                for t in self._types
                if counted[t.name]
            ),
            pods=tuple(found[pod.key] for pod in pods if pod.key in found),
            nominated=nominated,
            unplaced=tuple(PodPlace(pod=key, message=message) for key, message in every.items()),
            complete=not interrupted,
        )

    def _repair(
        self,
        whole: Simulation,
        bought: list[_Node],
        pods: list[Pod],
        nominated: dict[str, str],
        before: tuple[dict[str, PodPlace], dict[str, str]],
    ) -> tuple[list[_Node], dict[str, PodPlace], dict[str, str]]:
        """Buy more nodes while this helps to place pods that depend on pods of other nodes."""
        found, refused = before
        for _ in range(_REPAIRS):
            better = None
            for type_ in sorted(self._types, key=lambda type_: type_.price):
                if type_.limit is not None and sum(n.type is type_ for n in bought) >= type_.limit:
                    continue
                more = [*bought, self._another(type_)]
                tried = self._try(whole, more, pods, nominated)
                if len(tried[1]) < len(refused):
                    better = more, *tried
                    break
            if better is None:
                break
            bought, found, refused = better
            if not refused:
                break
        return bought, found, refused

    def _try(
        self, whole: Simulation, bought: Sequence[_Node], pods: Sequence[Pod], nominated: dict[str, str]
    ) -> tuple[dict[str, PodPlace], dict[str, str]]:
        """Return the places that the scheduler chooses, and the reasons of pods without a place."""
        with whole.trial():
            for node in bought:
                if node.type is not None:
                    for resource, obj in node.type.node(node.name):
                        whole.add(resource, obj)
            # DaemonSets' pods are placed before all others.
            whole.settle()
            for pod in pods:
                whole.create(new_pod(pod, nominated.get(pod.key, "")))
            whole.settle()
            found, refused = {}, {}
            for pod in pods:
                now = whole.pod(pod.key)
                if now is not None and now.spec.node_name:
                    found[pod.key] = PodPlace(
                        pod=pod.key, node=now.spec.node_name, devices=whole.devices(now)
                    )
                else:
                    refused[pod.key] = whole.message(pod.key)
            return found, refused

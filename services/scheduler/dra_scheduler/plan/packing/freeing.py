"""``plan pack --for``: the smallest set of pods whose move makes room for wanted pods.

Sets of moves are tried by size, so that the first that works is the smallest. A world with a single node
decides which pods must leave it for a pod to fit. The whole world decides whether all pods have a node in
the end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resources import POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS
from dra_shared.claims import controller_of

from dra_scheduler.plan.copies import copy_pods
from dra_scheduler.plan.fit import PodPlace, Wanted
from dra_scheduler.plan.moves import Move, is_bound_to_node
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.packing.answer import Room
from dra_scheduler.plan.purchase.trials import on_node, surroundings
from dra_scheduler.plan.purchase.units import Demand, new_pod
from dra_scheduler.plan.simulation import Simulation, Stopped
from dra_scheduler.plugins.budgets import split_by_budgets

_replace = msgspec.structs.replace
# The maximum number of moves to try.
_MOST_MOVES = 8

_Keys = tuple[str, ...]


class _Tried:
    """The result of a set of moves: the new places, or the first pod without a place.

    If ``refused`` is set, the API server rejects that pod, so no moves help.
    """

    def __init__(
        self,
        places: Mapping[str, PodPlace],
        left: Pod | None,
        message: str = "",
        refused: bool = False,
    ) -> None:
        self.places = places
        self.left = left
        self.message = message
        self.refused = refused


class Freer:
    """Searches for moves in the world of ``objects``. The wanted pods precede the world's waiting pods."""

    def __init__(
        self,
        objects: Objects,
        wanted: Wanted,
        new: Callable[[Callable[[], bool]], Simulation],
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        waiting = [key for key, pod in objects.of(PODS).items() if not pod.spec.node_name]
        self._objects = objects.without(PODS, waiting).with_objects(wanted.others)
        self._wanted = wanted
        self._new = new
        self._go_on = go_on
        self._world = new(lambda: True)
        self._world.load((resource, each.values()) for resource, each in self._objects)
        self._budgets = list(objects.of(POD_DISRUPTION_BUDGETS).values())
        self._on: dict[str, list[Pod]] = {}
        for pod in self._objects.of(PODS).values():
            if _may_move(pod):
                self._on.setdefault(pod.spec.node_name, []).append(pod)
        self._known: dict[tuple[str, str, _Keys], _Exits] = {}
        self._asked: list[Pod] = []
        self._seen: set[frozenset[str]] = set()
        self._one_node_worlds: list[Simulation] = []

    def answer(self, count: int | None = None) -> tuple[Room, bool]:
        """Return the moves, and True if the search was complete."""
        try:
            return self._answer(count)
        finally:
            for world in (self._world, *self._one_node_worlds):
                world.close()

    def _answer(self, count: int | None) -> tuple[Room, bool]:
        for number in range(count or 1):
            ending = "" if count is None else f"-{number + 1}"
            groups, pods = copy_pods(self._world, self._wanted.pods, self._wanted.groups, ending)
            self._objects = self._objects.with_objects((POD_GROUPS, group) for group in groups)
            self._asked += pods
        first = self._try(())
        if first.left is None:
            return self._room((), first), True
        if first.refused:
            return Room(found=False, at_least=_MOST_MOVES + 1, message=first.message), True
        least = 0
        try:
            for size in range(1, _MOST_MOVES + 1):
                least = size
                self._seen.clear()
                found = self._within(first, (), size)
                if found is not None:
                    return self._room(*found), True
        except Stopped:
            return Room(found=False, at_least=least, message=first.message), False
        return Room(found=False, at_least=least + 1, message=first.message), True

    def _within(self, tried: _Tried, moved: _Keys, budget: int) -> tuple[_Keys, _Tried] | None:
        """Return further moves that make room. The moves ``moved`` were tried with the result ``tried``."""
        assert tried.left is not None
        for going in self._options(tried.left, moved, budget):
            chosen = (*moved, *going)
            if frozenset(chosen) in self._seen or not self._is_allowed(chosen):
                continue
            self._seen.add(frozenset(chosen))
            self._go_on()
            result = self._try(chosen)
            if result.left is None:
                return chosen, result
            if len(going) < budget:
                further = self._within(result, chosen, budget - len(going))
                if further is not None:
                    return further
        return None

    def _is_allowed(self, moved: _Keys) -> bool:
        pods = [self._objects.of(PODS)[key] for key in moved]
        return not split_by_budgets(pods, self._budgets)[0]

    def _options(self, pod: Pod, moved: _Keys, budget: int) -> Iterator[_Keys]:
        """Yield minimal sets of further pods whose removal makes room for the pod on their node."""
        pods = self._objects.of(PODS)
        for size in range(1, budget + 1):
            for node in self._on:
                gone = tuple(key for key in moved if pods[key].spec.node_name == node)
                yield from self._exits(pod, node, gone).of(size)

    def _exits(self, pod: Pod, node: str, gone: _Keys) -> "_Exits":
        key = pod.key, node, gone
        found = self._known.get(key)
        if found is None:
            movable = tuple(
                each.key for each in self._on[node] if each.key not in gone and each.key != pod.key
            )
            found = self._known[key] = _Exits(movable, self._one_node(pod, node, gone), self._go_on)
        return found

    def _one_node(self, pod: Pod, node: str, gone: _Keys) -> Callable[[_Keys], bool]:
        """Return a function that is True if the pod fits on the node after these pods and ``gone`` have left."""
        demand = Demand(self._objects, [pod])
        asked = demand.alone(_again(pod) if pod.spec.node_name else pod)
        worlds: list[Simulation] = []

        def fits(going: _Keys) -> bool:
            if not worlds:
                around = surroundings(self._objects, demand, [pod]).with_objects(on_node(self._objects, node))
                worlds.append(self._new(lambda: True))
                self._one_node_worlds += worlds
                worlds[0].load((resource, each.values()) for resource, each in around)
            world = worlds[0]
            with world.trial():
                for each in (*gone, *going):
                    world.remove(PODS, each)
                world.add(PODS, asked)
                world.settle()
                placed = world.pod(asked.key)
                return placed is not None and bool(placed.spec.node_name)

        return fits

    def _try(self, moved: Sequence[str]) -> _Tried:
        """Remove the pods ``moved``, place the wanted pods, and then place the removed pods again."""
        world, places = self._world, dict[str, PodPlace]()
        with world.trial():
            again = {}
            for key in moved:
                pod = world.pod(key)
                assert pod is not None
                again[key] = _again(pod)
                world.remove(PODS, key)
            for group in self._objects.of(POD_GROUPS).values():
                world.add(POD_GROUPS, group)
            coming = [*((pod.key, pod) for pod in self._asked), *again.items()]
            for pods in (coming[: len(self._asked)], coming[len(self._asked) :]):
                for _, pod in pods:
                    world.create(new_pod(pod))
                world.settle()
            for old, pod in coming:
                now = world.pod(pod.key)
                if now is None or not now.spec.node_name:
                    left = self._objects.of(PODS).get(old, pod)
                    refused = world.is_refused(pod.key)
                    return _Tried(places, left, world.message(pod.key, ""), refused)
                places[old] = PodPlace(pod=old, node=now.spec.node_name, devices=world.devices(now))
        return _Tried(places, None)

    def _room(self, moved: Sequence[str], tried: _Tried) -> Room:
        pods = self._objects.of(PODS)
        return Room(
            found=True,
            at_least=len(moved),
            moves=tuple(
                Move(
                    pod=key,
                    before=pods[key].spec.node_name,
                    devices_before=self._world.devices(pods[key]),
                    after=tried.places[key].node,
                    devices_after=tried.places[key].devices,
                )
                for key in moved
            ),
            placed=tuple(tried.places[pod.key] for pod in self._asked),
        )


class _Exits:
    """The movable pods of one node, and the minimal sets whose removal makes room. Computed on demand."""

    def __init__(self, movable: _Keys, fits: Callable[[_Keys], bool], go_on: Callable[[], None]) -> None:
        self._movable = movable
        self._fits = fits
        self._go_on = go_on
        self._found: dict[int, list[_Keys]] = {}
        self._hopeless: bool | None = None

    def of(self, size: int) -> list[_Keys]:
        """Return the minimal sets of that size: no pod of a set could stay."""
        if self._hopeless is None:
            self._hopeless = not self._movable or not self._fits(self._movable)
        if self._hopeless:
            return []
        for smaller in range(1, size + 1):
            if smaller not in self._found:
                enough = [set(each) for sets in self._found.values() for each in sets]
                found = []
                for going in combinations(self._movable, smaller):
                    if not any(each <= set(going) for each in enough):
                        self._go_on()
                        if self._fits(going):
                            found.append(going)
                self._found[smaller] = found
        return self._found[size]


def _may_move(pod: Pod) -> bool:
    return (
        bool(pod.spec.node_name)
        and pod.status.phase not in ("Succeeded", "Failed")
        and controller_of(pod) is not None
        and not is_bound_to_node(pod)
    )


def _again(pod: Pod) -> Pod:
    """Return the pod as its controller recreates it."""
    meta = _replace(
        pod.metadata,
        name=f"{pod.metadata.name}-again",
        uid=f"{pod.metadata.uid}-again",
        deletion_timestamp=None,
    )
    return Pod(metadata=meta, spec=_replace(pod.spec, node_name=""))

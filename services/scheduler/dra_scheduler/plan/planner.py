"""The planner's questions about one world. The command line, HTTP routes, console and ``World`` call it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from dra_shared.api.node import Taint
from dra_shared.api.resource import DeviceTaint
from dra_shared.api.resources import DEVICE_CLASSES, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

from dra_scheduler.plan.alignment import Aligned, find_aligned
from dra_scheduler.plan.change import Comparison, compare, places
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.errors import PlanError
from dra_scheduler.plan.fit import Fit, Fitter, Wanted
from dra_scheduler.plan.gaps import gaps, gate_gaps, line
from dra_scheduler.plan.moves import Mover, Moves
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.packing.answer import Packing
from dra_scheduler.plan.packing.freeing import Freer
from dra_scheduler.plan.packing.packer import Packer
from dra_scheduler.plan.purchase.answer import Purchase
from dra_scheduler.plan.purchase.buyer import Buyer, NodeType
from dra_scheduler.plan.quotas import without_usage
from dra_scheduler.plan.replaying.answer import Course, Replay
from dra_scheduler.plan.replaying.replayer import Replayer, Timeline
from dra_scheduler.plan.setup import Setup
from dra_scheduler.plan.simulation import Stopped
from dra_scheduler.plan.workloads import TEMPLATED

_replace = msgspec.structs.replace
# Namespaces that exist in each cluster.
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

Answer = TypeVar("Answer", bound=msgspec.Struct)


class Planner:
    """Answers questions about the world of ``objects``, one at a time.

    ``problems`` are the errors of reading the world. Each answer includes them in ``uncertain``. ``running``
    returns False to stop. ``progress`` is called with the number of pods that were placed so far.
    """

    def __init__(
        self,
        objects: Objects,
        engine: Engine | None = None,
        *,
        problems: Iterable[str] = (),
        running: Callable[[], bool] = lambda: True,
        progress: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._objects = objects
        self._engine = engine or Engine(running=running)
        self._problems = tuple(problems)
        self._running = running
        self._progress = progress

    @property
    def objects(self) -> Objects:
        """The objects of the world."""
        return self._objects

    @property
    def setup(self) -> Setup:
        """The setup of the world's scheduler."""
        return self._engine.setup

    def goes_on(self) -> bool:
        """Return False after an interruption."""
        return self._running()

    def report_progress(self, number: int) -> None:
        """Report the number of completed steps of a question that does not place pods itself."""
        self._progress(number)

    def uncertain(self) -> tuple[str, ...]:
        """Return read errors, gaps of the world, and assumptions about it."""
        found = self._objects.needed_gates()
        assumed = gate_gaps(found, self.setup.gates, self.setup.version)
        return (*self._problems, *gaps(self._objects), *assumed)

    def with_changes(self, objects: Objects | None = None, setup: Setup | None = None) -> "Planner":
        """Return a planner for other objects or another setup of the scheduler."""
        same = setup is None or setup == self.setup
        return Planner(
            self._objects if objects is None else objects,
            self._engine if same else Engine(setup, running=self._running),
            problems=self._problems,
            running=self._running,
            progress=self._progress,
        )

    def without_nodes(self, names: Iterable[str]) -> "Planner":
        """Return a planner for the world without these nodes, their slices and their pods.

        Raises:
            PlanError: there is no such node.
        """
        return self.with_changes(without_nodes(self._objects, names))

    def close(self) -> None:
        """Close the scheduler."""
        self._engine.close()

    def fit(
        self,
        wanted: Wanted,
        count: int | None = None,
        *,
        most: bool = False,
        more: bool = False,
        without: Iterable[str] = (),
    ) -> Fit:
        """Try the pods as they are, ``count`` copies of them, or with ``most`` as many as fit.

        With ``more`` further copies that would fit are counted. ``without`` are nodes to leave out.

        Raises:
            PlanError: there is no such node.
        """
        there = self.without_nodes(without)._objects
        fitter = Fitter(self._engine.at(there, wanted), wanted, self._progress)
        return self._with_doubts(fitter.answer(count, most=most, more=more), wanted)

    def drain(self, nodes: Iterable[str]) -> Moves:
        """Return the new nodes of the pods if these nodes are drained, and the stuck pods.

        Raises:
            PlanError: there is no such node, or none is named.
        """
        return self._with_doubts(self._mover().drain(self._check_names(nodes)))

    def remove(self, nodes: Iterable[str]) -> Moves:
        """Return the new nodes of the pods if these nodes are deleted with their devices. Raises like :meth:`drain`."""
        return self._with_doubts(self._mover().remove(self._check_names(nodes)))

    def upgrade(self, nodes: Iterable[str] = ()) -> Moves:
        """Return the order in which nodes (none: all) can be drained one by one. Raises like :meth:`drain`."""
        return self._with_doubts(
            self._mover().upgrade(self._check_names(tuple(nodes) or self._objects.of(NODES)))
        )

    def taint_node(self, node: str, taint: Taint) -> Moves:
        """Return the pods that leave a node which gets the taint.

        Raises:
            PlanError: there is no such node or effect.
        """
        _check_effect(taint.effect)
        (name,) = self._check_names((node,))
        return self._with_doubts(self._mover().taint_node(name, taint))

    def taint_device(self, driver: str, pool: str, device: str, taint: DeviceTaint) -> Moves:
        """Return the pods that leave a device which gets the taint.

        Raises:
            PlanError: there is no such device or effect.
        """
        _check_effect(taint.effect)
        if not any(
            (piece.spec.driver, piece.spec.pool.name) == (driver, pool)
            and any(each.name == device for each in piece.spec.devices)
            for piece in self._objects.of(RESOURCE_SLICES).values()
        ):
            raise PlanError(f"there is no device {driver}/{pool}/{device}")
        return self._with_doubts(self._mover().taint_device(driver, pool, device, taint))

    def change(self, after: "Planner", left_out: Iterable[str] = ()) -> Comparison:
        """Compare the placement of the same pods in this world and in the world after an edit."""
        before = places(self._engine.at(self._objects))
        found = compare(before, places(after._engine.at(after._objects)))
        doubts = [*self.uncertain()]
        if workloads := list(_changed_workloads(self._objects, after._objects)):
            doubts.append(line("changed workloads", workloads, "their pods count as they are"))
        if after.setup.before is None:
            doubts += after._assumed_gates(after._objects, self._objects)
        return self._with_doubts(found, Wanted((), left_out=tuple(left_out)), doubts)

    def nodes(
        self, types: Sequence[NodeType], wanted: Wanted, count: int | None = None, *, seconds: float
    ) -> Purchase:
        """Return the cheapest nodes of these types for the waiting pods and ``count`` copies of the wanted pods.

        Raises:
            PlanError: there are no types.
        """
        if not types:
            raise PlanError("no node types are given: name at least one in types")
        brought = [each for type_ in types for each in (*type_.node("new"), *type_.classes)]
        whole = self._objects.with_objects(brought)
        objects = self._objects.with_needs_of(whole)
        in_time = _deadline(seconds)
        new = self._engine.new(objects, wanted)
        buyer = Buyer(objects, wanted, types, new, running=self._running, in_time=in_time)
        # Objects that the world lacks but that come with the new nodes cause no uncertainty.
        filled = set(gaps(self._objects)) - set(gaps(whole))
        doubts = [line for line in self.uncertain() if line not in filled]
        doubts += self._assumed_gates(whole, self._objects)
        return self._with_doubts(buyer.answer(count), wanted, doubts)

    def pack(self, wanted: Wanted | None = None, count: int | None = None, *, seconds: float) -> Packing:
        """Return stranded devices, the remaining room of nodes, and the fewest moves that make room for the pods."""
        packer = Packer(self._engine.at(self._objects), self._objects, self._progress)
        answer = packer.answer()
        if wanted is None or not answer.complete:
            return self._with_doubts(answer, wanted)
        in_time = _deadline(seconds)
        stopped = False

        def go_on() -> None:
            nonlocal stopped
            stopped = not self._running()
            if stopped or not in_time():
                raise Stopped

        freer = Freer(self._objects, wanted, self._engine.new(self._objects, wanted), go_on)
        room, _ = freer.answer(count)
        return self._with_doubts(_replace(answer, room=room, complete=not stopped), wanted)

    def strand(self, wanted: Wanted, *, seconds: float) -> Packing:
        """Return the stranded devices, as :meth:`pack` does, with the wanted pods among the shapes.

        After so many seconds the answer is incomplete. A separate scheduler is used, so that the search can be
        stopped at the time limit.
        """
        objects = self._objects.with_objects(wanted.others)
        engine = Engine(self.setup, running=_deadline(seconds))
        try:
            return Packer(engine.at(objects, wanted), objects).answer(wanted.pods)
        finally:
            engine.close()

    def count_aligned(self, classes: Mapping[str, int], attribute: str) -> Aligned:
        """Return the free sets of so many devices of each class that share the attribute's value.

        Raises:
            PlanError: no class is named, a class does not exist, or a number is not positive.
        """
        known = self._objects.of(DEVICE_CLASSES)
        for name, number in classes.items():
            if name not in known:
                raise PlanError(f'there is no device class "{name}"')
            if number < 1:
                raise PlanError(f"a set needs at least one device of class {name}")
        if not classes:
            raise PlanError("no device class is named: a set needs at least one")
        scheduler = self._engine.at(self._objects).scheduler
        nodes = list(scheduler.cache.node_objects())
        return self._with_doubts(find_aligned(scheduler.manager, nodes, classes, attribute))

    def replay(
        self,
        timeline: Timeline,
        changes: Sequence[tuple[str, "Planner"]] = (),
        *,
        starved_after: float,
        left_out: Iterable[str] = (),
    ) -> Replay:
        """Replay the timeline in this world and in that of each change."""
        courses: list[Course] = []
        variants = [("as it is", self), *changes]
        for name, planner in variants:
            objects = without_pods(planner._objects, timeline)
            wanted = Wanted((), timeline.groups, timeline.others)
            world = planner._engine.new(objects, wanted)(self._running)
            try:
                world.load((resource, each.values()) for resource, each in objects)
                courses.append(Replayer(world, timeline, self._progress).run(name, starved_after))
            except Stopped:
                break
            finally:
                world.close()
        answer = Replay(courses=tuple(courses), complete=len(courses) == len(variants))
        return self._with_doubts(answer, Wanted((), left_out=tuple(left_out)))

    def _mover(self) -> Mover:
        return Mover(self._engine.at(self._objects))

    def _check_names(self, names: Iterable[str]) -> list[str]:
        found = list(dict.fromkeys(names))
        if not found:
            raise PlanError("there are no nodes")
        _check_nodes(self._objects, found)
        return found

    def _assumed_gates(self, objects: Objects, before: Objects) -> list[str]:
        """Return lines for gates that are on only because of objects that ``before`` lacks."""
        known = before.needed_gates()
        found = {gate: holder for gate, holder in objects.needed_gates().items() if gate not in known}
        return gate_gaps(found, self.setup.gates, self.setup.version)

    def _with_doubts(
        self, answer: Answer, wanted: Wanted | None = None, doubts: Iterable[str] | None = None
    ) -> Answer:
        """Return the answer with the ``doubts`` and other reasons why it is uncertain."""
        lines = [*(self.uncertain() if doubts is None else doubts)]
        changes: dict[str, Any] = {}
        if wanted is not None:
            lines += wanted.assumed
            lines += _without_namespace(wanted, self._objects)
            lines += self._assumed_gates(wanted.within(Objects()), self._objects)
        if wanted is not None and wanted.left_out:
            changes["left_out"] = wanted.left_out
            lines.append(unknown_kinds_line(wanted.left_out))
        return _replace(answer, uncertain=tuple(dict.fromkeys(lines)), **changes)


def unknown_kinds_line(left_out: Sequence[str]) -> str:
    """Return the line about workloads that are left out."""
    return f"of unknown kinds: {', '.join(left_out)}; pods that their controllers make are not counted"


def _without_namespace(wanted: Wanted, objects: Objects) -> list[str]:
    """Return a line about namespaces of wanted pods that the world lacks although it has others."""
    known = wanted.within(objects).of(NAMESPACES)
    names = {pod.metadata.namespace for pod in wanted.pods} - known.keys() - set(_NAMESPACES)
    if not objects.of(NAMESPACES) or not names:
        return []
    return [f"namespaces that do not exist: {', '.join(sorted(names))}; pods count as if they did"]


def without_nodes(objects: Objects, names: Iterable[str]) -> Objects:
    """Return the world without these nodes, their slices and their pods.

    Raises:
        PlanError: there is no such node.
    """
    gone = set(names)
    if not gone:
        return objects
    _check_nodes(objects, sorted(gone))
    slices = [key for key, piece in objects.of(RESOURCE_SLICES).items() if piece.spec.node_name in gone]
    pods = [key for key, pod in objects.of(PODS).items() if pod.spec.node_name in gone]
    left = objects.without(NODES, gone).without(RESOURCE_SLICES, slices).without(PODS, pods)
    return without_usage(objects, left)


def without_pods(objects: Objects, timeline: Timeline) -> Objects:
    """Return the world without the timeline's pods and the claims that were allocated only for them."""
    pods = [arrival.pod for arrival in timeline.arrivals]
    uids = {pod.metadata.uid for pod in pods}
    gone = [
        key
        for key, claim in objects.of(RESOURCE_CLAIMS).items()
        if claim.status.reserved_for and all(each.uid in uids for each in claim.status.reserved_for)
    ]
    keys = {pod.key for pod in pods} & objects.of(PODS).keys()
    return without_usage(objects, objects.without(PODS, keys).without(RESOURCE_CLAIMS, gone))


def _changed_workloads(before: Objects, after: Objects) -> Iterator[str]:
    """Yield the workloads whose pod templates an edit changes."""
    for resource in TEMPLATED:
        known, now = before.of(resource), after.of(resource)
        for key, obj in now.items() if now is not known else ():
            if key not in known or known[key].spec != obj.spec:
                yield f"{resource.kind} {key}"


def _check_nodes(objects: Objects, names: Iterable[str]) -> None:
    for name in names:
        if name not in objects.of(NODES):
            raise PlanError(f'there is no node "{name}"')


def _check_effect(effect: str) -> None:
    if effect not in _EFFECTS:
        raise PlanError("effect must be NoSchedule, PreferNoSchedule or NoExecute")


def _deadline(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end

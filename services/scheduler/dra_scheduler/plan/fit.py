"""``plan fit``: whether and how many pods fit into a world, their nodes, and why the first other pod does not fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from dra_shared.api.meta import Object, Struct
from dra_shared.api.pod import Pod
from dra_shared.api.resources import POD_GROUPS, PODS, Resource
from dra_shared.api.scheduling import PodGroup
from dra_shared.plurals import count

from dra_scheduler.explain.report import PodReport
from dra_scheduler.plan.copies import copy_pods
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.simulation import Simulation, Stopped
from dra_scheduler.plan.tables import table

_replace = msgspec.structs.replace

# The maximum number of further copies that are counted.
_MORE = 100
_LARGEST_BATCH = 1024


class PodPlace(Struct):
    """One of the pods to place: its node and devices, or the message of its last scheduling attempt."""

    pod: str
    node: str = ""
    devices: tuple[str, ...] = ()
    message: str = ""


class Fit(Struct):
    """The answer of ``plan fit``.

    ``fits`` is the number of pods that fit, of ``wanted`` (0: as many as possible). ``copies`` is how many
    times all pods of the question fit together. ``more`` further copies would fit. With ``more_at_least``,
    counting stopped there and even more may fit. ``preempted`` are pods that would be preempted, each with the
    event's text. ``waiting`` is the number of pending pods in the world that find no node. They are tried
    before the wanted pods. ``unplaced`` explains the first pod that does not fit. Without ``complete`` the
    search was interrupted, and this is its intermediate result. ``uncertain`` lists objects that the world
    lacks and other reasons why the answer may be wrong. ``left_out`` are workloads of unknown kinds, whose pods
    are not counted.
    """

    fits: int
    wanted: int
    copies: int = 0
    more: int = 0
    more_at_least: bool = False
    pods: tuple[PodPlace, ...] = ()
    preempted: dict[str, str] = msgspec.field(default_factory=dict)
    waiting: int = 0
    unplaced: PodReport | None = None
    complete: bool = True
    uncertain: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        rows = [(pod.pod, pod.node or pod.message, ", ".join(pod.devices)) for pod in self.pods]
        fits = (
            f"{self.fits} of {count(self.wanted, 'pod')} fit"
            if self.wanted
            else f"{count(self.fits, 'pod')} fit"
        )
        return table(fits, ("pod", "node", "devices"), rows)

    @property
    def good(self) -> bool:
        """True if all wanted pods fit, or if at least one copy fits when as many as possible are wanted."""
        return (
            self.complete
            and not self.left_out
            and (self.fits >= self.wanted if self.wanted else self.copies > 0)
        )


@dataclass(frozen=True)
class Wanted:
    """One copy of the wanted pods and their groups.

    ``others`` are objects that the copies share, such as claims and classes. ``left_out`` names workloads of
    unknown kinds, whose pods are not counted. ``assumed`` lists the assumptions about objects that the pods
    refer to and the world lacks.
    """

    pods: Sequence[Pod]
    groups: Sequence[PodGroup] = ()
    others: Sequence[tuple[Resource[Any], Object]] = field(default_factory=tuple)
    left_out: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def within(self, objects: Objects) -> Objects:
        """Return the world with these objects added."""
        groups: list[tuple[Resource[Any], Object]] = [(POD_GROUPS, group) for group in self.groups]
        return objects.with_objects([*groups, *self.others, *((PODS, pod) for pod in self.pods)])


class Fitter:
    """Adds copies of the wanted pods to a world, until one does not fit or enough copies are placed."""

    def __init__(
        self,
        world: Simulation,
        wanted: Wanted,
        progress: Callable[[int], None] = lambda placed: None,
    ) -> None:
        self._world = world
        self._wanted = wanted
        self._progress = progress
        self._copies: list[list[str]] = []

    def answer(self, count: int | None, *, most: bool = False, more: bool = True) -> Fit:
        """Try ``count`` copies (None: the pods as they are), or with ``most`` as many copies as fit."""
        world = self._world
        with world.trial():
            complete, further, open_end, waiting = True, 0, False, 0
            try:
                # Waiting pods of the world are tried first.
                world.settle()
                waiting = sum(not pod.spec.node_name for pod in world.client.objects(PODS))
                for resource, obj in self._wanted.others:
                    world.create_other(resource, obj)
                if most:
                    self._add_until_full(None)
                else:
                    self._add(count or 1, numbered=count is not None)
            except Stopped:
                complete = False
            asked = len(self._copies)
            fit = self._fit(asked, 0 if most else asked * len(self._wanted.pods), waiting)
            if complete and more and not most and fit.good and self._wanted.pods:
                further, open_end, complete = self._count_more()
            return _replace(fit, more=further, more_at_least=open_end, complete=complete)

    def _count_more(self) -> tuple[int, bool, bool]:
        before = len(self._copies)
        try:
            self._add_until_full(_MORE)
        except Stopped:
            return self._complete(before), True, True
        found = self._complete(before)
        return found, found >= _MORE, True

    def _add_until_full(self, limit: int | None) -> None:
        batch, added = 1, 0
        while limit is None or added < limit:
            batch = batch if limit is None else min(batch, limit - added)
            start = len(self._copies)
            self._add(batch, numbered=True)
            added += batch
            if self._complete(start) < batch or not self._wanted.pods:
                return
            batch = min(2 * batch, _LARGEST_BATCH)

    def _add(self, copies: int, *, numbered: bool) -> None:
        for _ in range(copies):
            number = len(self._copies) + 1
            ending = f"-{number}" if numbered else ""
            groups, pods = copy_pods(self._world, self._wanted.pods, self._wanted.groups, ending)
            for group in groups:
                self._world.add(POD_GROUPS, group)
            self._copies.append([pod.key for pod in pods])
            for pod in pods:
                self._world.create(pod)
        self._world.settle()
        self._progress(self._count_placed(self._copies))

    def _complete(self, start: int) -> int:
        """Return the number of copies from ``start`` on whose pods are all placed."""
        return sum(all(self._node(key) for key in copy) for copy in self._copies[start:])

    def _count_placed(self, copies: Iterable[Sequence[str]]) -> int:
        return sum(bool(self._node(key)) for copy in copies for key in copy)

    def _node(self, key: str) -> str:
        pod = self._world.pod(key)
        return pod.spec.node_name if pod is not None else ""

    def _fit(self, copies: int, wanted: int, waiting: int) -> Fit:
        world = self._world
        keys = [key for copy in self._copies[:copies] for key in copy]
        places = tuple(self._place(key) for key in keys)
        missing = next((place.pod for place in places if not place.node), None)
        explained = None
        if missing is not None:
            namespace, _, name = missing.partition("/")
            explained = world.scheduler.explainer.pod(namespace, name, most_nodes=3)
            if explained is None and world.is_refused(missing):
                explained = PodReport(pod=missing, state="refused", message=world.message(missing))
            elif explained is not None:
                explained = world.with_refusal(explained)
        if not wanted:
            # Leave out the copies that no longer fit.
            places = tuple(place for place in places if place.node)
        return Fit(
            fits=sum(bool(place.node) for place in places),
            wanted=wanted,
            copies=self._complete(0),
            pods=places,
            preempted=dict(world.preemptions),
            waiting=waiting,
            unplaced=explained,
        )

    def _place(self, key: str) -> PodPlace:
        pod = self._world.pod(key)
        if pod is None and not self._world.is_refused(key):
            return PodPlace(pod=key, message="preempted")
        if pod is not None and pod.spec.node_name:
            return PodPlace(pod=key, node=pod.spec.node_name, devices=self._world.devices(pod))
        return PodPlace(pod=key, message=self._world.message(key))

"""``plan replay``: runs a timeline in a world's virtual time and records waits and device use.

A pod's duration starts when it gets its place, so a pod that waits longer leaves later.
"""

import functools
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import mean, median
from typing import Any

import msgspec
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import NODES, POD_GROUPS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from dra_shared.api.scheduling import PodGroup

from dra_scheduler.plan.copies import copy_pods
from dra_scheduler.plan.prices import price_of
from dra_scheduler.plan.replaying.answer import Course, Starved, Waits
from dra_scheduler.plan.replaying.ledger import Holding, Holdings, Ledger
from dra_scheduler.plan.simulation import Simulation
from dra_scheduler.plan.upkeep import claim_names
from dra_scheduler.plan.weights import Weights

_replace = msgspec.structs.replace


@dataclass(frozen=True)
class Arrival:
    """A pod that arrives at ``at`` seconds and stays for ``lasts`` seconds (None: forever)."""

    at: float
    lasts: float | None
    pod: Pod


@dataclass(frozen=True)
class Timeline:
    """Arrivals of pods. ``groups`` and ``others`` are objects that they refer to, which exist from the start."""

    arrivals: Sequence[Arrival]
    groups: Sequence[PodGroup] = ()
    others: Sequence[tuple[Resource[Any], Object]] = field(default_factory=tuple)


@dataclass
class _Account:
    """The record of one pod. ``placed`` is the time at which it first got a place, ``since`` the last such time."""

    arrival: Arrival
    arrived: float
    placed: float | None = None
    since: float | None = None
    used: Holdings = field(default_factory=dict)


class Replayer:
    """Runs a timeline once, in a world that has the nodes and all other objects that do not change."""

    def __init__(
        self, world: Simulation, timeline: Timeline, progress: Callable[[int], None] = lambda done: None
    ) -> None:
        self._world = world
        self._timeline = timeline
        self._progress = progress
        self._numbers = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._accounts: dict[str, _Account] = {}
        self._leaving = ""
        self._refused: list[Pod] = []
        self._restarts = 0
        self._weights = Weights(world.client.objects(RESOURCE_SLICES))
        self._prices = [price_of(node) or 0.0 for node in world.client.objects(NODES)]
        self._ledger = Ledger({}, {}, 0.0)
        self._last = 0.0

    def run(self, name: str, starved_after: float) -> Course:
        """Run the timeline.

        Raises:
            Stopped: it was interrupted.
        """
        world = self._world
        world.client.on_bound = self._record_binding
        release = world.client.on_pod_gone

        def handle_deletion(pod: Pod) -> None:
            self._record_deletion(pod)
            release(pod)

        world.client.on_pod_gone = handle_deletion
        for resource, obj in self._timeline.others:
            world.create_other(resource, obj)
        world.settle()
        started = world.elapsed_seconds
        self._last = started
        self._ledger = Ledger(self._weights.totals, self._find_device_prices(), started)
        for claim in world.client.objects(RESOURCE_CLAIMS):
            self._ledger.change(self._holdings_of(claim), 1, started)
        for group in self._timeline.groups:
            world.add(POD_GROUPS, group)
        for arrival in sorted(self._timeline.arrivals, key=lambda arrival: arrival.at):
            self._at(started + arrival.at, functools.partial(self._arrive, arrival))
        while self._events:
            world.settle(self._next)
            world.pass_until(self._next())
            now = world.elapsed_seconds
            while self._events and self._events[0][0] <= now:
                heapq.heappop(self._events)[2]()
            world.settle(lambda: world.elapsed_seconds)
        world.settle()
        self._ledger.count(world.elapsed_seconds)
        return self._course(name, started, starved_after)

    def _next(self) -> float:
        return self._events[0][0] if self._events else float("inf")

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._numbers), action))

    def _arrive(self, arrival: Arrival) -> None:
        _, (pod,) = copy_pods(self._world, (arrival.pod,), (), "")
        self._accounts[pod.key] = _Account(arrival, self._world.elapsed_seconds)
        self._create(pod)
        self._progress(len(self._accounts))

    def _create(self, pod: Pod) -> None:
        self._world.create(pod)
        if self._world.is_refused(pod.key):
            self._refused.append(pod)

    def _create_refused(self) -> None:
        """Create the pods again that a quota refused, as controllers do after other pods have left."""
        refused, self._refused = self._refused, []
        for pod in refused:
            self._create(pod)

    def _record_binding(self, pod: Pod) -> None:
        account = self._accounts.get(pod.key)
        if account is None:
            return
        now = self._world.elapsed_seconds
        account.placed = now if account.placed is None else account.placed
        account.since = now
        account.used = self._use_of(pod)
        self._ledger.change(account.used, 1, now)
        if account.arrival.lasts is not None:
            # Arrivals at the same moment come after departures.
            self._at(now + account.arrival.lasts, lambda: self._depart(pod.key, now))

    def _depart(self, key: str, since: float) -> None:
        if self._accounts[key].since == since:
            self._leaving = key
            self._world.remove(PODS, key)
            self._leaving = ""
            self._create_refused()
            self._last = self._world.elapsed_seconds

    def _record_deletion(self, pod: Pod) -> None:
        account = self._accounts.get(pod.key)
        if account is None:
            return
        self._ledger.change(account.used, -1, self._world.elapsed_seconds)
        account.used, account.since = {}, None
        if pod.key != self._leaving:
            # The pod was preempted. Its controller recreates it, here under the same name.
            self._restarts += 1
            self._at(self._world.elapsed_seconds, lambda: self._come_again(pod))

    def _come_again(self, pod: Pod) -> None:
        meta = _replace(pod.metadata, uid=self._world.client.new_uid(), deletion_timestamp=None)
        again = self._accounts[pod.key].arrival.pod
        self._create(Pod(metadata=meta, spec=again.spec))

    def _find_device_prices(self) -> dict[str, float]:
        """Return the price of a device of each model. The devices of a node share its price in equal parts."""
        pieces = self._world.client.objects(RESOURCE_SLICES)
        found: dict[str, float] = {}
        for node in self._world.client.objects(NODES):
            price = price_of(node)
            own = Weights(piece for piece in pieces if piece.spec.node_name == node.metadata.name)
            devices = sum(own.totals.values())
            for model, number in own.totals.items() if price and devices else ():
                found[model] = found.get(model, 0.0) + (price or 0.0) * number / devices
        return {model: price / self._weights.totals[model] for model, price in found.items()}

    def _holdings_of(self, claim: ResourceClaim) -> Holdings:
        space = claim.metadata.namespace
        weights = self._weights.by_model_and_class(claim)
        return {Holding(model, name, space): amount for (model, name), amount in weights.items()}

    def _use_of(self, pod: Pod) -> Holdings:
        find = self._world.client.find
        total: dict[Holding, float] = {}
        for name in claim_names(pod):
            claim = find(RESOURCE_CLAIMS, f"{pod.metadata.namespace}/{name}")
            # A claim that several pods share counts only once.
            if claim is not None and len(claim.status.reserved_for) <= 1:
                for holding, amount in self._holdings_of(claim).items():
                    total[holding] = total.get(holding, 0.0) + amount
        return total

    def _course(self, name: str, started: float, starved_after: float) -> Course:
        accounts = self._accounts
        waits = [a.placed - a.arrived for a in accounts.values() if a.placed is not None]
        first = started + min((arrival.at for arrival in self._timeline.arrivals), default=0.0)
        end = max(self._last, first)
        # A pod may arrive after the last departure.
        rest = [max(0.0, end - a.arrived) for a in accounts.values() if a.placed is None]
        starved = []
        for key, account in accounts.items():
            waited = (end if account.placed is None else account.placed) - account.arrived
            if account.placed is None or waited > starved_after:
                starved.append(
                    Starved(
                        pod=key,
                        at=round(account.arrived - started, 3),
                        waited=round(max(0.0, waited), 3),
                        message="" if account.placed is not None else self._message(key),
                    )
                )
        span = end - first
        ledger, room = self._ledger, sum(self._weights.totals.values()) * span
        cost = sum(self._prices) * span / 3600
        models = ledger.models(span)
        return Course(
            name=name,
            pods=len(accounts),
            placed=len(waits),
            waits=_waits(waits),
            all_waits=_waits([*waits, *rest]),
            utilisation=round(ledger.device_seconds / room, 6) if room else 0.0,
            span=round(span, 3),
            starved=tuple(sorted(starved, key=lambda each: -each.waited)),
            preempted=self._restarts,
            cost=round(cost, 4),
            idle_cost=round(max(0.0, cost - sum(use.cost for use in models)), 4),
            models=models,
            classes=ledger.classes(span),
            namespaces=ledger.namespaces(span),
            moments=ledger.moments(),
        )

    def _message(self, key: str) -> str:
        return self._world.message(key)


def _waits(seconds: Sequence[float]) -> Waits:
    waits = sorted(seconds)
    if not waits:
        return Waits()
    return Waits(
        mean=round(mean(waits), 3),
        median=round(median(waits), 3),
        p90=_quantile(waits, 0.9),
        p95=_quantile(waits, 0.95),
        p99=_quantile(waits, 0.99),
        longest=round(waits[-1], 3),
    )


def _quantile(waits: Sequence[float], part: float) -> float:
    return round(waits[min(len(waits) - 1, int(part * len(waits)))], 3)

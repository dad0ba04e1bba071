"""Faults on demand: for a limited time, requests are delayed, fail or conflict, and watches are cut.

Not part of upstream. https://kubernetes.io/docs/reference/using-api/api-concepts/ says what clients must
handle. A fault affects a fraction of the matching requests, chosen at random from a seed. It never affects the
server's own endpoints.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from dra_shared.clock import Clock
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.places import AGENTS, OBSERVER
from dra_shared.faults.requests import (
    Fate,
    Meeting,
    Refusal,
    RequestFault,
    RequestKind,
    Watches,
    WatchFault,
    WatchKind,
)

from dra_apiserver.errors import GroupResource, StatusError, conflict, internal, service_unavailable, timeout
from dra_apiserver.errors import too_many_requests as too_many

Fault = RequestFault | WatchFault


class Active(msgspec.Struct, rename="camel"):
    """An active fault: its number, the seconds left, and the number of requests or watches that it affected."""

    id: int
    fault: Fault
    left: float
    met: int


@dataclass
class _Running:
    fault: Fault
    until: float
    rng: random.Random
    met: int = 0
    watches: Watches | None = None
    cutter: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """The number of requests or watches that the fault has affected so far."""
        return self.met if self.watches is None else self.watches.met

    def kind_for(self, verb: str, resource: GroupResource, agent: str) -> RequestKind | None:
        """Return the fault's kind if the fault affects the request."""
        fault, kind = self.fault, KINDS[self.fault.fault]
        affected = (
            isinstance(kind, RequestKind)
            and isinstance(fault, RequestFault)
            and not agent.startswith(OBSERVER)
            and (not fault.service or AGENTS[fault.service] in agent)
            and (not fault.verbs or verb in fault.verbs)
            and (not fault.resources or bool({str(resource), resource.plural} & set(fault.resources)))
            and (not fault.agents or any(one in agent for one in fault.agents))
            and verb in kind.affected
            and (fault.share == 1 or self.rng.random() < fault.share)
        )
        return kind if affected and isinstance(kind, RequestKind) else None


class Faults:
    """The active faults.

    ``active`` is false if there are none, which is a cheap check for each request. ``cut`` ends all watches and
    returns their number. ``hold`` withholds the events of watches, or releases them.
    """

    def __init__(
        self, clock: Clock, cut: Callable[[], int], hold: Callable[[bool], int] = lambda held: 0
    ) -> None:
        self._clock = clock
        self._cut = cut
        self._hold = hold
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running] = {}
        self._cutters: set[asyncio.Task[None]] = set()
        self.active = False

    def begin(self, fault: Fault) -> Active:
        """Begin the fault."""
        number = next(self._numbers)
        seed = fault.seed if isinstance(fault, RequestFault) else 0
        running = _Running(fault, self._clock.monotonic() + fault.seconds, random.Random(seed))
        self._running[number] = running
        self.active = True
        kind = KINDS[fault.fault]
        if isinstance(kind, WatchKind) and isinstance(fault, WatchFault):
            watches = running.watches = Watches(self._clock, running.until, self._cut, self._hold)
            running.cutter = task = asyncio.create_task(kind.disturb(watches, fault))
            self._cutters.add(task)
            task.add_done_callback(self._cutters.discard)
        return self.list()[-1]

    def list(self) -> list[Active]:
        """Return the active faults, oldest first."""
        now = self._clock.monotonic()
        self._running = {number: one for number, one in self._running.items() if one.until > now}
        self.active = bool(self._running)
        return [
            Active(number, one.fault, round(one.until - now, 3), one.count)
            for number, one in self._running.items()
        ]

    def count(self, number: int) -> Callable[[], int]:
        """Return a function that counts the requests that a fault has affected, also after its end."""
        running = self._running[number]
        return lambda: running.count

    def clear(self) -> None:
        """End all faults."""
        for number in list(self._running):
            self.end(number)

    def end(self, number: int) -> None:
        """End one fault."""
        running = self._running.pop(number, None)
        self.active = bool(self._running)
        if running is not None and running.cutter is not None:
            running.cutter.cancel()

    async def meet(self, verb: str, resource: GroupResource, name: str, agent: str) -> Fate:
        """Apply the faults to a request, which may be delayed, rejected, or lost, or may lose its response.

        Raises:
            StatusError: the response of a fault.
        """
        for active in self.list():
            one = self._running.get(active.id)
            kind = one.kind_for(verb, resource, agent) if one is not None else None
            if one is None or kind is None or not isinstance(one.fault, RequestFault):
                continue
            one.met += 1
            fate = await kind.meet(Meeting(verb, active.left, one.rng, self._clock), one.fault)
            if isinstance(fate, Refusal):
                raise _error(fate, resource, name)
            if fate != "handled":
                return fate
        return "handled"


def _error(refusal: Refusal, resource: GroupResource, name: str) -> StatusError:
    text = "a fault on demand"
    match refusal.code:
        case 409:
            return conflict(resource, name)
        case 429:
            return too_many("the server has received too many requests and has asked us to try again later")
        case 503:
            return service_unavailable(text)
        case 504:
            return timeout(text)
        case _:
            return internal(text)

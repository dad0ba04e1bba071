"""Faults on demand: requests that wait, fail or conflict, and watches that are cut, each for a time.

Not part of upstream. https://kubernetes.io/docs/reference/using-api/api-concepts/ says what clients must
handle. A fault affects a share of its requests, drawn from a seed. It never affects the server's own
endpoints.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec
from dra_shared.clock import Clock
from dra_shared.faults.catalog import AGENTS, OBSERVER, VERBS

from dra_apiserver.errors import GroupResource, StatusError, conflict, internal, service_unavailable, timeout
from dra_apiserver.errors import too_many_requests as too_many

LONGEST = 3600.0
_WRITES = frozenset({"update", "patch"})

Name = Literal["latency", "error", "conflict", "watch-cut", "watch-behind", "reset", "loss"]
_OF_WATCHES = frozenset({"watch-cut", "watch-behind"})
_MOMENT = 0.02
#: What becomes of a request that is not answered with an error: it is handled, handled with its answer lost, or lost.
Fate = Literal["handled", "unanswered", "lost"]


class Fault(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A fault that lasts ``seconds``. An empty list of verbs, resources or agents means all.

    ``service`` limits the fault to one service's requests; empty means all clients.

    ``latency`` waits ``delay`` seconds before each request; ``error`` responds with ``code``; ``conflict``
    responds to updates and patches with 409; ``watch-cut`` ends the open watches, and again every ``delay``
    seconds; ``watch-behind`` sends watch events only every ``delay`` seconds; ``reset`` cuts the connection
    before the request is handled or, as often, before its response; ``loss`` does so when the fault is over.
    """

    fault: Name
    seconds: float
    delay: float = 0.5
    code: Literal[429, 500, 503, 504] = 500
    share: float = 1.0
    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    service: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST:
            raise ValueError(f"seconds: must be above 0 and at most {LONGEST:.0f}")
        if not 0 < self.delay <= self.seconds:
            raise ValueError("delay: must be above 0 and at most seconds")
        if not 0 < self.share <= 1:
            raise ValueError("share: must be above 0 and at most 1")
        if self.service and self.service not in AGENTS:
            raise ValueError(f"there is no service {self.service!r}: choose {', '.join(AGENTS)}")
        if unknown := sorted({*self.verbs} - {*VERBS}):
            raise ValueError(f"there is no verb {unknown[0]!r}: choose {', '.join(VERBS)}")


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
    cutter: asyncio.Task[None] | None = None

    def meets(self, verb: str, resource: GroupResource, agent: str) -> bool:
        fault = self.fault
        return (
            fault.fault not in _OF_WATCHES
            and not agent.startswith(OBSERVER)
            and (not fault.service or AGENTS[fault.service] in agent)
            and (not fault.verbs or verb in fault.verbs)
            and (not fault.resources or bool({str(resource), resource.plural} & set(fault.resources)))
            and (not fault.agents or any(one in agent for one in fault.agents))
            and (fault.fault != "conflict" or verb in _WRITES)
            and (fault.share == 1 or self.rng.random() < fault.share)
        )


class Faults:
    """The active faults. ``active`` is false if there are none, so that the check costs requests little.

    ``cut`` ends all watches and returns their number. ``hold`` holds their events back, or releases them.
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
        running = _Running(fault, self._clock.monotonic() + fault.seconds, random.Random(fault.seed))
        self._running[number] = running
        self.active = True
        if fault.fault in _OF_WATCHES:
            work = self._cut_again if fault.fault == "watch-cut" else self._hold_back
            running.cutter = task = asyncio.create_task(work(running))
            self._cutters.add(task)
            task.add_done_callback(self._cutters.discard)
        return self.list()[-1]

    def list(self) -> list[Active]:
        """Return the active faults, oldest first."""
        now = self._clock.monotonic()
        self._running = {number: one for number, one in self._running.items() if one.until > now}
        self.active = bool(self._running)
        return [
            Active(number, one.fault, round(one.until - now, 3), one.met)
            for number, one in self._running.items()
        ]

    def count(self, number: int) -> Callable[[], int]:
        """Return a function that counts the requests that a fault has affected, also after its end."""
        running = self._running[number]
        return lambda: running.met

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
        """Apply the faults to a request: nothing, a delay, an error, or the loss of the request or its response.

        Raises:
            StatusError: the response of a fault.
        """
        for active in self.list():
            one = self._running.get(active.id)
            if one is None or not one.meets(verb, resource, agent):
                continue
            one.met += 1
            match one.fault.fault:
                case "latency":
                    await self._clock.sleep(min(one.fault.delay, active.left))
                case "reset":
                    # A watch has no effect besides its response.
                    return "lost" if verb == "watch" or one.rng.random() < 0.5 else "unanswered"
                case "loss":
                    await self._clock.sleep(active.left)
                    return "lost"
                case _:
                    raise _error(one.fault, resource, name)
        return "handled"

    async def _cut_again(self, running: _Running) -> None:
        while (left := running.until - self._clock.monotonic()) > 0:
            running.met += self._cut()
            await self._clock.sleep(min(running.fault.delay, left))

    async def _hold_back(self, running: _Running) -> None:
        try:
            while (left := running.until - self._clock.monotonic()) > 0:
                # Includes watches that began after the fault.
                running.met += self._hold(True)
                await self._clock.sleep(min(running.fault.delay, left))
                self._hold(False)
                await self._clock.sleep(_MOMENT)
        finally:
            self._hold(False)


def _error(fault: Fault, resource: GroupResource, name: str) -> StatusError:
    if fault.fault == "conflict":
        return conflict(resource, name)
    text = "a fault on demand"
    match fault.code:
        case 429:
            return too_many("the server has received too many requests and has asked us to try again later")
        case 503:
            return service_unavailable(text)
        case 504:
            return timeout(text)
        case _:
            return internal(text)

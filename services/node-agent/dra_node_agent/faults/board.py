"""The faults at work on an agent's nodes: begun, listed, and ended by their time or before it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import msgspec
from dra_shared.clock import Clock, wait_for
from dra_shared.faults.catalog import KINDS
from dra_shared.log import logger

LONGEST = 3600.0

_log = logger(__name__)


class FaultError(ValueError):
    """There is no such fault, node or device."""


class Fault(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What goes wrong on ``node`` for ``seconds``.

    Args:
        driver: which driver's calls; empty for every one's.
        gpu, xid: of faults of devices.
        delay: how long calls of a slow driver take, in seconds.
        ahead: how far the node's clock is ahead, in seconds.
    """

    fault: str
    seconds: float
    node: str = "node-0"
    driver: str = ""
    gpu: int = 0
    xid: int = 79
    delay: float = 2.0
    ahead: float = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST:
            raise ValueError(f"seconds: must be above 0 and at most {LONGEST:.0f}")
        if not 0 < self.delay <= LONGEST:
            raise ValueError(f"delay: must be above 0 and at most {LONGEST:.0f}")


class Active(msgspec.Struct, rename="camel"):
    """A fault at work: its number, how many seconds are left, what it does, and what Kubernetes promises then."""

    id: int
    fault: Fault
    left: float
    what: str = ""
    promise: str = ""


#: Makes a fault happen within its context, and undoes it at the end; entering it raises FaultError.
Strike = Callable[[Fault], AbstractAsyncContextManager[None]]


@dataclass
class _Running:
    fault: Fault
    until: float
    over: asyncio.Event
    task: "asyncio.Task[None]"


class FaultBoard:
    """Runs faults; ``strikes`` are those that there are, by name."""

    def __init__(self, clock: Clock, strikes: Mapping[str, Strike]) -> None:
        self._clock = clock
        self._strikes = strikes
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running] = {}

    async def begin(self, fault: Fault) -> Active:
        """Let it happen from now on; returns once it does.

        Raises:
            FaultError: there is no such fault, node or device.
        """
        strike = self._strikes.get(fault.fault)
        if strike is None:
            raise FaultError(f"there is no fault {fault.fault!r}: choose {', '.join(self._strikes)}")
        number, over = next(self._numbers), asyncio.Event()
        began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(number, fault, strike, over, began), name=fault.fault)
        self._running[number] = _Running(fault, self._clock.monotonic() + fault.seconds, over, task)
        await asyncio.shield(began)
        return _active(number, fault, fault.seconds)

    def list(self) -> list[Active]:
        """What is at work, oldest first."""
        now = self._clock.monotonic()
        return [
            _active(number, one.fault, round(max(0.0, one.until - now), 3))
            for number, one in self._running.items()
        ]

    async def clear(self) -> None:
        """End all of them now; returns when all is undone."""
        running = list(self._running.values())
        for one in running:
            one.over.set()
        await asyncio.gather(*(one.task for one in running), return_exceptions=True)

    async def _run(
        self,
        number: int,
        fault: Fault,
        strike: Strike,
        over: asyncio.Event,
        began: "asyncio.Future[None]",
    ) -> None:
        try:
            async with strike(fault):
                _log.warning("a fault on demand begins", fault=fault.fault, node=fault.node)
                began.set_result(None)
                await wait_for(over.wait(), fault.seconds, self._clock)
            _log.warning("a fault on demand is over", fault=fault.fault, node=fault.node)
        except Exception as error:
            if not began.done():
                began.set_exception(error)
            else:
                _log.exception("a fault on demand was not undone", fault=fault.fault, node=fault.node)
        finally:
            self._running.pop(number, None)


def _active(number: int, fault: Fault, left: float) -> Active:
    kind = KINDS.get(fault.fault)
    return Active(number, fault, left, *((kind.what, kind.promise) if kind is not None else ()))


#: Undoes what cannot be undone from outside: a driver forgets what it holds against its devices.
Repair = Callable[[str], Awaitable[None]]

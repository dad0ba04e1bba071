"""The faults at work in a service: begun, listed, and ended by their time or before it."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from dra_shared.clock import Clock, wait_for
from dra_shared.faults.catalog import KINDS
from dra_shared.log import logger

LONGEST = 3600.0

_log = logger(__name__)


class FaultError(ValueError):
    """There is no such fault, or nothing of that name that it could strike."""


class Wanted(Protocol):
    """What every fault has: its name, and how long it lasts."""

    @property
    def fault(self) -> str: ...

    @property
    def seconds(self) -> float: ...


F = TypeVar("F", bound=Wanted)


class Active(msgspec.Struct, Generic[F], rename="camel"):
    """A fault at work: its number, how many seconds are left, what it does, and what Kubernetes promises then."""

    id: int
    fault: F
    left: float
    what: str = ""
    promise: str = ""


#: Makes a fault happen within its context, and undoes it at the end; entering it raises FaultError.
Strike = Callable[[F], AbstractAsyncContextManager[None]]


@dataclass
class _Running(Generic[F]):
    fault: F
    until: float
    over: asyncio.Event
    task: "asyncio.Task[None]"


class FaultBoard(Generic[F]):
    """Runs faults; ``strikes`` are those that there are, by name."""

    def __init__(self, clock: Clock, strikes: Mapping[str, Strike[F]]) -> None:
        self._clock = clock
        self._strikes = strikes
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running[F]] = {}

    async def begin(self, fault: F) -> Active[F]:
        """Let it happen from now on; returns once it does.

        Raises:
            FaultError: there is no such fault, or nothing that it could strike.
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

    def list(self) -> list[Active[F]]:
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
        fault: F,
        strike: Strike[F],
        over: asyncio.Event,
        began: "asyncio.Future[None]",
    ) -> None:
        try:
            async with strike(fault):
                _log.warning("a fault on demand begins", fault=fault.fault)
                began.set_result(None)
                await wait_for(over.wait(), fault.seconds, self._clock)
            _log.warning("a fault on demand is over", fault=fault.fault)
        except Exception as error:
            if not began.done():
                began.set_exception(error)
            else:
                _log.exception("a fault on demand was not undone", fault=fault.fault)
        finally:
            self._running.pop(number, None)


def _active(number: int, fault: F, left: float) -> Active[F]:
    kind = KINDS.get(fault.fault)
    return Active(number, fault, left, *((kind.what, kind.promise) if kind is not None else ()))

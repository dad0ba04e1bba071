"""The active faults of a service: begin, list and end them."""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from dra_shared.clock import Clock, wait_for
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.errors import FaultError
from dra_shared.faults.kind import Count
from dra_shared.log import logger

_KEPT = 100

_log = logger(__name__)


class Wanted(Protocol):
    """The fields that every fault has: its name and its duration."""

    @property
    def fault(self) -> str: ...

    @property
    def seconds(self) -> float: ...


F = TypeVar("F", bound=Wanted)


class Active(msgspec.Struct, Generic[F], rename="camel"):
    """An active fault: its number, the seconds left, its effect, and what Kubernetes guarantees during it.

    ``met`` is the number of calls or writes that it affected; None if these are not counted.
    """

    id: int
    fault: F
    left: float
    what: str = ""
    promise: str = ""
    met: int | None = None


#: Makes a fault happen within its context, and undoes it at the end; entering it raises FaultError.
Strike = Callable[[F], AbstractAsyncContextManager[Count | None]]


@dataclass
class _Running(Generic[F]):
    fault: F
    until: float
    task: "asyncio.Task[None] | None" = None
    count: Count | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)


class FaultBoard(Generic[F]):
    """Runs faults. ``strikes`` has the function that applies each fault, by the fault's name."""

    def __init__(self, clock: Clock, strikes: Mapping[str, Strike[F]]) -> None:
        self._clock = clock
        self._strikes = strikes
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running[F]] = {}
        # Ended faults are kept too, because clients read their counts afterwards.
        self._counts: dict[int, _Running[F]] = {}

    async def begin(self, fault: F) -> Active[F]:
        """Begin the fault, and return once it is active.

        Raises:
            FaultError: the fault does not exist, or its target does not.
        """
        strike = self._strikes.get(fault.fault)
        if strike is None:
            raise FaultError(f"there is no fault {fault.fault!r}: choose {', '.join(self._strikes)}")
        number = next(self._numbers)
        running = self._running[number] = _Running(fault, self._clock.monotonic() + fault.seconds)
        began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        running.task = asyncio.create_task(self._run(number, running, strike, began), name=fault.fault)
        await asyncio.shield(began)
        self._counts[number] = running
        for old in list(self._counts)[:-_KEPT]:
            del self._counts[old]
        return self._active(number, running)

    def list(self) -> list[Active[F]]:
        """Return the active faults, oldest first."""
        return [self._active(number, one) for number, one in self._running.items()]

    def get(self, number: int) -> Active[F] | None:
        """Return one fault, active or ended; None if it is unknown."""
        found = self._counts.get(number)
        return None if found is None else self._active(number, found)

    async def clear(self) -> None:
        """End all faults, and return when all effects are undone."""
        await _end(list(self._running.values()))

    async def end(self, number: int) -> None:
        """End one fault if it is active, and return when its effects are undone."""
        await _end([one for at, one in self._running.items() if at == number])

    async def _run(
        self,
        number: int,
        running: _Running[F],
        strike: Strike[F],
        began: "asyncio.Future[None]",
    ) -> None:
        fault = running.fault
        try:
            async with strike(fault) as running.count:
                _log.warning("a fault on demand begins", fault=fault.fault)
                began.set_result(None)
                await wait_for(running.over.wait(), fault.seconds, self._clock)
            _log.warning("a fault on demand is over", fault=fault.fault)
        except Exception as error:
            if not began.done():
                began.set_exception(error)
            else:
                _log.exception("a fault on demand was not undone", fault=fault.fault)
        finally:
            self._running.pop(number, None)

    def _active(self, number: int, one: _Running[F]) -> Active[F]:
        kind = KINDS.get(one.fault.fault)
        left = round(max(0.0, one.until - self._clock.monotonic()), 3) if number in self._running else 0.0
        met = one.count() if one.count is not None else None
        return Active(number, one.fault, left, *((kind.what, kind.promise) if kind else ("", "")), met)


async def _end(running: Sequence[_Running[F]]) -> None:
    for one in running:
        one.over.set()
    await asyncio.gather(*(one.task for one in running if one.task), return_exceptions=True)

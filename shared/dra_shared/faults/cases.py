"""The faults that were requested from a service: their effect, what Kubernetes guarantees, and whether it held."""

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from dra_shared.clock import Clock
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.errors import FaultError
from dra_shared.faults.judging import Away, Judge, Look, Met, no_count, none_away
from dra_shared.faults.kind import Kind
from dra_shared.faults.places import LONGEST
from dra_shared.faults.promises import Verdict
from dra_shared.faults.story import Story
from dra_shared.jsontypes import JsonObject

State = Literal["working", "settling", "over"]

_KEPT = 100
_COMMON = ("fault", "seconds")
_NODE = "node-0"


@dataclass(frozen=True)
class Order:
    """A requested fault.

    Args:
        wanted: the request, without ``check``.
        seconds: the duration of the fault; 0 if it has none.
        check: true if the guarantees of Kubernetes are checked during the fault.
    """

    wanted: JsonObject
    kind: Kind
    seconds: float
    check: bool

    @property
    def node(self) -> str:
        """The name of the node that the fault affects; empty for faults of other places."""
        return str(self.wanted.get("node", _NODE)) if self.kind.where == "node" else ""


def read(body: bytes) -> Order:
    """Parse a request's body.

    Raises:
        FaultError: the fault does not exist, or does not accept a field.
    """
    try:
        wanted = msgspec.json.decode(body, type=JsonObject)
        check = msgspec.convert(wanted.pop("check", True), bool)
        kind = KINDS.get(str(wanted.get("fault", "")))
        if kind is None:
            raise FaultError(f"there is no fault {str(wanted.get('fault', ''))!r}: choose {', '.join(KINDS)}")
        if kind.lasts and "seconds" not in wanted:
            raise FaultError(f"seconds: {kind.name} needs them, above 0 and at most {LONGEST:.0f}")
        seconds = msgspec.convert(wanted.get("seconds", 0), float)
    except msgspec.DecodeError as error:
        raise FaultError(f"cannot read the fault: {error}") from None
    for name in wanted:
        if name not in (*_COMMON, *kind.options):
            takes = ", ".join(("seconds", *kind.options))
            raise FaultError(f"unknown field `{name}`: {kind.name} takes {takes}")
    if kind.lasts and not 0 < seconds <= LONGEST:
        raise FaultError(f"seconds: must be above 0 and at most {LONGEST:.0f}")
    return Order(wanted, kind, seconds if kind.lasts else 0.0, check)


class Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    """One fault as clients see it.

    Args:
        left: the seconds that it is still active.
        met: the number of requests, watches, calls or writes that it affected.
        kept, broken, untried: the guarantees of Kubernetes that held, the violations, and the reasons why a
            guarantee was not tested. Set when the fault has ended.
    """

    id: int
    fault: Any
    what: str
    promise: str
    state: State
    left: float = 0.0
    met: int | None = None
    kept: list[str] | None = None
    broken: list[str] | None = None
    untried: list[str] | None = None


@dataclass
class _Case:
    order: Order
    judge: Judge
    met: Met = no_count
    until: float | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    verdict: Verdict | None = None


class Cases:
    """All faults of one service, with the last hundred that have ended.

    Args:
        look: reads the cluster.
        keep: the set to which the running tasks of judges are added, so that the caller can cancel them.
        errors: the exceptions that ``look`` may raise during a fault.
        away: returns the names of processes that faults ended and that do not run again yet.
    """

    def __init__(
        self,
        look: Look,
        clock: Clock,
        keep: set[asyncio.Future[None]],
        errors: tuple[type[Exception], ...] = (),
        away: Away = none_away,
    ) -> None:
        self._look = look
        self._clock = clock
        self._keep = keep
        self._errors = errors
        self._away = away
        self._numbers = itertools.count(1)
        self._cases: dict[int, _Case] = {}

    def number(self) -> int:
        """Return the next fault's number."""
        return next(self._numbers)

    async def prepare(self, order: Order, number: int | None = None) -> int:
        """Read the cluster before the fault begins, and return the fault's number.

        Raises:
            the errors of ``look``: the cluster cannot be read.
        """
        story = Story(order.kind.name, order.seconds, order.node)
        judge = Judge(story, self._look, self._clock, self._errors, self._away)
        if order.check:
            await judge.before()
        number = self.number() if number is None else number
        self._cases[number] = _Case(order, judge)
        return number

    async def begin(self, number: int, met: Met = no_count) -> Entry:
        """Mark the fault as active, unless it was withdrawn meanwhile."""
        case = self._cases[number]
        if case.until is not None:
            return await self._entry(number, case)
        case.met = met
        case.until = self._clock.monotonic() + case.order.seconds
        if case.order.check:
            case.task = self._spawn(self._watch(case))
        self._forget()
        return await self._entry(number, case)

    def order(self, number: int) -> Order | None:
        """Return the request of a fault that has not begun; None if there is no such fault."""
        case = self._cases.get(number)
        return None if case is None or case.until is not None else case.order

    def drop(self, number: int) -> None:
        """Remove a fault that does not begin."""
        del self._cases[number]

    def withdraw(self, number: int | None = None) -> None:
        """Withdraw faults that have not begun: all, or the one of that number."""
        for at, case in self._cases.items():
            if case.until is None and number in (None, at):
                case.until = self._clock.monotonic()

    async def list_active(self) -> list[Entry]:
        """Return the active faults, oldest first."""
        return [await self._entry(number, case) for number, case in self._cases.items() if self._works(case)]

    async def get(self, number: int) -> Entry | None:
        """Return one fault, active or ended; None if it is unknown."""
        case = self._cases.get(number)
        return None if case is None else await self._entry(number, case)

    def end(self, number: int | None = None) -> list[int]:
        """End all faults, or the one of that number. Return the numbers of those that were active."""
        working = [
            (at, case) for at, case in self._cases.items() if self._works(case) and number in (None, at)
        ]
        for _, case in working:
            case.until = self._clock.monotonic()
            case.over.set()
        return [at for at, _ in working]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._keep.add(task)
        task.add_done_callback(self._keep.discard)
        return task

    def _forget(self) -> None:
        """Drop the oldest of the ended faults."""
        done = [
            number
            for number, case in self._cases.items()
            if not self._works(case) and (case.task is None or case.task.done())
        ]
        for number in done[:-_KEPT]:
            del self._cases[number]

    async def _watch(self, case: _Case) -> None:
        case.verdict = await case.judge.verdict(case.over, case.met)

    def _works(self, case: _Case) -> bool:
        return case.until is not None and case.until > self._clock.monotonic()

    async def _entry(self, number: int, case: _Case) -> Entry:
        kind = case.order.kind
        working = self._works(case)
        entry = Entry(number, case.order.wanted, kind.what, kind.promise, "working")
        if working and case.until is not None:
            entry.left = round(case.until - self._clock.monotonic(), 3)
        elif case.until is None:
            entry.left = case.order.seconds
            return entry
        elif case.verdict is not None:
            entry.state, entry.kept, entry.broken = "over", case.verdict.kept, case.verdict.broken
            entry.untried = case.verdict.untried
        else:
            entry.state = "settling" if case.task is not None else "over"
        entry.met = await case.met()
        return entry

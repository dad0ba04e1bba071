"""The faults that were asked of a service: what each does and promises, and afterwards what was kept of it."""

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from dra_shared.clock import Clock
from dra_shared.faults.board import LONGEST, FaultError
from dra_shared.faults.catalog import KINDS, Kind
from dra_shared.faults.judging import Away, Judge, Look, Met, none_away, uncounted
from dra_shared.faults.promises import Verdict
from dra_shared.faults.story import Story

JsonObject = dict[str, Any]
State = Literal["working", "settling", "over"]

_KEPT = 100
_COMMON = ("fault", "seconds")
_NODE = "node-0"


@dataclass(frozen=True)
class Order:
    """A fault that is asked for.

    Args:
        wanted: what was asked, without ``check``.
        seconds: how long it lasts; 0 for one that has no length.
        check: whether its promise is watched.
    """

    wanted: JsonObject
    kind: Kind
    seconds: float
    check: bool

    @property
    def node(self) -> str:
        """The node that it is of; empty where it is of none."""
        return str(self.wanted.get("node", _NODE)) if self.kind.where == "node" else ""


def read(body: bytes) -> Order:
    """What a request's body asks for.

    Raises:
        FaultError: it is no fault, or has what the fault does not take.
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
        left: for how many seconds it is at work yet.
        met: how many requests, watches, calls or writes it met.
        kept, broken, untried: what was kept of the promise, what was not, and what was not tried; once it is over.
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
    met: Met = uncounted
    until: float | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    verdict: Verdict | None = None


class Cases:
    """All faults of one service, the last hundred of those that are over among them.

    Args:
        look: the cluster as it is.
        keep: what the judges' tasks are added to while they work; who owns it cancels them.
        errors: what ``look`` may raise while a fault is at work.
        away: what is still to come back of what faults ended.
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
        """The next fault's number."""
        return next(self._numbers)

    async def prepare(self, order: Order, number: int | None = None) -> int:
        """See the cluster before the fault begins; gives its number.

        Raises:
            What ``look`` raises: the cluster cannot be read.
        """
        story = Story(order.kind.name, order.seconds, order.node)
        judge = Judge(story, self._look, self._clock, self._errors, self._away)
        if order.check:
            await judge.before()
        number = self.number() if number is None else number
        self._cases[number] = _Case(order, judge)
        return number

    async def begin(self, number: int, met: Met = uncounted) -> Entry:
        """The fault is at work from now on, unless it was withdrawn meanwhile."""
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
        """What was asked for; None where there is no such fault that waits for its beginning."""
        case = self._cases.get(number)
        return None if case is None or case.until is not None else case.order

    def drop(self, number: int) -> None:
        """It does not happen."""
        del self._cases[number]

    def withdraw(self, number: int | None = None) -> None:
        """Those that wait for their beginning are over before it: all, or the one of that number."""
        for at, case in self._cases.items():
            if case.until is None and number in (None, at):
                case.until = self._clock.monotonic()

    async def working(self) -> list[Entry]:
        """What is at work, oldest first."""
        return [await self._entry(number, case) for number, case in self._cases.items() if self._works(case)]

    async def get(self, number: int) -> Entry | None:
        """One fault, at work or over; None where it is not known."""
        case = self._cases.get(number)
        return None if case is None else await self._entry(number, case)

    def end(self, number: int | None = None) -> list[int]:
        """All are over now, or the one of that number; gives the numbers of those that were at work."""
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
        """Leave the last ones of those that are over."""
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

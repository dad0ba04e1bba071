"""The faults that were asked of ``/faults``: what each does and promises, and afterwards what was kept of it.

Faults of requests are the server's own; those of nodes go to the agent of the node.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from dra_shared.faults.catalog import KINDS, Kind
from dra_shared.faults.judging import Judge, Verdict
from dra_shared.faults.story import Story

from dra_apiserver.api import Api
from dra_apiserver.errors import bad_request
from dra_apiserver.faults import Fault, Faults
from dra_apiserver.handlers.faultnodes import clear_nodes, strike_node
from dra_apiserver.handlers.faultsamples import Samples

JsonObject = dict[str, Any]
State = Literal["working", "settling", "over"]

_KEPT = 100
_ELSEWHERE = "dralab fault, or disturb of dralab.testing with processes=True"
_LONGEST = 3600.0


class Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    """One fault as clients see it.

    Args:
        left: for how many seconds it is at work yet.
        met: how many requests or watches it met.
        kept, broken: what was kept of the promise, and what was not; empty until it is over.
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


@dataclass
class _Case:
    """``place`` is the fault's number in the server's own faults, or the agent that has it."""

    kind: Kind
    wanted: JsonObject
    place: int | str
    until: float
    over: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    verdict: Verdict | None = None


class Register:
    """All faults of one server, the last hundred of those that are over among them."""

    def __init__(self, api: Api, faults: Faults) -> None:
        self._api = api
        self._faults = faults
        self._samples = Samples(api.store)
        self._numbers = itertools.count(1)
        self._cases: dict[int, _Case] = {}

    async def begin(self, body: bytes) -> Entry:
        """Let a fault happen from now on, and watch what becomes of its promise unless ``check`` is false.

        Raises:
            StatusError: 400, the body is no fault; what the node's agent answers.
        """
        wanted, kind, seconds, check = _read(body)
        judge = Judge(Story(kind.name, seconds, _node(wanted, kind)), self._samples.look, self._api.clock)
        if check:
            await judge.before()
        case = _Case(kind, wanted, await self._strike(kind, wanted), self._api.clock.monotonic() + seconds)
        number = next(self._numbers)
        self._cases[number] = case
        if check:
            task = case.task = asyncio.create_task(self._watch(case, judge))
            self._api.silent.add(task)
            task.add_done_callback(self._api.silent.discard)
        self._forget()
        return self._entry(number, case)

    def list(self) -> list[Entry]:
        """What is at work, oldest first."""
        return [self._entry(number, case) for number, case in self._cases.items() if self._works(case)]

    def get(self, number: int) -> Entry | None:
        """One fault, at work or over; None where it is not known."""
        case = self._cases.get(number)
        return None if case is None else self._entry(number, case)

    async def clear(self) -> None:
        """End all of them now.

        Raises:
            StatusError: a node's agent does not answer.
        """
        self._faults.clear()
        working = [case for case in self._cases.values() if self._works(case)]
        for case in working:
            case.until = self._api.clock.monotonic()
            case.over.set()
        await clear_nodes(self._api, {case.place for case in working if isinstance(case.place, str)})

    async def _strike(self, kind: Kind, wanted: JsonObject) -> int | str:
        if kind.where == "node":
            return await strike_node(self._api, _node(wanted, kind), wanted)
        if kind.where != "requests":
            raise bad_request(
                f"{kind.name} strikes processes, of which the API server has none: {_ELSEWHERE}"
            )
        try:
            return self._faults.begin(msgspec.convert(wanted, Fault)).id
        except msgspec.ValidationError as error:
            raise bad_request(f"cannot read the fault: {error}") from None

    def _forget(self) -> None:
        """Leave the last ones of those that are over."""
        done = [
            number
            for number, case in self._cases.items()
            if not self._works(case) and (case.task is None or case.task.done())
        ]
        for number in done[:-_KEPT]:
            del self._cases[number]

    async def _watch(self, case: _Case, judge: Judge) -> None:
        case.verdict = await judge.verdict(case.over)

    def _works(self, case: _Case) -> bool:
        return case.until > self._api.clock.monotonic()

    def _entry(self, number: int, case: _Case) -> Entry:
        working = self._works(case)
        met = next((one.met for one in self._faults.list() if one.id == case.place), None)
        entry = Entry(number, case.wanted, case.kind.what, case.kind.promise, "working", met=met)
        if working:
            entry.left = round(case.until - self._api.clock.monotonic(), 3)
        elif case.verdict is not None:
            entry.state, entry.kept, entry.broken = "over", case.verdict.kept, case.verdict.broken
        else:
            entry.state = "settling" if case.task is not None else "over"
        return entry


def _read(body: bytes) -> tuple[JsonObject, Kind, float, bool]:
    """The fault, its kind, for how many seconds, and whether its promise is watched.

    Raises:
        StatusError: 400, it is none.
    """
    try:
        wanted = msgspec.json.decode(body, type=JsonObject)
        check = msgspec.convert(wanted.pop("check", True), bool)
        seconds = msgspec.convert(wanted.get("seconds"), float)
    except msgspec.DecodeError as error:
        raise bad_request(f"cannot read the fault: {error}") from None
    kind = KINDS.get(str(wanted.get("fault", "")))
    if kind is None:
        raise bad_request(f"there is no fault {str(wanted.get('fault', ''))!r}: choose {', '.join(KINDS)}")
    if not 0 < seconds <= _LONGEST:
        raise bad_request(f"seconds: must be above 0 and at most {_LONGEST:.0f}")
    return wanted, kind, seconds, check


def _node(wanted: Mapping[str, Any], kind: Kind) -> str:
    return str(wanted.get("node", "node-0")) if kind.where == "node" else ""

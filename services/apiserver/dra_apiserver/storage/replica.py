"""The store of a reader: a copy of the objects of an API server, the writer, whose log it follows.

Reads and watches show changes that the writer has made durable, in its order, as upstream's watch cache shows
those of etcd (`apiserver/pkg/storage/cacher`). `fresh` asks the writer for its revision, as
`ConsistentListFromCache` does.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.unixsocket import unix_connection

from dra_apiserver.errors import StatusError, deadline_exceeded, service_unavailable
from dra_apiserver.storage import rows
from dra_apiserver.storage.engine import Engine, History, reason
from dra_apiserver.storage.records import Record, Resource
from dra_apiserver.storage.store import ChangeFunction, Store
from dra_apiserver.storage.wire import (
    Answer,
    Ask,
    Hello,
    Line,
    Live,
    Logged,
    Message,
    Objects,
    changes_of,
    framed,
)

# The time that upstream's watch cache waits to become fresh.
_FRESH_TIMEOUT = 3.0
# The times of kube-apiserver's --request-timeout and --etcd-healthcheck-timeout. The writer may run without
# answering.
_REQUEST_TIMEOUT = 60.0
_SILENCE = 2.0
_POLL = 1.0
_CONNECT_EVERY = 0.05
# No limit on the bytes of events: the writer has limited them already.
_ALL = 1 << 62

_log = logger(__name__)


class AnotherDatabase(OSError):
    """The writer has fewer revisions than this reader has shown, so its database is another one."""


class Replica(Store):
    """Follows the writer at `path` while the context lasts, and waits for it if it is away.

    `ended` is done when this reader cannot follow any more, with the reason.
    """

    follows = True

    def __init__(self, path: Path, clock: Clock, place: tuple[int, str] | None = None) -> None:
        # A reader has no database: where `Store` asks its engine, the methods below ask the writer. Only the
        # name is read.
        super().__init__(cast(Engine, _Elsewhere(str(path))), clock, 0)
        self._path, self._place = path, place
        self._line: Line | None = None
        self._live = asyncio.Event()
        self._gone = asyncio.Event()
        self._objects: list[tuple[Resource, Record]] = []
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._fresh: asyncio.Future[Any] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.ended: asyncio.Future[NoReturn]

    async def __aenter__(self) -> Replica:
        self._loop = asyncio.get_running_loop()
        self.ended = self._loop.create_future()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._heed())]
        await self._live.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._line is not None:
            self._line.close()
            await self._gone.wait()

    async def write(
        self, resource: Resource, key: str, change: ChangeFunction, dry_run: bool = False
    ) -> Record | None:
        """Fail: requests to write go to the writer before they get here."""
        raise RuntimeError("a reader does not write")

    def compact(self, revision: int) -> None:
        """Do nothing: the writer compacts."""
        raise RuntimeError("a reader does not compact")

    async def fresh(self) -> None:
        """Wait until this reader has seen every write that any server had answered at the time of the call.

        Raises:
            StatusError: 503, the writer is away; 504, it does not answer.
        """
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                await self._be_fresh()
        except TimeoutError as error:
            raise deadline_exceeded() from error

    async def _be_fresh(self) -> None:
        # The writer answers after everything that was durable at that time. All who ask before the question
        # is sent share it.
        while True:
            if not self._live.is_set():
                await self._reached()
            if self._fresh is None:
                assert self._loop is not None
                self._fresh = self._loop.create_future()
                self._loop.call_soon(self._ask_fresh)
            with suppress(ConnectionError):
                await asyncio.shield(self._fresh)
                return

    async def _reached(self) -> None:
        try:
            async with asyncio.timeout(_FRESH_TIMEOUT):
                await self._live.wait()
        except TimeoutError:
            raise service_unavailable("the API server that this one reads from does not answer") from None

    def _ask_fresh(self) -> None:
        waiting, self._fresh = self._fresh, None
        assert waiting is not None
        self._send("fresh", (), waiting)

    def _send(self, what: str, arguments: Sequence[Any], waiting: asyncio.Future[Any]) -> None:
        if self._line is None or not self._live.is_set():
            waiting.set_exception(ConnectionResetError("the API server is away"))
            waiting.exception()
            return
        number = next(self._numbers)
        self._asked[number] = waiting
        self._line.send(framed(Ask(number, what, arguments)))

    async def _ask(self, what: str, *arguments: Any) -> Any:
        """Return the result of this method of the writer's engine.

        Raises:
            StatusError: the writer refuses, is away, or does not answer.
        """
        while True:
            if not self._live.is_set():
                await self._reached()
            waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._send(what, arguments, waiting)
            try:
                async with asyncio.timeout(_REQUEST_TIMEOUT):
                    return _ANSWERS[what](await waiting)
            except TimeoutError as error:
                raise deadline_exceeded() from error
            except ConnectionError:
                continue

    async def _heed(self) -> None:
        """Detect a writer that is connected and does not answer."""
        while True:
            await asyncio.sleep(_POLL)
            if not self._live.is_set():
                continue
            try:
                async with asyncio.timeout(_SILENCE):
                    await self._be_fresh()
            except TimeoutError:
                self._judge(TimeoutError(f"the writer has not answered for {_SILENCE:g} seconds"))
            except StatusError as error:
                _log.debug("the writer is away", error=error.message)
            else:
                self._judge(None)

    async def _follow(self) -> None:
        logged_once = False
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, line = await loop.create_unix_connection(
                    lambda: Line(self._received, self._lost), sock=unix_connection(self._path)
                )
            except OSError as error:
                if not logged_once:
                    _log.info("waits for the API server that it reads from", error=str(error))
                logged_once = True
            else:
                logged_once = False
                self._gone.clear()
                self._line, self._objects = line, []
                line.send(framed(Hello(self._revision, self._place)))
                await self._gone.wait()
            # A reader polls in real time, whatever clock services use.
            await asyncio.sleep(_CONNECT_EVERY)

    def _lost(self, line: Line) -> None:
        self._line = None
        self._live.clear()
        self._gone.set()
        self._judge(ConnectionResetError("the API server that this one reads from does not answer"))
        asked, self._asked = self._asked, {}
        for waiting in asked.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the API server is away"))
                waiting.exception()

    def _received(self, line: Line, message: Message) -> None:
        match message:
            case Logged(_, compacted):
                self._compacted = max(self._compacted, compacted)
                self._wake(self._apply(changes_of(message)))
            case Answer():
                self._take_answer(message)
            case Objects(resource, records):
                name = rows.resource_of(resource)
                self._objects += [(name, Record(*record)) for record in records]
            case Live():
                self._go_live(message)
            case _:
                line.close()

    def _go_live(self, live: Live) -> None:
        if live.revision < self._revision:
            if not self.ended.done():
                self.ended.set_exception(
                    AnotherDatabase(f"the API server has revision {live.revision}, after {self._revision}")
                )
            return
        self._compacted = max(self._compacted, live.compacted)
        objects, self._objects = self._objects, []
        if live.whole:
            self._reset(objects, live.revision)
        self._live.set()
        self._judge(None)

    def _judge(self, failure: Exception | None) -> None:
        """Record whether the writer answers."""
        before, self.failure = self.failure, None if failure is None else reason(failure)
        if self.failure is not None and before is None:
            _log.warning("reads that must be fresh wait for the API server", error=self.failure)
        elif self.failure is None and before is not None:
            _log.info("the API server is back")

    def _take_answer(self, answer: Answer) -> None:
        self._compacted = max(self._compacted, answer.compacted)
        waiting = self._asked.pop(answer.number, None)
        if waiting is None or waiting.done():
            return
        if answer.status is None:
            waiting.set_result(answer.result)
            return
        status = answer.status
        error = StatusError(
            answer.code, status.get("reason", ""), status.get("message", ""), status.get("details")
        )
        waiting.set_exception(error)


_ANSWERS: Mapping[str, Callable[[Any], Any]] = {
    "history": lambda found: History(rows.events(found[0], _ALL)[0], found[1]),
    "touched": dict,
    "versions": lambda found: [Record(*one) for one in found],
}


class _Elsewhere(NamedTuple):
    """The name of the writer, in place of an engine."""

    name: str

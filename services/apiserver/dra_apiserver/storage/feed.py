"""Send the log of the store to readers: first the objects, or the missed changes, then each change as it happens.

Upstream has no such thing: every kube-apiserver follows etcd (`apiserver/pkg/storage/cacher`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dra_shared.log import logger
from dra_shared.unixsocket import unix_listener

from dra_apiserver.errors import StatusError, server_error
from dra_apiserver.storage.engine import Engine, reason
from dra_apiserver.storage.records import Change
from dra_apiserver.storage.rows import CODES, resource_text
from dra_apiserver.storage.store import Store
from dra_apiserver.storage.wire import (
    Answer,
    Ask,
    Hello,
    Line,
    Live,
    Message,
    Objects,
    framed,
    logged,
)

_STEP = 1000
_STEP_BYTES = 1 << 20
# A reader with so many unread bytes is disconnected. It then follows again from where it was.
_MOST_UNSENT = 256 << 20

_log = logger(__name__)


class Feed:
    """Serves the store's log at a socket while the context lasts."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store, self._path = store, path
        self._server: asyncio.Server | None = None
        self._lines: dict[Line, _Reader] = {}

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: Line(self._received, self._lost), sock=unix_listener(self._path)
        )
        self._store.follow(self._publish)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.unfollow(self._publish)
        if self._server is not None:
            self._server.close()
        for line in list(self._lines):
            line.close()
        self._path.unlink(missing_ok=True)

    def places(self) -> list[tuple[int, str]]:
        """Return the ports and addresses of the readers that follow now."""
        return [reader.place for reader in self._lines.values() if reader.place is not None]

    def _received(self, line: Line, message: Message) -> None:
        match message:
            case Hello(after, place):
                self._lines[line] = _Reader(self._store, line, after, place)
            case Ask() if line in self._lines:
                self._lines[line].answer(message)
            case _:
                line.close()

    def _lost(self, line: Line) -> None:
        reader = self._lines.pop(line, None)
        if reader is not None:
            reader.stop()

    def _publish(self, changes: Sequence[Change]) -> None:
        if not self._lines:
            return
        # Encoded once for all readers.
        data = framed(logged(changes, self._store.compacted))
        for line, reader in list(self._lines.items()):
            reader.publish(data)
            if line.unsent > _MOST_UNSENT:
                _log.warning("a reader does not keep up; it has to begin again")
                line.close()


class _Reader:
    """One reader. It gets the missed changes in steps, and meanwhile new changes wait."""

    def __init__(self, store: Store, line: Line, after: int, place: tuple[int, str] | None) -> None:
        self._store, self._line = store, line
        self.place = place
        self._live = False
        self._waiting: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._start(self._begin(after))

    def publish(self, data: bytes) -> None:
        if self._live:
            self._line.send(data)
        else:
            self._waiting.append(data)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def answer(self, ask: Ask) -> None:
        if ask.what == "fresh":
            self._line.send(framed(Answer(ask.number, self._store.compacted)))
        else:
            self._start(self._look_up(ask))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin(self, after: int) -> None:
        try:
            if after and self._store.compacted <= after <= self._store.revision:
                await self._send_missed(after)
            else:
                await self._send_objects()
        except Exception as error:
            _log.warning("a reader cannot follow", error=reason(error))
            self._line.close()

    async def _send_missed(self, after: int) -> None:
        """Send the log after a revision, to its end."""
        self._waiting = []
        while after < (newest := self._store.revision):
            found = await asyncio.to_thread(self._store.engine.changes, after, _STEP)
            if self._store.compacted > after:
                await self._send_objects()
                return
            # Changes that the database has, but this server has not noticed yet, are sent when they are
            # noticed.
            known = [change for change in found.changes if change.event.revision <= newest]
            self._line.send(framed(logged(known, self._store.compacted)))
            after = known[-1].event.revision if known else newest
            await self._line.drained()
        self._go_live(self._store.revision, whole=False)

    async def _send_objects(self) -> None:
        """Send all objects as of this moment, and then the changes since."""
        store = self._store
        revision, self._waiting = store.revision, []
        found = {name: list(store.collection(name).records.values()) for name in store.resources()}
        for resource, records in found.items():
            part: list[tuple[str, int, bytes]] = []
            size = 0
            for record in records:
                part.append((record.key, record.revision, record.data))
                size += len(record.data)
                if size > _STEP_BYTES:
                    self._line.send(framed(Objects(resource_text(resource), part)))
                    part, size = [], 0
                    await self._line.drained()
            self._line.send(framed(Objects(resource_text(resource), part)))
        self._go_live(revision, whole=True)

    def _go_live(self, revision: int, *, whole: bool) -> None:
        self._line.send(framed(Live(revision, self._store.compacted, whole)))
        for data in self._waiting:
            self._line.send(data)
        self._waiting, self._live = [], True

    async def _look_up(self, ask: Ask) -> None:
        store = self._store
        answer = Answer(ask.number, 0)
        try:
            answer.result = await asyncio.to_thread(_READS[ask.what], store.engine, *ask.arguments)
        except Exception as error:
            refused = error if isinstance(error, StatusError) else server_error(f"storage: {reason(error)}")
            answer.status, answer.code = refused.status, refused.code
        # This is read afterwards, because changes that were compacted meanwhile may be missing.
        answer.compacted = store.compacted
        self._line.send(framed(answer))


def _history(engine: Engine, resource: Sequence[str], after: int, until: int, size: int) -> Any:
    found = engine.history((resource[0], resource[1]), after, until, size)
    return [
        (
            CODES[event.type],
            event.key,
            event.revision,
            event.record.data,
            event.previous and event.previous.revision,
            event.previous and event.previous.data,
        )
        for event in found.events
    ], found.until


def _touched(engine: Engine, resource: Sequence[str], after: int, until: int) -> Any:
    return engine.touched((resource[0], resource[1]), after, until)


def _versions(engine: Engine, revisions: Sequence[int], size: int) -> Any:
    return [(one.key, one.revision, one.data) for one in engine.versions(revisions, size)]


_READS: Mapping[str, Callable[..., Any]] = {"history": _history, "touched": _touched, "versions": _versions}

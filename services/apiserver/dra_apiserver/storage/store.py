"""The store: every object in memory, every revision in the database.

A write passes a function from an object's newest version to its next. Writes are answered when they are
durable, many in one transaction. Reads come from memory and show only durable versions.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from dra_shared.clock import Clock
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger
from dra_shared.retention import Retention

from dra_apiserver.errors import expired_error, server_error, too_large_resource_version
from dra_apiserver.storage.archive.keeper import Keeper
from dra_apiserver.storage.authors import current_author
from dra_apiserver.storage.collection import Collection, Pending
from dra_apiserver.storage.engine import Engine, History, reason
from dra_apiserver.storage.identity import Identity
from dra_apiserver.storage.records import ADDED, DELETED, MODIFIED, Change, Counted, Event, Record, Resource
from dra_apiserver.storage.snapshot import Snapshot

STEP_BYTES = 256 << 10
"""About the number of bytes that are read from the database at once."""
_COMPACT_STEP = 500
_COMPACT_EVERY = 10.0
_PROBE_EVERY = 1.0

_log = logger(__name__)


class Put:
    """The result of a change function: store this object, which the store then owns, under a new revision.

    `counted` are other objects on which the new object depends. If another server changes them first, the
    function is called again.
    """

    __slots__ = ("counted", "obj")

    def __init__(self, obj: JsonObject, counted: Sequence[Counted] = ()) -> None:
        self.obj = obj
        self.counted = counted


class Remove:
    """The result of a change function: remove the object, whose last state is this."""

    __slots__ = ("obj",)
    counted: Sequence[Counted] = ()

    def __init__(self, obj: JsonObject) -> None:
        self.obj = obj


class _Work(NamedTuple):
    """Work for the writer's thread other than a write."""

    work: Callable[[], Any]
    done: asyncio.Future[Any]

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            result = self.work()
        except Exception as error:
            loop.call_soon_threadsafe(_finish, self.done, None, error)
        else:
            loop.call_soon_threadsafe(_finish, self.done, result, None)


def _finish(done: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


ChangeFunction = Callable[[Record | None], Put | Remove | None]


def _by_resource(objects: Iterable[tuple[Resource, Record]]) -> dict[Resource, list[Record]]:
    found: dict[Resource, list[Record]] = {}
    for resource, record in objects:
        found.setdefault(resource, []).append(record)
    return found


class Store:
    """Objects by resource and key. `async with` opens and closes it.

    `window` is the number of seconds for which Kubernetes' clients can read a revision after it was replaced.
    `retention` limits the archive. None keeps the last value of the database.
    """

    follows = False
    """True if other servers write, too, so that `fresh` may have to wait."""
    lost = False
    """True if this server has seen none of their writes for so long that watches must not wait here."""

    def __init__(
        self, engine: Engine, clock: Clock, window: float, retention: Retention | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._window = window
        self._retention = retention
        self._keeper: Keeper | None = None
        self._archiver: asyncio.Task[None] | None = None
        self._collections: dict[Resource, Collection] = {}
        self._newest = 0
        self._revision = 0
        self._compacted = 0
        self._start = 0
        self._queued: list[Pending] = []
        self._writing = 0
        self._scheduled = False
        self._jobs: queue.SimpleQueue[Sequence[Pending] | int | _Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._compactor: asyncio.Task[None] | None = None
        self._marks: deque[tuple[float, int, int]] = deque()
        self.compacted_time = 0
        """Until when nothing happened after the revision `compacted`, in milliseconds since 1970; 0: not known."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.identity: Identity | None = None
        self.failure: str | None = None
        self.commits = 0
        self.committed_writes = 0

    async def __aenter__(self) -> Store:
        self._loop = asyncio.get_running_loop()
        try:
            await asyncio.to_thread(self._load)
        except BaseException:
            self._engine.close()
            raise
        self._thread = threading.Thread(target=self._write_loop, name="writer", daemon=True)
        self._thread.start()
        self._compactor = asyncio.create_task(self._compact_loop())
        if self._keeper is not None:
            self._archiver = asyncio.create_task(self._archive_loop(self._keeper))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self._compactor, self._archiver):
            if task is not None:
                task.cancel()
        await self._idle.wait()
        self._jobs.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._engine.close)

    def _load(self) -> None:
        revisions = self._engine.open()
        # Clients use revision 0 for "any", so an empty store is already at 1.
        self._newest = self._revision = self._start = max(revisions.newest, 1)
        self._compacted = revisions.compacted
        self._keeper = Keeper.begin(self._engine, self._retention, self._newest, self._now())
        for resource, records in _by_resource(self._engine.objects()).items():
            self.collection(resource).load(records)

    @property
    def engine(self) -> Engine:
        """The database, for reads of the past."""
        return self._engine

    def _now(self) -> int:
        """Return the milliseconds since 1970."""
        return int(self._clock.now().timestamp() * 1000)

    @property
    def retention(self) -> Retention | None:
        """The extent of the archive; None if there is none."""
        return None if self._keeper is None else self._keeper.retention

    @property
    def database(self) -> str:
        """The database's name in messages."""
        return self._engine.name

    @property
    def revision(self) -> int:
        """The newest durable revision."""
        return self._revision

    @property
    def compacted_revision(self) -> int:
        """The revision up to which events are deleted."""
        return self._compacted

    @property
    def queue_length(self) -> int:
        """The number of writes that wait for the database."""
        return len(self._queued) + self._writing

    def resources(self) -> dict[Resource, int]:
        """Return the number of objects of each resource."""
        return {resource: len(collection.records) for resource, collection in self._collections.items()}

    def collection(self, resource: Resource) -> Collection:
        """Return the resource's objects and events."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(self._start)
        return found

    def _apply(self, changes: Sequence[Change]) -> set[Collection]:
        """Make other servers' changes visible, except those that already are. Return the collections to wake."""
        touched: set[Collection] = set()
        for change in changes:
            found = change.event
            if found.revision <= self._revision:
                continue
            collection = self.collection(change.resource)
            collection.apply(Event(found.type, found.record, collection.records.get(found.key)))
            self._revision = found.revision
            touched.add(collection)
        self._newest = max(self._newest, self._revision)
        return touched

    def _wake(self, touched: Iterable[Collection]) -> None:
        for collection in touched:
            collection.wake()

    def _reset(self, objects: Iterable[tuple[Resource, Record]], revision: int) -> None:
        """Replace all objects by these, which are the state at `revision`.

        Watches read earlier events from the history.
        """
        found = _by_resource(objects)
        self._revision = self._newest = self._start = revision
        for resource in {*self._collections, *found}:
            collection = self.collection(resource)
            collection.reset(found.get(resource, ()), revision)
            collection.wake()

    async def fresh(self) -> None:
        """Wait until all writes that any server has confirmed are visible here.

        With a single server they already are.
        """

    def get(self, resource: Resource, key: str) -> Record | None:
        """Return the newest durable version."""
        found = self._collections.get(resource)
        return None if found is None else found.records.get(key)

    def newest(self, resource: Resource, key: str) -> Record | None:
        """Return the newest version, even if it is not in the database yet."""
        found = self._collections.get(resource)
        return None if found is None else found.newest(key)

    def newest_in(self, resource: Resource, prefix: str) -> list[Record]:
        """Return the newest versions, even if not in the database yet, of objects whose keys start with `prefix`."""
        collection = self._collections.get(resource)
        if collection is None:
            return []
        # These are copies because this is also called in threads, while the collection changes.
        records = collection.records
        found: dict[str, Record | None] = {key: records.get(key) for key in [*collection.range(prefix)]}
        for key, inflight in list(collection.inflight.items()):
            if key.startswith(prefix):
                found[key] = inflight.change.event.state
        return [record for record in found.values() if record is not None]

    async def write(
        self, resource: Resource, key: str, change: ChangeFunction, dry_run: bool = False
    ) -> Record | None:
        """Change one object, and return when the change is durable.

        `change` gets the newest version and returns what to do with it, or None to leave it. It runs without
        interruption. It is called again if another server changed the object first. Return the version that is
        stored now, or the last one for `Remove`. With `dry_run` nothing is stored.

        Raises:
            StatusError: 500, the database failed. Exception: an exception of `change`, once the state that it
            saw is durable.
        """
        collection = self.collection(resource)
        while True:
            inflight = collection.inflight.get(key)
            current = collection.newest(key)
            try:
                outcome = change(current)
                if self.identity is not None and isinstance(outcome, Put):
                    self.identity.check(resource, key, outcome.obj, current)
            except Exception:
                if inflight is not None and not await inflight.wait_settled():
                    continue
                raise
            if outcome is None or dry_run:
                if inflight is not None and not await inflight.wait_settled():
                    continue
                if inflight is not None:
                    current = inflight.change.event.state
                if outcome is None:
                    return current
                return Record(key, current.revision if current else 0, dumps(outcome.obj))
            write = self._enqueue(resource, key, outcome, current, inflight)
            if await write.done:
                return write.change.event.record

    def _enqueue(
        self,
        resource: Resource,
        key: str,
        outcome: Put | Remove,
        current: Record | None,
        basis: Pending | None,
    ) -> Pending:
        self._newest += 1
        revision = self._newest
        outcome.obj["metadata"]["resourceVersion"] = str(revision)
        # orjson's buffer is several times as large as the object: keep a copy of the right size.
        record = Record(key, revision, bytes(memoryview(dumps(outcome.obj))))
        kind = DELETED if isinstance(outcome, Remove) else ADDED if current is None else MODIFIED
        loop = self._loop
        assert loop is not None
        collection = self.collection(resource)
        change = Change(
            resource, Event(kind, record, current), self._now(), current_author(), outcome.counted
        )
        write = Pending(collection, change, loop.create_future(), basis)
        collection.inflight[key] = write
        self._queued.append(write)
        self._idle.clear()
        if not self._writing and not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._flush)
        return write

    def _flush(self) -> None:
        self._scheduled = False
        if self._queued and not self._writing:
            batch, self._queued = self._queued, []
            self._writing = len(batch)
            self._jobs.put(batch)

    def _write_loop(self) -> None:
        assert self._loop is not None
        while True:
            job = self._jobs.get()
            if job is None:
                return
            if isinstance(job, int):
                self._compact_step(job)
                continue
            if isinstance(job, _Work):
                job.run(self._loop)
                continue
            failure: Exception | None = None
            try:
                self._commit(job)
            except Exception as error:
                failure = error
            self._loop.call_soon_threadsafe(self._finish_batch, job, failure)

    def _commit(self, batch: Sequence[Pending]) -> None:
        self._engine.write([write.change for write in batch])

    def _finish_batch(self, batch: Sequence[Pending], failure: Exception | None) -> None:
        self._writing = 0
        if failure is None:
            self._judge(None)
            self.commits += 1
            self.committed_writes += len(batch)
            touched: set[Collection] = set()
            # The batch is durable as a whole, so all its events become visible before anyone is notified. A key
            # stays in `inflight` if a later write of it is queued already: its newest version is that one's.
            for write in batch:
                event = write.change.event
                write.collection.apply(event)
                touched.add(write.collection)
                if write.collection.inflight.get(event.key) is write:
                    del write.collection.inflight[event.key]
                write.settle(True)
            self._revision = batch[-1].change.event.revision
            assert self._loop is not None
            # Writers are answered before watchers are notified, because the answers are scheduled already.
            for collection in touched:
                self._loop.call_soon(collection.wake)
        else:
            self._fail(batch, failure)
        if self._queued:
            self._flush()
        else:
            self._idle.set()

    def _fail(self, batch: Sequence[Pending], failure: Exception) -> None:
        # Fail the queued writes, too, because they may have been computed from failed ones.
        queued, self._queued = self._queued, []
        for write in [*batch, *queued]:
            write.collection.inflight.pop(write.change.event.key, None)
            write.fail(server_error(f"storage: {reason(failure)}"))
        self._judge(failure)

    def _judge(self, failure: Exception | None) -> None:
        """Update the health state from the result of a database call: None, or the failure."""
        before, self.failure = self.failure, None if failure is None else reason(failure)
        if self.failure is not None and before is None:
            _log.error("writes are refused: the database failed", error=self.failure)
        elif self.failure is None and before is not None:
            _log.info("the database works again")

    async def snapshot(
        self, resource: Resource, revision: int, prefix: str = "", after: str = ""
    ) -> Snapshot:
        """Return the resource's objects at `revision` whose keys start with `prefix` and follow `after`.

        Raises:
            StatusError: 410, the revision is compacted.
        """
        collection = self.collection(resource)
        before: dict[str, Record | int | None] = {}
        reached = revision
        while (undone := collection.undo(reached)) is None:
            self.check_revision(revision)
            until = self._revision
            changed: dict[str, int] = await self._ask("changed_keys", resource, reached, until)
            for key, previous in changed.items():
                before.setdefault(key, previous or None)
            reached = until
        self.check_revision(revision)
        for key, record in undone.items():
            before.setdefault(key, record)
        return Snapshot(collection, before, self.versions, revision, prefix, after)

    async def _ask(self, what: str, *arguments: Any) -> Any:
        """Call this method of the engine in a thread, and return its result."""
        return await asyncio.to_thread(getattr(self._engine, what), *arguments)

    async def history(self, resource: Resource, after: int) -> History:
        """Return events after a revision from the database, up to a limit of bytes.

        Raises:
            StatusError: 410, the revision is compacted.
        """
        self.check_revision(after)
        found: History = await self._ask("history", resource, after, self._revision, STEP_BYTES)
        self.check_revision(after)
        return found

    async def versions(self, at: int, revisions: Sequence[int]) -> list[Record]:
        """Return the first of these versions, up to a limit of bytes. They were the newest versions at revision `at`.

        Raises:
            StatusError: 410, `at` is compacted.
        """
        found: list[Record] = await self._ask("versions", revisions, STEP_BYTES)
        self.check_revision(at)
        if not found:
            raise server_error(f"storage: revision {revisions[0]} is missing")
        return found

    def check_revision(self, revision: int) -> None:
        """Check that a revision is neither compacted nor in the future.

        Raises:
            StatusError: 410 Expired or 504 Timeout.
        """
        if revision < self._compacted:
            raise expired_error(f"too old resource version: {revision} ({self._compacted})")
        if revision > self._revision:
            raise too_large_resource_version(revision, self._revision)

    async def _compact_loop(self) -> None:
        self._marks.append((self._clock.monotonic(), self._revision, self._now()))
        every = min(_COMPACT_EVERY, max(self._window / 4, 0.05))
        while True:
            await self._clock.sleep(every if self.failure is None else min(every, _PROBE_EVERY))
            now = self._clock.monotonic()
            self._marks.append((now, self._revision, self._now()))
            target = 0
            while self._marks and self._marks[0][0] <= now - self._window:
                _, target, time = self._marks.popleft()
                if target >= self._compacted:
                    self.compacted_time = time
            if target > self._compacted or self.failure is not None:
                # This also shows whether a database that failed works again.
                self.compact(target)

    def compact(self, revision: int) -> None:
        """Delete the events up to `revision`. The rows are deleted in the background, between writes."""
        self._compacted = max(self._compacted, min(revision, self._revision))
        self._jobs.put(self._compacted)

    def _compact_step(self, revision: int) -> None:
        assert self._loop is not None
        failure: Exception | None = None
        try:
            # With an archive, events are deleted when they are sealed.
            limit = _COMPACT_STEP if self._keeper is None else 0
            if self._engine.compact(revision, limit) and limit:
                self._jobs.put(revision)
        except Exception as error:
            failure = error
        self._loop.call_soon_threadsafe(self._judge, failure)

    async def _archive_loop(self, keeper: Keeper) -> None:
        every = min(_COMPACT_EVERY, max(self._window / 4, 0.05))
        while True:
            try:
                more = await keeper.step(self._compacted, self._now(), asyncio.to_thread, self._in_writer)
            except Exception as error:
                _log.warning("history cannot be archived, it is tried again", error=reason(error))
                more = False
            if not more:
                await self._clock.sleep(every)

    async def _in_writer(self, work: Callable[[], Any]) -> Any:
        """Return the result of `work`, in the thread that writes, between two batches."""
        assert self._loop is not None
        job = _Work(work, self._loop.create_future())
        self._jobs.put(job)
        return await job.done

    async def check(self) -> list[str]:
        """Return the findings of the database's integrity check."""
        return await asyncio.to_thread(self._engine.check)

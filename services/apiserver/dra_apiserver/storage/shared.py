"""The store of an API server that shares its database with others.

Each server has all objects in memory and follows the database's log. A write is computed from the state that
this server has seen. If another server's write of the same object came first, it is computed again from that,
as upstream's GuaranteedUpdate does (`apiserver/pkg/storage/etcd3/store.go`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.retention import Retention

from dra_apiserver.errors import deadline_exceeded, server_error
from dra_apiserver.storage.collection import Collection, Pending
from dra_apiserver.storage.engine import Changes, Commit, Engine, FarBehind, SharedEngine, reason
from dra_apiserver.storage.records import Change, Record, Resource, by_resource
from dra_apiserver.storage.store import ChangeFunction, Store

_STEP = 1000
_POLL = 1.0
# The times of kube-apiserver's --request-timeout and --etcd-healthcheck-timeout.
_REQUEST_TIMEOUT = 60.0
_SILENCE = 2.0
# The cacher's MaxInternalErrorRetryDuration (`apiserver/pkg/storage/cacher/cacher.go`).
_LOST = 30.0
# The seconds that a stopping server waits for the database to answer.
_PATIENCE = 5.0
_SILENT = f"it has not answered for {_SILENCE:g} seconds"

_log = logger(__name__)


class _Batch(list[Pending]):
    """Writes for one transaction, computed from the objects at revision `applied`."""

    applied = 0
    commit: Commit | None = None


class SharedStore(Store):
    """A store that also shows the writes of other servers.

    `fresh` waits until it has all writes that any server has confirmed.
    """

    follows = True

    def __init__(
        self, engine: SharedEngine, clock: Clock, window: float, retention: Retention | None = None
    ) -> None:
        super().__init__(engine, clock, window, retention)
        self._shared = engine
        self._ended = threading.Event()
        self._follower: threading.Thread | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._next_refresh: asyncio.Task[None] | None = None
        self._unwritable = False
        self._losing: asyncio.TimerHandle | None = None
        self.on_lost: Callable[[], object] = lambda: None
        """Called when the store is `lost`."""

    async def __aenter__(self) -> SharedStore:
        await super().__aenter__()
        self._follower = threading.Thread(target=self._follow_loop, name="follower", daemon=True)
        self._follower.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ended.set()
        # Limit the time, so that the server can stop although the database does not answer.
        alarm = asyncio.get_running_loop().call_later(_PATIENCE, self._shared.hang_up)
        try:
            await asyncio.to_thread(self._shared.wake)
            if self._follower is not None:
                await asyncio.to_thread(self._follower.join)
            # Reads may still be running although their requests have ended.
            running = [task for task in (self._refreshing, self._next_refresh) if task is not None]
            await asyncio.gather(*running, return_exceptions=True)
            await super().__aexit__(*error)
        finally:
            alarm.cancel()

    async def fresh(self) -> None:
        """Wait until this server has seen every write that any server had answered at the time of the call.

        Raises:
            StatusError: 500, the database cannot be read; 504, it does not answer.
        """
        # A running refresh may have read before this call, so the next one is needed. All calls until then
        # share it.
        if self._next_refresh is None:
            self._next_refresh = asyncio.create_task(self._refresh_after(self._refreshing))
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                await asyncio.shield(self._next_refresh)
        except TimeoutError as error:
            raise deadline_exceeded() from error
        except Exception as error:
            self._judge(error)
            raise server_error(f"storage: {reason(error)}") from error

    async def write(
        self, resource: Resource, key: str, change: ChangeFunction, dry_run: bool = False
    ) -> Record | None:
        """Write like a single store. If the database does not answer, the write may still be executed later.

        Raises:
            StatusError: 500, the database failed; 504, it does not answer. Exception: whatever `change` raised.
        """
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT) as limit:
                return await super().write(resource, key, change, dry_run)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise deadline_exceeded() from error

    async def _refresh_after(self, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait([running])
        self._refreshing, self._next_refresh = self._next_refresh, None
        await self._catch_up()

    async def _catch_up(self) -> None:
        # Invariant: memory has exactly the log's changes up to `self._revision`. Each round reads the next changes
        # and applies those that are still new: while the thread reads, a commit may have applied the same ones.
        # The loop ends at the revision that was the newest one when the changes were read.
        while True:
            after = self._revision
            found = await asyncio.to_thread(self._shared.changes, after, _STEP)
            await self._take(after, found)
            if found.newest <= self._revision:
                return

    async def _take(self, after: int, found: Changes) -> None:
        if found.compacted > after:
            # The log may lack changes after that revision.
            await self._reload()
        else:
            self._wake(self._apply(found.changes))

    def check_revision(self, revision: int) -> None:
        """Check a revision like a single store, but consider that other servers compact as well."""
        self._compacted = max(self._compacted, self._shared.compacted_revision)
        super().check_revision(revision)

    def _judge(self, failure: Exception | None) -> None:
        if failure is None:
            self._unwritable = False
        super()._judge(failure)

    def _follow_loop(self) -> None:
        assert self._loop is not None
        while True:
            self._shared.listen(_POLL)
            if self._ended.is_set():
                return
            asyncio.run_coroutine_threadsafe(self._try_to_catch_up(), self._loop).result()

    async def _try_to_catch_up(self) -> None:
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(_SILENCE, self._judge, TimeoutError(_SILENT))
        self._losing = self._losing or loop.call_later(_LOST, self._lose)
        try:
            await self.fresh()
        except Exception as error:
            _log.debug("the database's log cannot be read", error=reason(error))
        else:
            self._follow_again()
            if self._unwritable and not self.queue_length:
                # A database that can be read may still refuse writes, so a write is tried, too.
                self.compact(self._compacted)
            elif self.failure is not None and not self.queue_length:
                self._judge(None)
        finally:
            alarm.cancel()

    def _lose(self) -> None:
        _log.warning("watches end: what other servers write has not been seen for long", seconds=_LOST)
        self.lost = True
        self.on_lost()

    def _follow_again(self) -> None:
        if self._losing is not None:
            self._losing.cancel()
        self._losing, self.lost = None, False

    def _apply(self, changes: Sequence[Change]) -> set[Collection]:
        # The log has no holes, so each new change has the next revision. The check comes before anything is
        # applied: a change left out here would be missing for good, in memory and in every watch.
        newest = self._revision
        for change in changes:
            if change.event.revision > newest:
                newest += 1
            if change.event.revision > newest:
                raise RuntimeError(f"the log has no revision {newest}, but {change.event.revision}")
        if self._queued and changes:
            # For changes that come after the batch is sent, the database does this check.
            others = by_resource(changes)
            for write in self._queued:
                write.miscounted = write.miscounted or write.change.miscounts(others)
        return super()._apply(changes)

    def _flush(self) -> None:
        self._scheduled = False
        if self._queued and not self._writing:
            # Only one batch is on its way at a time. The writes that queued meanwhile were computed from earlier
            # states, so each is checked against the current state before it is sent. `applied` tells the database
            # which changes the check has covered: it checks against those that come after.
            batch = _Batch(write for write in self._queued if self._is_current(write))
            batch.applied = self._revision
            self._queued = []
            self._writing = len(batch)
            if batch:
                self._jobs.put(batch)
            else:
                self._idle.set()

    def _is_current(self, write: Pending) -> bool:
        """Return whether the version that a write was computed from is still the newest.

        If not, reject it, so that it is computed again.
        """
        basis, event = write.basis, write.change.event
        if write.miscounted or write.done.cancelled():
            # Nothing is sent for a request that has ended, as upstream's context cancels the transaction.
            self._refuse(write)
            return False
        if basis is not None and basis.stored is None:
            return True
        if basis is not None and basis.stored:
            # The write from whose result this one was computed now has its final revision.
            event.previous, write.basis = basis.change.event.state, None
            basis = None
        current = write.collection.records.get(event.key)
        if basis is None and (current and current.revision) == (event.previous and event.previous.revision):
            return True
        self._refuse(write)
        return False

    def _refuse(self, write: Pending) -> None:
        write.stored = False
        if write.collection.inflight.get(write.change.event.key) is write:
            del write.collection.inflight[write.change.event.key]
        write.settle(False)

    def _commit(self, batch: Sequence[Pending]) -> None:
        assert isinstance(batch, _Batch)
        batch.commit = self._shared.commit([write.change for write in batch], batch.applied)

    def _finish_batch(self, batch: Sequence[Pending], failure: Exception | None) -> None:
        assert isinstance(batch, _Batch)
        if isinstance(failure, FarBehind):
            # Nothing of the batch was stored. It goes back to the front, so that the order of writes stays, and is
            # checked again once this server has followed the log.
            self._writing = 0
            self._queued = [*batch, *self._queued]
            catching_up = asyncio.create_task(self._try_to_catch_up())
            catching_up.add_done_callback(lambda _: self._flush())
            return
        if failure is not None:
            self._unwritable = True
            super()._finish_batch(batch, failure)
            return
        assert batch.commit is not None
        self._writing = 0
        self._judge(None)
        # The other servers' changes have lower revisions than ours, so they are applied first. Then each of our
        # writes follows with the revision that the database gave it.
        touched = self._apply(batch.commit.before)
        for write, change in zip(batch, batch.commit.written, strict=True):
            if change is None:
                self._refuse(write)
            else:
                self._settle(write, change)
                touched.add(write.collection)
        self.commits += 1
        self.committed_writes += sum(change is not None for change in batch.commit.written)
        assert self._loop is not None
        # Writers are answered before watchers are notified, because the answers are scheduled already.
        self._loop.call_soon(self._wake, touched)
        if self._queued:
            self._flush()
        else:
            self._newest = self._revision
            self._idle.set()

    def _settle(self, write: Pending, change: Change) -> None:
        write.change, write.stored = change, True
        event = change.event
        # The follower may have applied the change already.
        if event.revision > self._revision:
            write.collection.apply(event)
            self._revision = event.revision
        if write.collection.inflight.get(event.key) is write:
            del write.collection.inflight[event.key]
        write.settle(True)

    async def _reload(self) -> None:
        """Read all objects again, because the changes since are compacted already."""
        _log.warning("this server has not followed for too long, it reads all objects again")
        revisions = await asyncio.to_thread(self._shared.reopen)
        objects = await asyncio.to_thread(lambda: list(self._shared.objects()))
        revision = max(revisions.newest, 1)
        if revision < self._revision:
            return
        self._compacted = max(self._compacted, revisions.compacted)
        self._reset(objects, revision)


def store_for(engine: Engine, clock: Clock, window: float, retention: Retention | None = None) -> Store:
    """Return the store of an engine: a :class:`SharedStore` if several servers may use the engine."""
    return (
        SharedStore(engine, clock, window, retention)
        if isinstance(engine, SharedEngine)
        else Store(engine, clock, window, retention)
    )

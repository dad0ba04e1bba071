"""The API server as one object: store, application and listening socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from email.utils import formatdate
from types import TracebackType
from typing import Any, Self

from dra_shared.clock import Clock, SystemClock, parse_rfc3339
from dra_shared.log import logger
from uvicorn.config import Config as UvicornConfig
from uvicorn.server import ServerState

from dra_apiserver.admission.dynamic.registered import Dynamic
from dra_apiserver.app import Application
from dra_apiserver.bootstrap import Followers, make_missing
from dra_apiserver.config import Config
from dra_apiserver.connection import Connection
from dra_apiserver.extensions import Definitions
from dra_apiserver.handlers.api import Api
from dra_apiserver.health import Health
from dra_apiserver.metrics import Metrics
from dra_apiserver.registry import Registry
from dra_apiserver.storage import Record, Store
from dra_apiserver.storage.sqlite import SqliteEngine

_SWEEP_EVERY = 60.0
_SWEEP_STEP = 500
_DRAIN = 2.0
# As many callers as may knock at once: a refused one waits for TCP to try again, seconds later. asyncio has 100.
_BACKLOG = 2048

_log = logger(__name__)

JsonObject = dict[str, Any]


class ApiServer:
    """`async with ApiServer(config) as server:` serves at `server.url` until the block ends."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self.config = config
        self._clock = clock or SystemClock()
        self._stack = contextlib.AsyncExitStack()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.store: Store
        self.api: Api
        self.url = ""

    async def __aenter__(self) -> Self:
        config = self.config
        listener = self._listen()
        try:
            engine = SqliteEngine(config.database, config.relaxed)
            self.store = await self._stack.enter_async_context(Store(engine, self._clock, config.history))
            metrics = Metrics()
            registry = Registry.default(config.runtime_config, config.features)
            self.api = Api(config, self.store, registry, self._clock, metrics)
            await make_missing(self.api)
            definitions = Definitions(self.api)
            definitions.load()
            self._tasks.append(asyncio.create_task(definitions.run()))
            dynamic = Dynamic(self.api)
            dynamic.follow()
            self._stack.push_async_callback(dynamic.calls.close)
            followers = Followers(self.api, definitions.changed)
            await followers.sync()
            self._tasks.append(asyncio.create_task(followers.run()))
            health = Health()
            health.add("ping", lambda: None)
            health.add("log", lambda: None)
            health.add("etcd", lambda: self.store.failure)
            health.add(
                "shutdown", lambda: "the server is stopping" if self.api.stopping else None, live=False
            )
            self._gauges(metrics)
            await self._serve(Application(self.api, health, config.access_log), listener)
        except BaseException:
            listener.close()
            await self._stack.aclose()
            raise
        return self

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.config.listen else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.config.listen, self.config.port))
        except OSError:
            listener.close()
            raise
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        return listener

    async def _serve(self, application: Application, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        settings = UvicornConfig(
            application,
            lifespan="off",
            http="httptools",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=300,
        )
        settings.load()
        state = self._state

        def protocol() -> asyncio.Protocol:
            return Connection(config=settings, server_state=state, app_state={}, _loop=loop)

        self._server = await loop.create_server(protocol, sock=listener, backlog=_BACKLOG)
        self._tasks += [asyncio.create_task(self._date()), asyncio.create_task(self._expire_events())]
        host, port = listener.getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        _log.info(
            "API server listens", url=self.url, data=str(self.config.database), revision=self.store.revision
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.api.stopping = True
        for task in self._tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
        for stream in list(self.api.streams):
            stream.stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN):
                while self._state.connections or self._state.tasks:  # noqa: ASYNC110 - uvicorn tells nobody
                    await asyncio.sleep(0.005)
        for connection in list(self._state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        for task in list(self._state.tasks):
            task.cancel()
        await asyncio.gather(*self._state.tasks, *self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def _date(self) -> None:
        while True:
            date = formatdate(usegmt=True).encode()
            self._state.default_headers = [(b"date", date), (b"cache-control", b"no-cache, private")]
            await asyncio.sleep(1)

    async def _expire_events(self) -> None:
        resource = ("", "events")
        while True:
            await self._clock.sleep(_SWEEP_EVERY)
            now = self._clock.now()
            for number, record in enumerate(list(self.store.collection(resource).records.values())):
                if number % _SWEEP_STEP == 0:
                    await asyncio.sleep(0)
                meta = record.object()["metadata"]
                touched = max(
                    (entry.get("time") or "" for entry in meta.get("managedFields") or ()),
                    default="",
                )
                born = parse_rfc3339(touched or meta["creationTimestamp"])
                if (now - born).total_seconds() > self.config.event_ttl:
                    await self.store.write(resource, record.key, _remove_if(record.revision))

    def _gauges(self, metrics: Metrics) -> None:
        store = self.store
        metrics.gauge(
            "apiserver_storage_objects",
            "Stored objects by resource.",
            ("resource",),
            lambda: [
                ((f"{plural}.{group}" if group else plural,), float(count))
                for (group, plural), count in store.resources().items()
            ],
        )
        metrics.gauge(
            "apiserver_resource_objects",
            "Stored objects by group and resource.",
            ("group", "resource"),
            lambda: [(resource, float(count)) for resource, count in store.resources().items()],
        )
        for name, help, read in (
            ("dralab_store_queued_writes", "Writes that wait for the database.", lambda: store.queued),
            ("dralab_store_revision", "The newest durable revision.", lambda: store.revision),
            (
                "dralab_store_compacted_revision",
                "The revision up to which history is gone.",
                lambda: store.compacted,
            ),
            ("dralab_store_commits_total", "Database transactions.", lambda: store.commits),
            ("dralab_store_writes_total", "Writes in those transactions.", lambda: store.committed_writes),
        ):
            metrics.gauge(name, help, (), lambda read=read: [((), float(read()))])  # type: ignore[misc]  # a default binds the loop's value


def _remove_if(revision: int) -> Any:
    from dra_apiserver.storage import Remove

    def change(current: Record | None) -> Remove | None:
        return Remove(current.object()) if current is not None and current.revision == revision else None

    return change

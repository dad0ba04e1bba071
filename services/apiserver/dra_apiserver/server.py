"""The API server as an object: store, application and listening socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable
from email.utils import formatdate
from pathlib import Path
from typing import Any, Self

from dra_shared import recursion
from dra_shared.clock import Clock, SystemClock, parse_rfc3339
from dra_shared.features import FeatureGates
from dra_shared.httpserver import IDLE_TIMEOUT
from dra_shared.listening import address, listening_socket
from dra_shared.log import logger
from dra_shared.version import release
from uvicorn.config import Config as UvicornConfig
from uvicorn.server import ServerState

from dra_apiserver.api import Api
from dra_apiserver.app import Application
from dra_apiserver.audit import AuditLog, Auditor, load_policy
from dra_apiserver.authorization import Authorizer, Union
from dra_apiserver.config import Config
from dra_apiserver.connection import Connection
from dra_apiserver.errors import StatusError
from dra_apiserver.health import Health
from dra_apiserver.kinds import catalog
from dra_apiserver.kinds.admissionregistration.dynamic.plugin import Dynamic
from dra_apiserver.kinds.bootstrap import Followers, Restorer, load_past, make_missing
from dra_apiserver.kinds.custom.follow import Definitions
from dra_apiserver.kinds.kubelets.authorizer import NodeAuthorizer
from dra_apiserver.kinds.kubelets.graph import Graph
from dra_apiserver.kinds.metrics import handlers as metrics_server
from dra_apiserver.kinds.rbac.authorizer import RBAC
from dra_apiserver.kinds.rbac.bootstrap import default_rules
from dra_apiserver.metrics import Metrics, Sample
from dra_apiserver.storage import Record, Store, kubernetesversion
from dra_apiserver.storage.catalog import IN_DIRECTORY, SQLITE, Database
from dra_apiserver.storage.catalog import engine as find_engine
from dra_apiserver.storage.engine import DatabaseUnusable
from dra_apiserver.storage.insist import insist
from dra_apiserver.storage.shared import SharedStore, store_for
from dra_apiserver.traffic import Traffic
from dra_apiserver.webhook import Calls

_CALLS = 3000
_SWEEP_EVERY = 60.0
_SWEEP_STEP = 500
_DRAIN = 2.0
# The number of connections that may wait. TCP retries a rejected connection only after seconds. asyncio's
# default is 100.
_BACKLOG = 2048

_log = logger(__name__)


class ApiServer:
    """`async with ApiServer(config) as server:` serves at `server.url` until the block ends.

    `traffic` observes every request, and may hold it.
    """

    def __init__(self, config: Config, clock: Clock | None = None, traffic: Traffic | None = None) -> None:
        self.config = config
        self._traffic = traffic
        self._clock = clock or SystemClock()
        self._stack = contextlib.AsyncExitStack()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.store: Store
        self.api: Api
        self.url = ""

    async def __aenter__(self) -> Self:
        config = self.config
        # Raise the recursion limit, because a deeply nested object needs several calls for each level.
        self._stack.enter_context(recursion.room(_CALLS))
        listener = listening_socket(config.listen, config.port, _BACKLOG)
        try:
            kubernetesversion.check(config.directory, config.features.version, self._file())
            registry = catalog.registry(config.runtime_config, config.features)
            if config.past is not None:
                past = find_engine(self._database())
                await asyncio.to_thread(load_past, past, registry, config.past, config.retention)
            self.store = await self._stack.enter_async_context(self._open_store())
            kubernetesversion.check_objects(self.store, config.directory, config.features.version)
            metrics = Metrics()
            authorizer = _authorizer(config, self.store)
            self.api = Api(config, self.store, registry, self._clock, metrics, authorizer, catalog.ROUTES)
            if isinstance(self.store, SharedStore):
                self.store.on_lost = self.api.end_watches
            calls = Calls(self.api)
            self._stack.push_async_callback(calls.close)
            definitions = Definitions(self.api, calls)
            definitions.load()
            await self._prepare(definitions.changed, calls, listener.getsockname()[1])
            self._tasks.append(asyncio.create_task(definitions.run()))
            health = Health()
            health.add("ping", lambda: None)
            health.add("log", lambda: None)
            health.add("etcd", lambda: self.store.failure)
            health.add(
                "shutdown", lambda: "the server is stopping" if self.api.stopping else None, live=False
            )
            self._gauges(metrics)
            application = Application(self.api, health, config.access_log, self._traffic, self._auditor())
            await self._serve(application, listener)
        except BaseException as error:
            listener.close()
            await self._stack.aclose()
            if isinstance(error, StatusError):
                # The server's own first writes can only fail because of the database.
                raise DatabaseUnusable(self.store.database, error.message) from error
            raise
        return self

    def _database(self) -> Database:
        config = self.config
        return Database(config.database, config.directory, config.relaxed)

    def _file(self) -> Path | None:
        """Return the database in the server's own directory; None if it is elsewhere."""
        config = self.config
        return config.directory / SQLITE if config.database == IN_DIRECTORY else None

    def _open_store(self) -> Store:
        config = self.config
        return store_for(find_engine(self._database()), self._clock, config.history, config.retention)

    async def _prepare(self, changed: asyncio.Event, calls: Calls, port: int) -> None:
        """Write the objects that every cluster has, and start the tasks that follow stored objects."""
        config = self.config
        if config.metrics_server:
            metrics_server.serve(self.api)
        await make_missing(self.api, port)
        kubernetesversion.note(config.directory, config.features.version)
        dynamic = Dynamic(self.api, calls)
        dynamic.follow()
        self.api.dynamic = dynamic
        followers = Followers(self.api, changed)
        await followers.sync()
        restorer = Restorer(self.api, port, followers.sync_addresses)
        await restorer.start()
        self._stack.push_async_callback(restorer.stop)
        works = followers.run(), restorer.run(), self._expire_events()
        self._tasks += [asyncio.create_task(work) for work in works]

    def _auditor(self) -> Auditor | None:
        options = self.config.audit
        if options is None:
            return None
        log = AuditLog(
            options.path,
            self._clock,
            max_size=options.max_size,
            max_backups=options.max_backups,
            max_age=options.max_age,
            compress=options.compress,
        )
        self._stack.callback(log.close)
        return Auditor(load_policy(options.policy), log, self._clock)

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
            timeout_keep_alive=IDLE_TIMEOUT,
        )
        settings.load()
        state = self._state

        def protocol() -> asyncio.Protocol:
            return Connection(config=settings, server_state=state, app_state={}, _loop=loop)

        tls = None if self.config.tls is None else self.config.tls.context
        self._servers.append(await loop.create_server(protocol, sock=listener, backlog=_BACKLOG, ssl=tls))
        self._tasks.append(asyncio.create_task(self._date()))
        self.url = f"http{'s' if tls else ''}://{address(*listener.getsockname()[:2])}"
        _log.info("API server listens", url=self.url, data=self.store.database, revision=self.store.revision)

    async def __aexit__(self, *_: object) -> None:
        self.api.stopping = True
        for task in self._tasks:
            task.cancel()
        for server in self._servers:
            server.close()
        self.api.end_watches()
        for silent in list(self.api.silent):
            silent.cancel()
        for connection in list(self._state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN):
                while self._state.connections or self._state.tasks:  # noqa: ASYNC110 - uvicorn has no event for it
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
        while True:
            await self._clock.sleep(_SWEEP_EVERY)
            await insist(self._clock, self._sweep_events)

    async def _sweep_events(self) -> None:
        resource = ("", "events")
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
        metrics.gauge(
            "kubernetes_feature_enabled",
            "Feature gates by name and stage: 1 where the gate is on.",
            ("name", "stage"),
            lambda: _gates(self.config.features),
        )
        for name, help, read in (
            ("dralab_store_queued_writes", "Writes that wait for the database.", lambda: store.queue_length),
            ("dralab_store_revision", "The newest durable revision.", lambda: store.revision),
            (
                "dralab_store_compacted_revision",
                "The revision up to which history is gone.",
                lambda: store.compacted_revision,
            ),
            ("dralab_store_commits_total", "Database transactions.", lambda: store.commits),
            ("dralab_store_writes_total", "Writes in those transactions.", lambda: store.committed_writes),
        ):
            metrics.gauge(name, help, (), lambda read=read: [((), float(read()))])  # type: ignore[misc]  # a default binds the loop's value


def _gates(features: FeatureGates) -> Iterable[Sample]:
    """Yield each gate with its stage, "" for GA (``k8s.io/component-base/metrics/prometheus/feature``)."""
    for name, gate in release(features.version).gates.items():
        stage = "" if gate.stage == "GA" else gate.stage.upper()
        yield (name, stage), float(features.enabled(name))


def _authorizer(config: Config, store: Store) -> Authorizer | None:
    known: dict[str, Callable[[], Authorizer]] = {
        "Node": lambda: NodeAuthorizer(Graph(store), default_rules("system:node", config.features)),
        "RBAC": lambda: RBAC(store),
    }
    found = [known[mode]() for mode in config.authorizes]
    return None if not found else Union(found)


def _remove_if(revision: int) -> Any:
    from dra_apiserver.storage import Remove

    def change(current: Record | None) -> Remove | None:
        return Remove(current.object()) if current is not None and current.revision == revision else None

    return change

"""All services of a cluster as tasks on one event loop, in the test's process."""

import asyncio
import atexit
import contextlib
import gc
import inspect
import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import structlog
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_controller.manager import ControllerConfig, ControllerManager
from dra_kube.cluster import kubeconfig
from dra_node_agent.agent import NodeAgent, NodeAgentConfig
from dra_node_agent.kubelet.websocket import WebSocket
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.scheduler import Scheduler
from dra_scheduler.wiring import new_scheduler
from dra_shared import log
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, FakeClock, SystemClock
from dra_shared.service import HealthServer

from dra_testing.options import Options

#: The file with the warnings of all clusters of this process; empty before the first cluster.
WARNINGS: list[Path] = []

_CONTROLLER = "kube-controller-manager/v{} dralab-controller"
_SCHEDULER = "kube-scheduler/v{} dralab-scheduler"
_ACCOUNTS = ("", "serviceaccounts")
_NAMESPACES = ("", "namespaces")
_POLL = 0.002
_START_TIMEOUT = 60.0
# Collect garbage after this many clusters have ended: each leaves cycles of about 5 MiB.
_COLLECT_AFTER = 16

_ended = itertools.count(1)


class Services:
    """The services for the duration of ``async with``. When it is entered, the cluster is ready for pods."""

    def __init__(self, options: Options, data: Path) -> None:
        self.options = options
        self.data = data
        self.clock: Clock = FakeClock() if options.fake_clock else SystemClock()
        self._stack = contextlib.AsyncExitStack()
        self.server: ApiServer
        self.scheduler: Scheduler
        self.agent: NodeAgent
        self.controllers: ControllerManager
        self._agent_port = 0

    @property
    def url(self) -> str:
        """The API server's address."""
        return self.server.url

    @property
    def urls(self) -> dict[str, str]:
        """The addresses of the scheduler and the node agent."""
        return {
            "scheduler": f"http://127.0.0.1:{self.scheduler.health_port}",
            "node-agent": f"http://127.0.0.1:{self._agent_port}",
        }

    async def __aenter__(self) -> Self:
        _quiet_logs(self.data)
        try:
            with _pause_collection():
                await self._start()
                async with asyncio.timeout(_START_TIMEOUT):
                    while not self._ready():
                        await self.pause(_POLL)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        if next(_ended) % _COLLECT_AFTER == 0 and gc.isenabled():
            # Hide warnings about resources that other tests left open: they would be reported for this test.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()

    async def pause(self, seconds: float) -> None:
        """Sleep, so that the services can work. A fake clock advances, too."""
        await asyncio.sleep(seconds)
        if isinstance(self.clock, FakeClock):
            await self.clock.advance(0.1)

    async def _start(self) -> None:
        enter, features = self._stack.enter_async_context, self.options.features
        config = Config(
            port=0,
            data=self.data,
            # The cluster ends with this process, so its objects need not be durable.
            database=IN_MEMORY,
            runtime_config="api/all=true",
            features=features,
            metrics_server=True,
        )
        self.server = await enter(ApiServer(config, self.clock))
        (self.data / "kubeconfig").write_bytes(kubeconfig(self.url, {"dralab": {}}))
        self.controllers = await enter(
            ControllerManager(
                ControllerConfig(features=features, operators=frozenset(self.options.operators)),
                await self._client(_CONTROLLER.format(features.version)),
                self.clock,
            )
        )
        scheduling = SchedulerConfig(gates=features)
        self.scheduler = await enter(
            new_scheduler(
                scheduling, client=await self._client(_SCHEDULER.format(features.version)), clock=self.clock
            )
        )
        if self.options.nodes:
            await self._start_nodes()

    async def _start_nodes(self) -> None:
        options = self.options
        config = NodeAgentConfig(
            data=self.data,
            names=[f"node-{number}" for number in range(options.nodes)],
            drivers=options.drivers,
            gpus=options.gpus,
            features=options.features,
            durable=False,
        )
        agent = self.agent = NodeAgent(config, await self._client("dralab-node-agent"), self.clock)
        listener = HealthServer(
            "127.0.0.1",
            0,
            {"nodes": lambda: agent.ready},
            agent.routes(),
            lambda config, server_state, app_state: WebSocket(agent.stream, server_state),
            config.guard,
        )
        await self._stack.enter_async_context(listener)
        self._agent_port = listener.port
        agent.listen_on(listener.port)
        await self._stack.enter_async_context(agent)

    async def _client(self, user_agent: str) -> Client:
        return await self._stack.enter_async_context(Client(self.url, user_agent=user_agent))

    def _ready(self) -> bool:
        """True if a new pod would be scheduled and run, and the services have created all objects of their start."""
        if not (self.controllers.ready and self.scheduler.ready and self._has_accounts()):
            return False
        if not self.options.nodes:
            return True
        scheduler, wanted = self.scheduler, self.options.nodes
        nodes = scheduler.cache.node_objects()
        published = not self.options.drivers or all(
            any(True for _ in scheduler.manager.snapshot.slices_for(node.metadata.name)) for node in nodes
        )
        return (
            self.agent.ready
            and len(nodes) == wanted
            and published
            and not any(node.spec.taints for node in nodes)
        )

    def _has_accounts(self) -> bool:
        """True if every namespace has its default service account.

        The cluster's first snapshot must have them all. A rollback to a snapshot without one would delete the
        account again and again while the controller creates it.
        """
        store = self.server.store
        namespaces = store.collection(_NAMESPACES).records
        return all(store.get(_ACCOUNTS, f"{name}/default") is not None for name in namespaces)


@contextlib.contextmanager
def _pause_collection() -> Iterator[None]:
    """Disable garbage collection for the block: the objects of a starting cluster live as long as the cluster.

    At the end they are moved to the oldest generation. Otherwise the next collection would have to scan all of them.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if collects:
            gc.enable()


_DEFAULT = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.StackInfoRenderer,
    structlog.dev.set_exc_info,
    structlog.processors.TimeStamper,
    structlog.dev.ConsoleRenderer,
]
"""The processors of structlog's default configuration: functions, and the classes of objects."""


def _quiet_logs(folder: Path) -> None:
    """Write the services' warnings to a file, unless the program has configured structlog itself.

    The file belongs to this process, as structlog's configuration does, and is deleted when the process exits.
    """
    if not _has_logging():
        descriptor, name = tempfile.mkstemp(prefix=f"dralab-{os.getpid()}-", suffix=".log", dir=folder.parent)
        log.configure("dralab", "warning", descriptor, final=False)
        WARNINGS.append(Path(name))
        atexit.register(Path(name).unlink, missing_ok=True)


def _has_logging() -> bool:
    """True if the program has configured structlog. ``capture_logs`` alone sets only the defaults."""
    if not structlog.is_configured():
        return False
    config = structlog.get_config()
    kinds = [one if inspect.isfunction(one) else type(one) for one in config["processors"]]
    return kinds != _DEFAULT or not isinstance(config["logger_factory"], structlog.PrintLoggerFactory)

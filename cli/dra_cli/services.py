"""The services that make up a cluster, and how ``dralab up`` starts each of them."""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from dra_shared.api.resources import NODES, RESOURCE_SLICES, Resource
from dra_shared.clock import SPEED
from dra_shared.features import with_defaults

from dra_cli import snapshots
from dra_cli.cluster import Cluster, Record, ServiceRecord
from dra_cli.errors import CommandError
from dra_cli.fleet import DEFAULT_GPUS, DEFAULT_POOL, Pool, Pools, with_sockets
from dra_cli.forkserver import ForkServer
from dra_cli.ports import Port, PortTaken
from dra_cli.protection import Protection, Wanted
from dra_cli.restore.writer import Writer
from dra_cli.supervisor import ServiceSpec, Supervisor
from dra_cli.versions import LAB_GATES, Versions

DEFAULT_GATES = with_defaults(LAB_GATES, "")

# Every version, as what the gates above need must be served. --runtime-config has the last word.
_DEFAULT_VERSIONS = "api/all=true"

# How often a start is tried where another program takes a port that was chosen here.
_ATTEMPTS = 5
# How often the files of pools are looked at.
_POOLS_EVERY = 0.3


@dataclass(frozen=True)
class ClusterOptions:
    """What ``dralab up`` was asked for."""

    nodes: int = 2
    apiservers: int = 1
    """How many API servers; the first one has the database's file, and the others are its readers."""
    fleet: Sequence[Pool] = ()
    """Pools of nodes, in place of ``nodes``, ``gpus`` and ``drivers``."""
    gpus: str = DEFAULT_GPUS
    port: int = 8080
    listen: str = "127.0.0.1"
    drivers: Sequence[str] = field(default_factory=tuple)
    runtime: str = "fake"
    allow_host_access: bool = False
    relaxed: bool = False
    database: str = ""
    """The URL of the API server's database; empty for a file in the cluster's directory."""
    history: str = ""
    """What the API server keeps of the past, as its ``--history`` takes it; empty for as it was last."""
    kubernetes_version: str = ""
    """Which Kubernetes to follow, as :mod:`dra_cli.versions` reads it; empty for the default."""
    feature_gates: str = ""
    runtime_config: str = ""
    authorization_mode: str = ""
    """Empty for the default: everybody may do everything, but with ``tls``."""
    anonymous_auth: bool | None = None
    tls: bool = False
    """Whether services know each other by certificates, and users by theirs."""
    tls_hosts: Sequence[str] = ()
    """More names and addresses of the API server, for its certificate."""
    driver_options: Mapping[str, str] = field(default_factory=dict)
    gpu_models: Sequence[str] = field(default_factory=tuple)
    images: Sequence[str] = field(default_factory=tuple)
    scheduler_config: Path | None = None
    speed: float = 1.0
    """How much faster time passes for the services."""
    grace: float | None = None
    """How many seconds pods get at most to stop; None for as many as they say."""
    log_level: str = "info"
    without: Sequence[str] = field(default_factory=tuple)
    node_sockets: bool | None = None
    """Whether each node has all its sockets; None where there are few nodes."""
    restored: Sequence[tuple[Resource[Any], dict[str, Any]]] = ()
    """Objects that the cluster starts with."""
    past: Path | None = None
    """A file with the past with which an empty database begins (:mod:`dra_cli.restore.past`)."""
    snapshot: Path | None = None
    """The file of a snapshot that the cluster starts from."""

    @property
    def pools(self) -> list[Pool]:
        """The pools that the cluster starts with."""
        if self.fleet or not self.nodes:
            return list(self.fleet)
        return [Pool(name=DEFAULT_POOL, count=self.nodes, gpus=self.gpus, drivers=tuple(self.drivers))]

    @property
    def needs_token(self) -> bool:
        """Whether the API server answers only those who have a token: by default where pods run on a real engine."""
        if self.anonymous_auth is None:
            return self.runtime == "docker" and not self.tls
        return not self.anonymous_auth

    @property
    def authorizes(self) -> str:
        """The mode of authorization."""
        return self.authorization_mode or ("Node,RBAC" if self.tls else "AlwaysAllow")

    @property
    def has_roles(self) -> bool:
        """Whether roles and bindings say who may do what."""
        return "RBAC" in self.authorizes.split(",")

    @property
    def protection(self) -> Wanted:
        """How the cluster is to be protected."""
        return Wanted(
            tls=self.tls,
            tokens=self.needs_token,
            roles=self.has_roles,
            node_authorizer="Node" in self.authorizes.split(","),
            hosts=self.tls_hosts,
            listen=self.listen,
        )


class ClusterServices:
    """The processes of one cluster: API server, scheduler, controller and node agent.

    Raises:
        CommandError: the options leave out what cannot be left out.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ClusterOptions,
        report: Callable[[str], None],
        forks: Sequence[ForkServer] = (),
    ) -> None:
        self.cluster = cluster
        self._forks = forks
        self._options = options
        self._report = report
        self._clients = self._choose_clients()
        self._versions = _versions(options, self.names)
        self._ready = False
        self._server = ""
        self._read_urls: Iterator[str] = iter(())
        self._environment = {SPEED: f"{options.speed:g}@{time.time():.3f}"} if options.speed != 1 else {}
        nodes = [name for pool in options.pools for name in pool.nodes]
        self._protection = Protection(cluster.data / "auth", options.protection, nodes)

    @property
    def names(self) -> list[str]:
        """The services' names."""
        return ["apiserver", *self._clients]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """The API server's URL, once all processes are ready; they end with the context.

        Raises:
            PortTaken: something else has the port that the options name.
            CommandError: a process is not ready in time, or keeps dying.
        """
        async with contextlib.AsyncExitStack() as stack:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    server, processes = await self._start()
                except PortTaken:
                    # Another program listens on a port that was chosen here: start with other ports.
                    if self._options.port or attempt == _ATTEMPTS:
                        raise
                else:
                    await stack.enter_async_context(processes)
                    yield server
                    return

    async def _start(self) -> tuple[str, contextlib.AsyncExitStack]:
        Pools(self.cluster.data).start(self._options.pools)
        async with contextlib.AsyncExitStack() as stack:
            specs = self._specify(stack)
            server = specs[0].port.url
            later = specs[1:] if self._options.restored or self._options.snapshot else []
            del specs[len(specs) - len(later) :]
            supervisor = Supervisor(
                specs,
                self.cluster.logs,
                report=self._report,
                changed=lambda: self._publish(specs, supervisor),
                forks=self._forks,
            )
            await stack.enter_async_context(supervisor)
            protection = self._protection
            self.cluster.write_kubeconfig(server, protection.administrator, protection.trusted)
            self._publish(specs, supervisor)
            if later:
                await supervisor.ready(only=("apiserver",))
                await self._restore()
            if self._options.has_roles:
                await supervisor.ready(only=("apiserver",))
                async with self.cluster.client("dralab") as client:
                    await protection.grant(client)
            for spec in later:
                await supervisor.add(spec)
                specs.append(spec)
            if later:
                self._publish(specs, supervisor)
            await supervisor.ready(progress=self._grown)
            self._ready = True
            self._publish(specs, supervisor)
            if "node-agent" not in self._options.without:
                following = asyncio.create_task(self._follow_pools(specs, supervisor))
                stack.push_async_callback(_ended, following)
            return server, stack.pop_all()
        raise AssertionError("the stack hides no error")

    async def _grown(self) -> list[int]:
        """How many nodes there are, and how many slices their drivers have published."""
        counted = []
        async with self.cluster.client("dralab") as client:
            for resource in (NODES, RESOURCE_SLICES):
                with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError, ValueError, KeyError):
                    listed = (await client.raw("GET", resource.path(), params={"limit": "1"})).json()
                    more = listed["metadata"].get("remainingItemCount", 0)
                    counted.append(len(listed["items"]) + more)
        return counted

    async def _restore(self) -> None:
        """Write the objects that the cluster starts with, before anything but the API server runs."""
        if self._options.snapshot is not None:
            async with self.cluster.client("dralab") as client:
                done = await snapshots.put(client, snapshots.content(self._options.snapshot))
            self._report(f"snapshot restored: {done['added']} objects added, {done['changed']} changed")
            return
        problems: list[str] = []
        async with self.cluster.client("dralab") as client:
            writer = Writer(client, problems, self._versions.cluster)
            written = await writer.write(self._options.restored)
        for problem in problems:
            self._report(f"not restored: {problem}")
        self._report(f"{written} objects restored")

    async def _follow_pools(self, specs: list[ServiceSpec], supervisor: Supervisor) -> None:
        """Start and stop node agents as pools come, change and go: `dralab node add` writes a pool's file."""
        known = {pool.name: pool for pool in self._options.pools}
        with contextlib.ExitStack() as ports:
            while True:
                await asyncio.sleep(_POOLS_EVERY)
                try:
                    wanted = {
                        name: pool for name, pool in Pools(self.cluster.data).read().items() if pool.nodes
                    }
                except CommandError as error:
                    self._report(str(error))
                    continue
                for name in [name for name in known if wanted.get(name) != known[name]]:
                    del known[name]
                    await supervisor.remove(agent_name(name))
                    specs[:] = [spec for spec in specs if spec.name != agent_name(name)]
                    self._publish(specs, supervisor)
                for name in [name for name in wanted if name not in known]:
                    known[name] = wanted[name]
                    self._identify(wanted[name])
                    agent = self._agent(wanted[name])
                    spec = self._client(agent_name(name), "dra_node_agent.main", agent, ports)
                    await supervisor.add(spec)
                    specs.append(spec)
                    self._publish(specs, supervisor)

    def _publish(self, specs: Sequence[ServiceSpec], supervisor: Supervisor) -> None:
        """Write where everything is reached."""
        pids, restarts, refusals = supervisor.pids(), supervisor.restarts(), supervisor.refusals()
        services = {
            spec.name: ServiceRecord(
                pid=pids[spec.name],
                url=spec.port.url,
                restarts=restarts[spec.name],
                refusal=refusals.get(spec.name, ""),
            )
            for spec in specs
        }
        server = specs[0].port.url
        self.cluster.write(
            Record(
                pid=os.getpid(),
                server=server,
                ready=self._ready,
                token=self._protection.serving_token,
                services=services,
            )
        )

    def _specify(self, stack: contextlib.AsyncExitStack) -> list[ServiceSpec]:
        options, data = self._options, self.cluster.data
        port = stack.enter_context(Port(options.port, self._protection.scheme))
        self._server = port.url
        self._protection.write(port.url)
        common = self._common("apiserver")
        apiserver = ["--data", str(data), "--metrics-server", *common]
        served = ",".join(filter(None, (_DEFAULT_VERSIONS, options.runtime_config)))
        apiserver += ["--runtime-config", served, "--listen", options.listen]
        apiserver += ["--authorization-mode", options.authorizes, *self._protection.of_apiserver()]
        if options.relaxed:
            apiserver.append("--relaxed")
        if options.database:
            apiserver += ["--database", options.database]
        if options.past is not None:
            apiserver += ["--past", str(options.past)]
        if options.history:
            apiserver += ["--history", options.history]
        others = [stack.enter_context(Port(0, self._protection.scheme)) for _ in range(1, options.apiservers)]
        self._read_urls = itertools.cycle([other.url for other in others])
        for pool in options.pools:
            self._identify(pool)
        clients = [
            self._client(name, module, arguments, stack)
            for name, (module, arguments) in self._clients.items()
        ]
        apiserver += [
            word
            for spec in clients
            if spec.name == "scheduler"
            for word in ("--scheduler-url", spec.port.url)
        ]
        # PostgreSQL has equal servers.
        first, more = ([], []) if options.database else (["--serve-readers"], ["--reader"])
        return [
            self._apiserver("apiserver", port, [*apiserver, *(first if others else [])]),
            *(
                self._apiserver(f"apiserver-{number}", other, [*apiserver, *more])
                for number, other in enumerate(others, 2)
            ),
            *clients,
        ]

    def _apiserver(self, name: str, port: Port, arguments: Sequence[str]) -> ServiceSpec:
        return ServiceSpec(
            name,
            "dra_apiserver.main",
            port,
            arguments,
            port_flag="--port",
            known=True,
            environment=self._environment,
            token=self._protection.administrator.get("token", ""),
            tls=self._protection.context(),
        )

    def _identify(self, pool: Pool) -> None:
        """Give the pool's node agent its credentials."""
        self._protection.write_agent(agent_name(pool.name), pool.nodes)

    def _common(self, service: str) -> list[str]:
        versions, wanted = self._versions, self._options.feature_gates
        return [
            *("--log-level", self._options.log_level),
            *("--kubernetes-version", str(versions.of(service))),
            *("--feature-gates", versions.gates(service, wanted)),
        ]

    def _client(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        stack: contextlib.AsyncExitStack | contextlib.ExitStack,
    ) -> ServiceSpec:
        """A service that is a client of the API server."""
        protection = self._protection
        flags = [*protection.of_client(name, self._server), *arguments, *self._common(name)]
        flags += [word for url in itertools.islice(self._read_urls, 1) for word in ("--read-server", url)]
        port = stack.enter_context(Port(scheme=protection.service_scheme))
        tls = protection.service_context()
        return ServiceSpec(name, module, port, flags, environment=self._environment, tls=tls)

    def _choose_clients(self) -> dict[str, tuple[str, Sequence[str]]]:
        clients: dict[str, tuple[str, Sequence[str]]] = {
            "controller": ("dra_controller.main", self._controller()),
            "scheduler": ("dra_scheduler.main", self._scheduler()),
        }
        for name in self._options.without:
            if name != "node-agent" and clients.pop(name, None) is None:
                raise CommandError(f"--without {name}: choose {', '.join([*clients, 'node-agent'])}", 2)
        if "node-agent" not in self._options.without:
            for pool in self._options.pools:
                clients[agent_name(pool.name)] = ("dra_node_agent.main", self._agent(pool))
        return clients

    def _controller(self) -> list[str]:
        # Roles are given to its controllers, and not to itself.
        return ["--use-service-account-credentials"] if self._options.has_roles else []

    def _scheduler(self) -> list[str]:
        file = self._options.scheduler_config
        return ["--config", str(file.absolute())] if file is not None else []

    def _agent(self, pool: Pool) -> list[str]:
        options = self._options
        agent = ["--data", str(self.cluster.data), *pool.flags(), "--runtime", options.runtime]
        nodes = sum(len(one.nodes) for one in options.pools)
        if not with_sockets(options.node_sockets, nodes):
            agent.append("--no-node-sockets")
        if options.relaxed:
            agent.append("--relaxed")
        if options.grace is not None:
            agent += ["--most-grace", f"{options.grace:g}"]
        if options.allow_host_access:
            agent.append("--allow-host-access")
        for folder in options.gpu_models:
            agent += ["--gpu-models", str(Path(folder).absolute())]
        for file in options.images:
            agent += ["--images", str(Path(file).absolute())]
        for name, value in options.driver_options.items():
            agent += [f"--{name}", value] if value else []
        return agent


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def agent_name(pool: str) -> str:
    """The service that carries the pool's nodes."""
    return "node-agent" if pool == DEFAULT_POOL else f"node-agent-{pool}"


def _versions(options: ClusterOptions, services: Sequence[str]) -> Versions:
    """The versions that the options ask for, with which the feature gates have to go.

    Raises:
        CommandError: there is no such version or gate, or they don't go together.
    """
    try:
        versions = Versions.parse(options.kubernetes_version)
        for name in services:
            versions.gates(name, options.feature_gates)
    except ValueError as error:
        raise CommandError(str(error), 2) from error
    return versions


class Reporter:
    """Prints a line for the user, as far as that is possible: services must run on when a disk or pipe takes none."""

    def __call__(self, line: str) -> None:
        with contextlib.suppress(OSError):
            print(line, flush=True)

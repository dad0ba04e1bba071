"""The services of a cluster: their flags, ports and credentials."""

import contextlib
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dra_shared.clock import SPEED
from dra_shared.errors import UserError
from dra_shared.serviceversions import Versions
from dra_worlds.fleet import DEFAULT_GPUS, DEFAULT_POOL, Pool, with_sockets

from dra_lab.clusteroptions import ClusterOptions
from dra_lab.ports import Port
from dra_lab.protection import Protection
from dra_lab.supervisor import ServiceSpec

# The real GPUs of the machine. Only the node agent can find out whether there are any.
_HOST = "host"


def check_gpus(wanted: Iterable[str], folders: Sequence[str] = ()) -> None:
    """Check the GPUs of nodes. ``folders`` have GPU models in addition to the built-in ones.

    Raises:
        UserError: the text is malformed, or there is no such model or layout; the message lists those that exist.
    """
    texts = set(wanted) - {_HOST}
    if texts <= {DEFAULT_GPUS} and not folders:
        return
    # Imported here, because importing the GPU models takes longer than most commands, and most clusters have
    # the default GPUs.
    from dra_node_agent.nvml.node import parse_gpus

    for text in sorted(texts):
        try:
            parse_gpus(text, "", tuple(map(Path, folders)))
        except ValueError as error:
            raise UserError(str(error), 2) from error


# All API versions, because the gates above need some that are off by default. --runtime-config takes precedence.
_DEFAULT_VERSIONS = "api/all=true"

_Stack = contextlib.ExitStack | contextlib.AsyncExitStack


# The environment variable for `--audit-log-path`, which several API servers would share.
_AUDIT_LOG = ("DRALAB_APISERVER_AUDIT_LOG_PATH", "DRALAB_AUDIT_LOG_PATH")


def _own_audit_log(name: str) -> dict[str, str]:
    """Return the option for a separate audit log of one more API server, because two cannot rotate the same file."""
    path = next(filter(None, map(os.environ.get, _AUDIT_LOG)), "-")
    if path == "-":
        return {}
    file = Path(path)
    return {_AUDIT_LOG[0]: str(file.with_name(f"{file.stem}.{name}{file.suffix}"))}


class ServiceSpecs:
    """The commands of a cluster's services.

    ``data`` is the cluster's directory, and ``protection`` has the services' credentials.

    Raises:
        UserError: the options leave out a service that is needed, or name unknown versions, gates or GPUs.
    """

    def __init__(self, data: Path, options: ClusterOptions, protection: Protection) -> None:
        self._data = data
        self._options = options
        self._protection = protection
        if options.apiservers > 1 and not options.database.startswith("postgres"):
            raise UserError("--apiservers needs a PostgreSQL: --database postgresql://user@host/database", 2)
        self._clients = self._choose_clients()
        check_gpus([pool.gpus for pool in options.pools], options.gpu_models)
        self.versions = _versions(options, self.names)
        self._server = ""
        self._read_urls: Iterator[str] = iter(())
        self._environment = {SPEED: f"{options.speed:g}@{time.time():.3f}"} if options.speed != 1 else {}

    @property
    def names(self) -> list[str]:
        """The services' names."""
        return ["apiserver", *self._clients]

    def all(self, stack: _Stack, supervisor: str) -> list[ServiceSpec]:
        """Return the specs of all services, the API server's first. Their ports are held until ``stack`` closes.

        ``supervisor`` is the URL of the supervisor. The credentials of the services are written before.
        """
        options, data = self._options, self._data
        port = stack.enter_context(Port(options.port, self._protection.scheme))
        self._server = port.url
        self._protection.write(port.url)
        common = self._common("apiserver")
        apiserver = ["--data", str(data), "--metrics-server", *common]
        served = ",".join(filter(None, (_DEFAULT_VERSIONS, options.runtime_config)))
        apiserver += ["--runtime-config", served, "--listen", options.listen]
        apiserver += ["--supervisor-url", supervisor]
        apiserver += ["--authorization-mode", options.authorizes, *self._protection.apiserver_options()]
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
            self._write_agent_credentials(pool)
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
        return [
            self._apiserver("apiserver", port, apiserver),
            *(
                self._apiserver(f"apiserver-{number}", other, apiserver)
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
            environment={**self._environment, **(_own_audit_log(name) if name != "apiserver" else {})},
            token=self._protection.administrator.get("token", ""),
            tls=self._protection.context(),
        )

    def agent(self, pool: Pool, stack: _Stack) -> ServiceSpec:
        """Return the node agent for a pool that was added later. Its port is held until ``stack`` closes."""
        self._write_agent_credentials(pool)
        return self._client(agent_name(pool.name), "dra_node_agent.main", self._agent(pool), stack)

    def _write_agent_credentials(self, pool: Pool) -> None:
        """Write the credentials of the pool's node agent."""
        self._protection.write_agent(agent_name(pool.name), pool.nodes)

    def _common(self, service: str) -> list[str]:
        versions, wanted = self.versions, self._options.feature_gates
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
        stack: _Stack,
    ) -> ServiceSpec:
        """Return the spec of a service that is a client of the API server."""
        protection = self._protection
        flags = [*protection.client_options(name, self._server), *arguments, *self._common(name)]
        flags += [word for url in itertools.islice(self._read_urls, 1) for word in ("--read-server", url)]
        port = stack.enter_context(Port(scheme=protection.service_scheme))
        tls = protection.service_context()
        return ServiceSpec(name, module, port, flags, environment=self._environment, tls=tls)

    def _choose_clients(self) -> dict[str, tuple[str, Sequence[str]]]:
        clients: dict[str, tuple[str, Sequence[str]]] = {
            "controller": ("dra_controller.main", self._controller()),
            "scheduler": ("dra_scheduler.main", self._scheduler()),
        }
        if self._options.operators and "controller" in self._options.without:
            raise UserError("--with needs the controller: leave out --without controller", 2)
        for name in self._options.without:
            if name != "node-agent" and clients.pop(name, None) is None:
                raise UserError(f"--without {name}: choose {', '.join([*clients, 'node-agent'])}", 2)
        if "node-agent" not in self._options.without:
            for pool in self._options.pools:
                clients[agent_name(pool.name)] = ("dra_node_agent.main", self._agent(pool))
        return clients

    def _controller(self) -> list[str]:
        # Each controller has a role of its own; the process itself has no role.
        flags = ["--use-service-account-credentials"] if self._options.has_roles else []
        return [*flags, "--with", ",".join(self._options.operators)] if self._options.operators else flags

    def _scheduler(self) -> list[str]:
        file = self._options.scheduler_config
        return ["--config", str(file.absolute())] if file is not None else []

    def _agent(self, pool: Pool) -> list[str]:
        options = self._options
        agent = ["--data", str(self._data), *pool.flags(), "--runtime", options.runtime]
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
        if options.strict_images:
            agent += ["--images", "strict"]
        for file in options.images:
            agent += ["--images", str(file.absolute())]
        for name, value in options.driver_options.items():
            agent += [f"--{name}", value] if value else []
        return agent


def agent_name(pool: str) -> str:
    """Return the name of the service that runs the pool's nodes."""
    return "node-agent" if pool == DEFAULT_POOL else f"node-agent-{pool}"


def _versions(options: ClusterOptions, services: Sequence[str]) -> Versions:
    """Return the versions from the options, after checking that the feature gates fit.

    Raises:
        UserError: there is no such version or gate, or they do not fit together.
    """
    try:
        versions = Versions.parse(options.kubernetes_version)
        for name in services:
            versions.gates(name, options.feature_gates)
    except ValueError as error:
        raise UserError(str(error), 2) from error
    return versions

"""The services that make up a cluster, and how ``dralab up`` starts each of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dra_cli.cluster import Cluster, Record, ServiceRecord
from dra_cli.errors import CommandError
from dra_cli.supervisor import ServiceSpec, Supervisor, free_port, port_in_use

# Whatever DRA can do is there to be tried: these are off by default in 1.36. --feature-gates has the last word.
DEFAULT_GATES = (
    "DRADeviceTaintRules=true,DRANodeAllocatableResources=true,DRAResourcePoolStatus=true,"
    "DRAWorkloadResourceClaims=true,GangScheduling=true,GenericWorkload=true"
)


@dataclass(frozen=True)
class HouseOptions:
    """What ``dralab up`` was asked for."""

    nodes: int = 2
    gpus: str = "8xA100-SXM4-40GB"
    port: int = 8080
    drivers: Sequence[str] = field(default_factory=tuple)
    runtime: str = "fake"
    relaxed: bool = False
    feature_gates: str = ""
    runtime_config: str = "api/all=true"
    authorization_mode: str = "AlwaysAllow"
    nvidia_gates: str = ""
    gpu_models: Sequence[str] = field(default_factory=tuple)
    consumable_shares: str = ""
    log_level: str = "info"
    without: Sequence[str] = field(default_factory=tuple)


class House:
    """The processes of one cluster: API server, scheduler, controller and node agent."""

    def __init__(self, cluster: Cluster, options: HouseOptions) -> None:
        self.cluster = cluster
        self._options = options
        self._ready = False
        port = options.port or free_port()
        if options.port and port_in_use(port):
            raise CommandError(f"port {port} is in use; choose another with --port (0 takes any free one)")
        self.server = f"http://127.0.0.1:{port}"
        self._specs = self._specify(port)

    def supervisor(self, report: "Reporter") -> Supervisor:
        """The supervisor that runs these processes, keeping ``cluster.json`` true."""
        supervisor = Supervisor(
            self._specs,
            self.cluster.logs,
            report=report,
            changed=lambda: self.publish(supervisor, self._ready),
        )
        return supervisor

    def publish(self, supervisor: Supervisor, ready: bool) -> None:
        """Write where everything is to be reached."""
        from os import getpid

        self._ready = ready
        pids, restarts = supervisor.pids(), supervisor.restarts()
        services = {
            spec.name: ServiceRecord(pid=pids[spec.name], url=spec.url, restarts=restarts[spec.name])
            for spec in self._specs
        }
        self.cluster.write(Record(pid=getpid(), server=self.server, ready=ready, services=services))

    def _specify(self, port: int) -> list[ServiceSpec]:
        options, data = self._options, self.cluster.data
        gates = ",".join(filter(None, (DEFAULT_GATES, options.feature_gates)))
        common = ["--log-level", options.log_level, "--feature-gates", gates]

        def client(name: str, module: str, *arguments: str) -> ServiceSpec:
            health = free_port()
            flags = ["--server", self.server, "--health-port", str(health), *arguments, *common]
            return ServiceSpec(name, module, f"http://127.0.0.1:{health}", flags)

        apiserver = ["--port", str(port), "--data", str(data), *common]
        apiserver += ["--runtime-config", options.runtime_config]
        apiserver += ["--authorization-mode", options.authorization_mode]
        if options.relaxed:
            apiserver.append("--relaxed")
        agent = ["--data", str(data), "--nodes", str(options.nodes), "--gpus", options.gpus]
        agent += ["--runtime", options.runtime]
        for driver in options.drivers:
            agent += ["--driver", driver]
        for folder in options.gpu_models:
            agent += ["--gpu-models", str(Path(folder).absolute())]
        if options.nvidia_gates:
            agent += ["--nvidia-gates", options.nvidia_gates]
        if options.consumable_shares:
            agent += ["--consumable-shares", options.consumable_shares]
        clients = {
            "controller": ("dra_controller.main", ()),
            "scheduler": ("dra_scheduler.main", ()),
            "node-agent": ("dra_node_agent.main", tuple(agent)),
        }
        for name in options.without:
            if clients.pop(name, None) is None:
                raise CommandError(f"--without {name}: choose {', '.join(clients)}", 2)
        return [
            ServiceSpec("apiserver", "dra_apiserver.main", self.server, apiserver),
            *(client(name, module, *arguments) for name, (module, arguments) in clients.items()),
        ]


class Reporter:
    """Prints a line for the user."""

    def __call__(self, line: str) -> None:
        print(line, flush=True)

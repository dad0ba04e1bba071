"""The node agent: one process that is the kubelet, the container runtime and the drivers of one node or of many."""

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import httpx
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock
from dra_shared.features import FeatureGates
from dra_shared.log import logger

from dra_node_agent.drivers.catalog import (
    Driver,
    DriverNode,
    DriverOptions,
    ensure_device_classes,
    find_driver,
)
from dra_node_agent.drivers.publisher import SLICE_HEADS
from dra_node_agent.kubelet.kubelet import Kubelet, KubeletConfig
from dra_node_agent.kubelet.node import NodeShape
from dra_node_agent.kubelet.plugins.watch import DirectoryWatcher
from dra_node_agent.kubelet.server import Endpoint, KubeletServer
from dra_node_agent.kubelet.websocket import WebSocket
from dra_node_agent.nvml.faults import FAULTS_ROUTE, FaultInjector
from dra_node_agent.runtime.base import Runtime
from dra_node_agent.runtime.container import Injected
from dra_node_agent.runtime.fake import FakeRuntime
from dra_node_agent.runtime.shell.interpreter import Process, Program
from dra_node_agent.tasks import Tasks

if TYPE_CHECKING:
    from dra_node_agent.nvml.system import SimulatedSystem

# The kernel takes 107 characters for a socket's path; drivers append about as many as this leaves.
_LONGEST_ROOT = 50
_CLASS_RETRY = 0.1
# Networks of 256 addresses in 10.128.0.0/9, clear of where services have theirs.
_SUBNETS = 1 << 15

_log = logger(__name__)


@dataclass(frozen=True)
class NodeAgentConfig:
    """What a node agent is to carry.

    Args:
        data: the directory of the cluster; nodes live below ``nodes/<name>``.
        names: the nodes.
        drivers: names of drivers or files of profiles, run on every node.
        gpus: the simulated GPUs of each node, or ``host``.
        runtime: ``fake`` or ``docker``.
        network: the engine's network for pods, with ``docker``; empty for its default.
        root: the kubelet's directory in place of the one below ``data``; for a single node.
        cdi: the CDI directory in place of the one below ``data``; for a single node.
        address: where the nodes are to be reached.
        durable: whether checkpoints are synced to the disk.
    """

    data: Path
    names: Sequence[str] = ("node-0",)
    drivers: Sequence[str] = ("gpu.nvidia.com",)
    gpus: str = "8xA100-SXM4-40GB"
    gpu_models: Sequence[Path] = ()
    nvidia_gates: str = ""
    consumable_shares: str = ""
    runtime: str = "fake"
    network: str = ""
    root: Path | None = None
    cdi: Path | None = None
    address: str = "127.0.0.1"
    features: FeatureGates = field(default_factory=FeatureGates)
    durable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


class NodeAgent:
    """Kubelets and drivers of the configured nodes.

    Raises:
        DriverConfigError: a driver is not known or its options are wrong.
        DraError: a node's checkpoint is corrupt.
    """

    def __init__(self, config: NodeAgentConfig, client: Client, clock: Clock | None = None) -> None:
        self._config = config
        self._client = client
        self._clock = clock or SystemClock()
        self._port = 10250
        data = config.data.absolute()
        self._options = DriverOptions(
            driver_root=data / "driver-root",
            machines=data / "machines",
            gpus=config.gpus,
            gpu_models=tuple(config.gpu_models),
            nvidia_gates=config.nvidia_gates,
            consumable_shares=config.consumable_shares,
        )
        self.drivers: list[Driver] = [find_driver(name, self._options) for name in config.drivers]
        self.kubelets: list[Kubelet] = []
        self._by_name: dict[str, Kubelet] = {}
        self._cdi: dict[str, Path] = {}
        selector = f"spec.nodeName={config.names[0]}" if len(config.names) == 1 else "spec.nodeName!="
        self._pods: Informer[Pod] = Informer(client, PODS, field_selector=selector, clock=self._clock)
        # Heads only: publishers must see that a slice was touched, nobody reads its devices here.
        self._slices = Informer(client, SLICE_HEADS, clock=self._clock)
        self._subnets: set[str] = set()
        self._stack = contextlib.AsyncExitStack()
        self._tasks = Tasks()
        self._driver_failed: asyncio.Future[None] | None = None
        self._drivers_ready = 0
        self._classes_made = False

    @property
    def ready(self) -> bool:
        """Whether all pods are known, the drivers' classes are made and every node's slices published."""
        return self._pods.has_synced and self._classes_made and self._drivers_ready == len(self._config.names)

    def listen_on(self, port: int) -> None:
        """Say, before the nodes start, at which port :meth:`routes` are served."""
        self._port = port

    def routes(self) -> Mapping[str, Endpoint]:
        """The kubelets' HTTP endpoints, and the one that breaks simulated GPUs."""
        return {
            **KubeletServer(self.kubelets, self._clock).routes(),
            FAULTS_ROUTE: FaultInjector(self._system).inject,
        }

    async def stream(self, socket: WebSocket) -> None:
        """The kubelets' endpoints for exec and attach, which are WebSockets."""
        await KubeletServer(self.kubelets, self._clock).stream(socket)

    def _system(self, node_name: str) -> "SimulatedSystem | None":
        """The node's simulated GPUs, if it has some."""
        return _system_of(self.drivers, node_name) if node_name in self._by_name else None

    async def __aenter__(self) -> Self:
        self._driver_failed = asyncio.get_running_loop().create_future()
        watcher = await self._stack.enter_async_context(DirectoryWatcher())
        self._stack.push_async_callback(self._tasks.close)
        try:
            for name in self._config.names:
                await self._add_node(name, watcher)
        except BaseException:
            await self._stack.aclose()
            raise
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_removed)
        self._tasks.start(self._run(self._pods.run()), name="pods")
        self._tasks.start(self._run(self._slices.run()), name="slices")
        self._tasks.start(self._when_synced(), name="sync")
        self._tasks.start(self._make_classes(), name="device classes")
        for kubelet in self.kubelets:
            self._tasks.start(self._run_drivers(kubelet), name=f"drivers of {kubelet.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def wait(self) -> None:
        """Wait until cancelled.

        Raises:
            DriverConfigError: a driver cannot run on a node.
        """
        assert self._driver_failed is not None
        await self._driver_failed

    async def _add_node(self, name: str, watcher: DirectoryWatcher) -> None:
        config = self._config
        home = config.data.absolute() / "nodes" / name
        home.mkdir(parents=True, exist_ok=True)
        short = short_path(home)
        if short != home:
            self._stack.callback(short.unlink, missing_ok=True)
        root = config.root or short / "kubelet"
        cdi = config.cdi or home / "cdi"
        cdi.mkdir(parents=True, exist_ok=True)
        self._cdi[name] = cdi
        subnet = pod_subnet(name, self._subnets)
        self._subnets.add(subnet)
        runtime = self._runtime(name, home, root, cdi, subnet)
        shape = NodeShape(
            name=name,
            address=config.address,
            port=self._port,
            runtime=f"{runtime.name}://{runtime.version}",
            labels=config.labels,
        )
        kubelet = Kubelet(
            KubeletConfig(
                root=root,
                shape=shape,
                features=config.features,
                durable=config.durable,
            ),
            self._client,
            self._clock,
            runtime,
            watcher,
        )
        self.kubelets.append(kubelet)
        self._by_name[name] = kubelet
        self._stack.push_async_callback(kubelet.close)
        await kubelet.start()

    def _runtime(self, name: str, home: Path, root: Path, cdi: Path, subnet: str) -> Runtime:
        if self._config.runtime == "docker":
            from dra_node_agent.runtime.docker import DockerRuntime

            return DockerRuntime(name, cdi, self._clock, network=self._config.network)
        return FakeRuntime(
            home / "runtime",
            cdi,
            self._clock,
            subnet=subnet,
            programs=_Programs(name, self.drivers, self._clock),
            readable=(root,),
            node_ip=self._config.address,
        )

    async def _run(self, work: Any) -> None:
        await work

    async def _when_synced(self) -> None:
        await self._pods.synced()
        for kubelet in self.kubelets:
            kubelet.sources_ready()

    async def _make_classes(self) -> None:
        while True:
            try:
                await ensure_device_classes(self._client, self.drivers)
                self._classes_made = True
                return
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info("device classes not made, trying again", error=str(error))
            await self._clock.sleep(_CLASS_RETRY)

    async def _run_drivers(self, kubelet: Kubelet) -> None:
        await kubelet.wiped()
        node = DriverNode(
            kubelet.name,
            kubelet.config.root,
            self._cdi[kubelet.name],
            self._client,
            self._clock,
            self._slices,
        )
        try:
            async with contextlib.AsyncExitStack() as stack:
                running = [await stack.enter_async_context(driver.on_node(node)) for driver in self.drivers]
                for driver in running:
                    await driver.plugin.published()
                self._drivers_ready += 1
                _log.info("drivers run", node=kubelet.name, drivers=[driver.name for driver in self.drivers])
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if self._driver_failed is not None and not self._driver_failed.done():
                self._driver_failed.set_exception(error)

    def _pod_changed(self, pod: Pod) -> None:
        kubelet = self._by_name.get(pod.spec.node_name)
        if kubelet is not None:
            kubelet.pod_changed(pod)

    def _pod_updated(self, _: Pod, pod: Pod) -> None:
        self._pod_changed(pod)

    def _pod_removed(self, pod: Pod) -> None:
        kubelet = self._by_name.get(pod.spec.node_name)
        if kubelet is not None:
            kubelet.pod_removed(pod)


@runtime_checkable
class _HasGpus(Protocol):
    def system(self, node_name: str, /) -> "SimulatedSystem | None": ...


def _system_of(drivers: Sequence[Driver], node_name: str) -> "SimulatedSystem | None":
    return next((driver.system(node_name) for driver in drivers if isinstance(driver, _HasGpus)), None)


class _Programs:
    """The programs that the node's drivers bring into containers."""

    def __init__(self, node_name: str, drivers: Sequence[Driver], clock: Clock) -> None:
        self._node_name = node_name
        self._drivers = drivers
        self._clock = clock

    def __call__(self, injected: Injected) -> Mapping[str, Program]:
        system = _system_of(self._drivers, self._node_name)

        async def nvidia_smi(process: Process) -> int:
            from dra_node_agent.nvml import smi

            if system is None or not smi.is_installed(injected.edits):
                process.err(f"{process.shell.name}: {process.argv[0]}: command not found\n")
                return 127
            output = smi.render(process.argv[1:], injected.edits, system, self._clock.now())
            process.out(output.text)
            return output.exit_code

        return {"nvidia-smi": nvidia_smi}


def pod_subnet(node_name: str, taken: Container[str]) -> str:
    """The node's network for pods: by its name, so that agents in other processes most likely have others."""
    first = int.from_bytes(hashlib.sha256(node_name.encode()).digest()[:2])
    for step in range(_SUBNETS):
        number = (first + step) % _SUBNETS
        subnet = f"10.{128 + number // 256}.{number % 256}.0/24"
        if subnet not in taken:
            return subnet
    raise OSError(f"no network is left for node {node_name}")


def short_path(directory: Path) -> Path:
    """``directory``, or a link to it that is short enough for the sockets below it."""
    if len(str(directory)) <= _LONGEST_ROOT:
        return directory
    name = hashlib.sha256(str(directory).encode()).hexdigest()[:12]
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    if len(str(base)) > _LONGEST_ROOT - 20 or not base.is_dir():
        base = Path("/tmp")
    link = base / f"dralab-{os.getuid()}-{name}"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(directory)
    if not link.is_symlink() or link.readlink() != directory:
        raise OSError(f"{link} is in the way: it should be a link to {directory}")
    return link

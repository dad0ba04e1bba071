"""The node agent: one process that is the kubelet, the container runtime and the drivers of one or many nodes."""

import asyncio
import contextlib
import functools
import hashlib
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
from dra_driverkit.files import short_path
from dra_driverkit.sliceheads import SliceHeads
from dra_driverkit.transport import LocalSockets, Sockets, UnixSockets
from dra_shared.api.core import ConfigMap
from dra_shared.api.node import Node, Taint
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONFIG_MAPS, NODES, PODS
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import Informer
from dra_shared.client.kubeconfig import Access
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock
from dra_shared.faults.board import FaultBoard
from dra_shared.features import FeatureGates
from dra_shared.files import private_folder
from dra_shared.guard import Guard
from dra_shared.lockfile import DirectoryLock
from dra_shared.log import logger

from dra_node_agent.agentnode import CDI_FOLDER, AgentNode, Place
from dra_node_agent.dcgm import DCGM_ROUTE, DcgmExporter
from dra_node_agent.drivers.base import Driver, DriverNode, DriverOptions
from dra_node_agent.drivers.catalog import ensure_device_classes, find_driver, find_machines
from dra_node_agent.drivers.placement import parse_placement
from dra_node_agent.faults.nodes import NodeFaults, node_clock
from dra_node_agent.faults.routes import FaultRoutes
from dra_node_agent.features import FeatureDiscovery
from dra_node_agent.identities import Identities
from dra_node_agent.imexdaemons import ImexDaemons
from dra_node_agent.injecteddevices import InjectedDevices
from dra_node_agent.kubelet.dra.callfaults import CallFaults
from dra_node_agent.kubelet.dra.checkpoint import CheckpointDevice
from dra_node_agent.kubelet.kubelet import Kubelet, KubeletConfig
from dra_node_agent.kubelet.node import NodeReporter, NodeShape, declared_features
from dra_node_agent.kubelet.registration.watch import DirectoryWatcher
from dra_node_agent.kubelet.server import Endpoint, KubeletServer
from dra_node_agent.kubelet.topologypolicies import NONE
from dra_node_agent.kubelet.websocket import WebSocket
from dra_node_agent.nodedrivers import NodeDrivers
from dra_node_agent.nvml.faults import FAULTS_ROUTE, FaultInjector
from dra_node_agent.nvml.imex import IMEX_ROUTE, ImexSetter
from dra_node_agent.nvml.load import LOAD_ROUTE, LoadSetter
from dra_node_agent.poddrivers import PodDrivers
from dra_node_agent.programs import NodePrograms
from dra_node_agent.runtime.base import Runtime
from dra_node_agent.runtime.catalog import RUNTIMES, RuntimeNode
from dra_node_agent.runtime.fake import EnvironmentEdits, no_edits
from dra_node_agent.runtime.images import load_images
from dra_node_agent.tasks import Tasks
from dra_node_agent.turns import Turn, Turns

if TYPE_CHECKING:
    from dra_node_agent.nvml.system import SimulatedSystem

_CLASS_RETRY = 0.1
_ROOT_CERTIFICATES = "kube-root-ca.crt"
# Networks of 256 addresses in 10.128.0.0/9, which do not overlap with those of services.
_SUBNETS = 1 << 15

_log = logger(__name__)


@dataclass(frozen=True)
class NodeAgentConfig:
    """The configuration of a node agent.

    Args:
        data: the directory of the cluster; nodes live below ``nodes/<name>``. names: the nodes. drivers: names
        of drivers or files of profiles. Each runs on every node, or on the nodes listed after an ``@``. gpus:
        the simulated GPUs of each node, or ``host``. driver_options: values of the drivers' own options, by
        option. runtime: the name of a runtime in its catalog. images: files with images' behaviour, for the
        fake runtime. strict_images: whether it refuses containers whose program nothing simulates. network:
        with the runtime ``docker``, the engine's network for pods; empty for the engine's default. host_access:
        whether containers of ``docker`` may have the host's files, devices and network. root: the kubelet's
        directory, if it is not below ``data``; only for a single node. cdi: the CDI directory, if it is not
        below ``data``; only for a single node. address: the address of the nodes. identities: credentials of
        nodes' users; see :class:`Identities`. guard: rejects exec and attach requests from web pages. labels:
        labels of each node, in addition to those that describe its devices. taints: taints that each node
        registers with. cpu, memory: the capacity of each node. most_grace: the maximum number of seconds for
        pods to stop. durable: whether checkpoints are synced to the disk. topology_policy: the kubelets'
        topology manager's policy. node_sockets: whether kubelets and drivers are connected by sockets; without
        them they call each other
            directly, and a node only has sockets that a third party's plugin needs.
    """

    data: Path
    names: Sequence[str] = ("node-0",)
    drivers: Sequence[str] = ("gpu.nvidia.com",)
    gpus: str = "8xA100-SXM4-40GB"
    gpu_models: Sequence[Path] = ()
    driver_options: Mapping[str, str] = field(default_factory=dict)
    runtime: str = "fake"
    network: str = ""
    host_access: bool = False
    root: Path | None = None
    cdi: Path | None = None
    address: str = "127.0.0.1"
    features: FeatureGates = field(default_factory=FeatureGates)
    identities: Mapping[str, Access] = field(default_factory=dict)
    guard: Guard = field(default_factory=Guard)
    durable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    cpu: str = "64"
    memory: str = "512Gi"
    most_grace: float = math.inf
    images: Sequence[Path] = ()
    strict_images: bool = False
    topology_policy: str = NONE
    node_sockets: bool = True


class NodeAgent:
    """Kubelets and drivers of the configured nodes.

    Raises:
        DriverConfigError: a driver is not known or its options are wrong.
        ImagesError: a file with images' behaviour cannot be used.
        DraError: a node's checkpoint is corrupt.
        DirectoryInUse: another node agent has a node's directory.
    """

    def __init__(self, config: NodeAgentConfig, client: Client, clock: Clock | None = None) -> None:
        self._config = config
        self._client = client
        self._clock = clock or SystemClock()
        self._port = 10250
        self._stack = contextlib.AsyncExitStack()
        self._identities = Identities(client, config.identities, self._stack)
        data = config.data.absolute()
        self._options = DriverOptions(
            driver_root=data / "driver-root",
            machines=data / "machines",
            gpus=config.gpus,
            gpu_models=tuple(config.gpu_models),
            values=config.driver_options,
        )
        self._numbers = {name: number for number, name in enumerate(config.names)}
        self._placements = [parse_placement(text, len(config.names)) for text in config.drivers]
        self.drivers: list[Driver] = [find_driver(one.name, self._options) for one in self._placements]
        self._machines = find_machines(self.drivers, self._options)
        self._images = load_images(config.images, strict=config.strict_images)
        self._features = FeatureDiscovery(self._feature_labels, client, self._clock)
        self._started = self._clock.now()
        self.kubelets: list[Kubelet] = []
        self._nodes: dict[str, AgentNode] = {}
        self._faults = FaultBoard(self._clock, NodeFaults(self._nodes.get, self._system).strikes())
        selector = f"spec.nodeName={config.names[0]}" if len(config.names) == 1 else "spec.nodeName!="
        # Watch only the node's own pods if there is a single node. An agent with many nodes has one watch for
        # all pods.
        watcher = self._identities.kubelet(config.names[0]) if len(config.names) == 1 else client
        self._pods: Informer[Pod] = Informer(watcher, PODS, field_selector=selector, clock=self._clock)
        # Watch metadata only: publishers need to see that a slice was changed, but not its devices.
        self._slices = SliceHeads(client, clock=self._clock)
        self._own_nodes: Informer[Node] = Informer(
            watcher,
            NODES,
            field_selector=f"metadata.name={config.names[0]}" if len(config.names) == 1 else None,
            clock=self._clock,
        )
        # This ConfigMap is in every pod's token volume. One watch saves a request for each pod.
        self._root_certificates = Informer(
            client, CONFIG_MAPS, field_selector=f"metadata.name={_ROOT_CERTIFICATES}", clock=self._clock
        )
        self._sockets: Sockets = UnixSockets() if config.node_sockets else LocalSockets()
        self._subnets: set[str] = set()
        self._tasks = Tasks()
        self._driver_failed: asyncio.Future[None] | None = None
        self._drivers_ready = 0
        self._starts = Turns()
        self._classes_made = False

    @property
    def ready(self) -> bool:
        """True if pods are synced, the drivers' classes exist and every node's slices are published."""
        return self._pods.has_synced and self._classes_made and self._drivers_ready == len(self._config.names)

    def listen_on(self, port: int) -> None:
        """Set the port at which :meth:`routes` are served. Called before the nodes start."""
        self._port = port

    def routes(self) -> Mapping[str, Endpoint]:
        """Return the kubelets' HTTP endpoints, and those that measure, break and load simulated GPUs and nodes."""
        return {
            **FaultRoutes(self._faults).routes(),
            **KubeletServer(self.kubelets, self._clock).routes(),
            DCGM_ROUTE: DcgmExporter(self.kubelets, self._system).metrics,
            FAULTS_ROUTE: FaultInjector(self._system).inject,
            IMEX_ROUTE: ImexSetter(self._system).set,
            LOAD_ROUTE: LoadSetter(self._system).set,
        }

    async def stream(self, socket: WebSocket) -> None:
        """Serve exec and attach, the kubelets' WebSocket endpoints."""
        await KubeletServer(self.kubelets, self._clock, self._config.guard).stream(socket)

    def _feature_labels(self, node_name: str) -> dict[str, str]:
        return {} if self._machines is None else self._machines.labels(node_name, self._started)

    def _system(self, node_name: str) -> "SimulatedSystem | None":
        """Return the node's simulated GPUs, or None."""
        if self._machines is None or node_name not in self._nodes:
            return None
        return self._machines.system(node_name)

    async def __aenter__(self) -> Self:
        self._driver_failed = asyncio.get_running_loop().create_future()
        watcher = await self._stack.enter_async_context(DirectoryWatcher())
        self._stack.push_async_callback(self._tasks.close)
        self._stack.push_async_callback(self._faults.clear)
        # Start before the nodes: a driver that finds its slices in the informer need not request them.
        self._tasks.start(self._run(self._slices.run()), name="slices")
        self._tasks.start(self._run(self._own_nodes.run()), name="nodes")
        try:
            # Volumes of pods and sockets of drivers are below the kubelet's directory.
            private_folder(self._config.data.absolute() / "nodes")
            for name in self._config.names:
                await self._add_node(name, watcher)
        except BaseException:
            await self._stack.aclose()
            raise
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_removed)
        self._tasks.start(self._run(self._pods.run()), name="pods")
        self._root_certificates.add_handler(self._certificates_published)
        self._tasks.start(self._run(self._root_certificates.run()), name="root certificates")
        self._tasks.start(self._mark_synced(), name="sync")
        if self._machines is not None:
            self._tasks.start(self._features.run(self._reporters), name="feature discovery")
        self._tasks.start(self._make_classes(), name="device classes")
        for node in self._nodes.values():
            self._tasks.start(self._run_drivers(node), name=f"drivers of {node.name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def wait(self) -> None:
        """Run until cancelled.

        Raises:
            DriverConfigError: a driver cannot run on a node.
        """
        assert self._driver_failed is not None
        await self._driver_failed

    async def _add_node(self, name: str, watcher: DirectoryWatcher) -> None:
        config = self._config
        home = config.data.absolute() / "nodes" / name
        self._stack.callback(DirectoryLock(home, "node agent").release)
        if config.root is not None:
            self._stack.callback(DirectoryLock(config.root, "node agent").release)
        short = short_path(home)
        if short != home:
            self._stack.callback(short.unlink, missing_ok=True)
        root = config.root or short / "kubelet"
        cdi = config.cdi or home / CDI_FOLDER
        cdi.mkdir(parents=True, exist_ok=True)
        subnet = pod_subnet(name, self._subnets)
        self._subnets.add(subnet)
        node = self._nodes[name] = AgentNode(
            name,
            home,
            root,
            cdi,
            subnet,
            CallFaults(self._clock),
            node_clock(self._clock),
            functools.partial(self._new_kubelet, watcher),
            self.kubelets,
            self._feed,
            self._client,
        )
        self._stack.push_async_callback(node.close)
        await node.start()

    def _new_kubelet(self, watcher: DirectoryWatcher, node: AgentNode) -> Kubelet:
        config, name = self._config, node.name
        runtime = self._runtime(node)
        shape = NodeShape(
            name=name,
            address=config.address,
            port=self._port,
            runtime=f"{runtime.name}://{runtime.version}",
            cpu=config.cpu,
            memory=config.memory,
            labels={**self._features.find(name), **config.labels},
            taints=config.taints,
            version=config.features.version,
            boot_id=node.boot_id,
            declared_features=declared_features(config.features),
        )
        return Kubelet(
            KubeletConfig(
                root=node.root,
                shape=shape,
                features=config.features,
                durable=config.durable,
                most_grace=config.most_grace,
                topology_policy=config.topology_policy,
                open_sockets=config.node_sockets,
            ),
            self._identities.kubelet(name),
            node.clock,
            runtime,
            watcher,
            self._root_certificates.store,
            node.calls,
            self._sockets,
            self._own_nodes,
            self._identities.heartbeats(name),
        )

    def _feed(self, kubelet: Kubelet) -> None:
        """Pass the pods that the watch knows to a restarted kubelet."""
        for pod in self._pods.store.list():
            if pod.spec.node_name == kubelet.name:
                kubelet.handle_pod(pod)
        kubelet.mark_synced()

    def _reporters(self) -> list[NodeReporter]:
        return [kubelet.reporter for kubelet in self.kubelets]

    def _runtime(self, place: Place) -> Runtime:
        config, name = self._config, place.name
        node = RuntimeNode(
            name=name,
            home=place.home,
            kubelet_root=place.root,
            cdi_directory=place.cdi,
            clock=self._clock,
            address=config.address,
            subnet=place.subnet,
            programs=NodePrograms(
                name,
                self._machines,
                self._clock,
                self._pod_drivers(name),
                ImexDaemons(lambda: self._driver_node(name)),
                InjectedDevices(
                    functools.partial(self._injected_devices, name), lambda: self._driver_node(name)
                ),
            ),
            images=self._images,
            environment_edits=self._environment_edits(name),
            network=config.network,
            host_access=config.host_access,
        )
        return RUNTIMES[config.runtime](node)

    def _injected_devices(
        self, name: str, cdi_device_ids: Sequence[str]
    ) -> Sequence[tuple[str, CheckpointDevice]]:
        kubelet = self._nodes[name].kubelet
        return [] if kubelet is None else kubelet.dra.containers.injected_devices(cdi_device_ids)

    async def _run(self, work: Any) -> None:
        await work

    async def _mark_synced(self) -> None:
        await self._pods.wait_for_sync()
        for kubelet in self.kubelets:
            kubelet.mark_synced()

    async def _make_classes(self) -> None:
        while True:
            try:
                await ensure_device_classes(self._client, self.drivers)
                self._classes_made = True
                return
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info("device classes not made, trying again", error=str(error))
            await self._clock.sleep(_CLASS_RETRY)

    async def _run_drivers(self, node: AgentNode) -> None:
        assert node.kubelet is not None
        await node.kubelet.wait_until_wiped()
        turn = await self._starts.next()
        ready = functools.partial(self._finish_drivers, node, turn)
        node.drivers = NodeDrivers(self._drivers_of(node.name), self._driver_node(node.name), ready)
        try:
            await node.drivers.run()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if self._driver_failed is not None and not self._driver_failed.done():
                self._driver_failed.set_exception(error)
        finally:
            turn.end()

    def _finish_drivers(self, node: AgentNode, turn: Turn) -> None:
        turn.end()
        self._drivers_ready += 1
        if node.remains.has_devices:
            self._tasks.start(self._end_fault(node), name=f"the end of a fault of {node.name}")

    async def _end_fault(self, node: AgentNode) -> None:
        """Undo a fault of devices during which the previous agent was killed."""
        with node.remains.devices():
            await node.mark_repaired()

    def _certificates_published(self, _: ConfigMap) -> None:
        for kubelet in self.kubelets:
            kubelet.retry()

    def _driver_node(self, name: str) -> DriverNode:
        node = self._nodes[name]
        version = self._config.features.version
        client = self._identities.drivers(name)
        return DriverNode(
            name,
            node.root,
            node.cdi,
            client,
            self._clock,
            self._slices,
            version,
            self._sockets,
            self._client,
            self._config.durable,
        )

    def _pod_drivers(self, name: str) -> PodDrivers:
        configured = [driver.name for driver in self._drivers_of(name)]
        machines = self._machines is not None
        return PodDrivers(self._options, configured, machines, lambda: self._driver_node(name))

    def _drivers_of(self, name: str) -> list[Driver]:
        number = self._numbers[name]
        return [
            driver
            for driver, placement in zip(self.drivers, self._placements, strict=True)
            if placement.includes(number)
        ]

    def _environment_edits(self, name: str) -> EnvironmentEdits:
        """Return the edits of the vendor's container runtime if a device plugin may pass devices without CDI."""
        machines, drivers = self._machines, self._drivers_of(name)
        if machines is None or (drivers and not any(driver.by_environment for driver in drivers)):
            return no_edits
        return functools.partial(machines.environment_edits, name)

    def _pod_changed(self, pod: Pod) -> None:
        node = self._nodes.get(pod.spec.node_name)
        if node is not None and node.kubelet is not None:
            node.kubelet.handle_pod(pod)

    def _pod_updated(self, _: Pod, pod: Pod) -> None:
        self._pod_changed(pod)

    def _pod_removed(self, pod: Pod) -> None:
        node = self._nodes.get(pod.spec.node_name)
        if node is not None and node.kubelet is not None:
            node.kubelet.handle_deletion(pod)


def pod_subnet(node_name: str, taken: Container[str]) -> str:
    """Return the pod network of the node.

    The network is derived from the node's name, so that agents in other processes probably use different ones.
    """
    first = int.from_bytes(hashlib.sha256(node_name.encode()).digest()[:2])
    for step in range(_SUBNETS):
        number = (first + step) % _SUBNETS
        subnet = f"10.{128 + number // 256}.{number % 256}.0/24"
        if subnet not in taken:
            return subnet
    raise OSError(f"no network is left for node {node_name}")

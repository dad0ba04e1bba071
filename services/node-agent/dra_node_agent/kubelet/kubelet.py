"""One node's kubelet (pkg/kubelet/kubelet.go): it connects the parts and forwards events of watches and runtimes.

ResourceSlices that exist when the kubelet starts are deleted before drivers may register, because their drivers
may not run any more.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
from dra_driverkit.flags import Flag
from dra_driverkit.proto import podresources_v1_pb2 as pb
from dra_driverkit.transport import Sockets
from dra_shared.api.container import Container
from dra_shared.api.core import ConfigMap
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.client.events import Recorder
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.client.store import Store
from dra_shared.clock import Clock, wait_for
from dra_shared.features import FeatureGates
from dra_shared.log import logger
from dra_shared.quantity import Quantity

from dra_node_agent.kubelet.admission import NODE_AFFINITY, Rejected, admit
from dra_node_agent.kubelet.cgroups import Cgroups
from dra_node_agent.kubelet.containers import ContainerStarter
from dra_node_agent.kubelet.devicemanager.checkpoint import CheckpointError
from dra_node_agent.kubelet.devicemanager.manager import DIRECTORY, DeviceManager, Surroundings
from dra_node_agent.kubelet.devicemanager.plugin.server import SOCKET, RegistrationServer
from dra_node_agent.kubelet.devicemanager.topologyhints import Hints, container_hints
from dra_node_agent.kubelet.dra.callfaults import CallFaults
from dra_node_agent.kubelet.dra.manager import RECONCILE_PERIOD, DraManager
from dra_node_agent.kubelet.environment import ApiSources, Sources
from dra_node_agent.kubelet.node import NodeReporter, NodeShape
from dra_node_agent.kubelet.podresources import PodResourcesServer
from dra_node_agent.kubelet.registration.registrar import DEVICE_TYPE, DRA_TYPE, PluginHandler, Registrar
from dra_node_agent.kubelet.registration.watch import DirectoryWatcher
from dra_node_agent.kubelet.resourcemetrics import NodeMeter
from dra_node_agent.kubelet.statuses import StatusReporter
from dra_node_agent.kubelet.topologymanager import TopologyManager
from dra_node_agent.kubelet.topologypolicies import NONE
from dra_node_agent.kubelet.volumes import VolumeManager
from dra_node_agent.kubelet.worker import PodWorker, WorkerContext
from dra_node_agent.runtime.base import ContainerRecord, Runtime, RuntimeFailure, State
from dra_node_agent.tasks import Tasks

# The interval, in seconds, for checking whether deleted pods can be removed.
_LEAVING = 1.0

_log = logger(__name__)


@dataclass(frozen=True)
class KubeletConfig:
    """A kubelet's directories, and the properties of its node.

    Args:
        durable: whether checkpoints are synced to the disk.
        topology_policy: the topology manager's policy.
        numa_nodes: the NUMA nodes of the machine.
        most_grace: the maximum number of seconds for pods to stop.
        open_sockets: whether the kubelet opens its sockets before a client needs them. Otherwise PodResources has
            no socket, and the socket for device plugins appears after a plugin has created its own.
    """

    root: Path
    shape: NodeShape
    features: FeatureGates
    durable: bool = True
    topology_policy: str = NONE
    numa_nodes: Sequence[int] = (0, 1)
    most_grace: float = math.inf
    open_sockets: bool = True

    @property
    def device_plugins(self) -> Path:
        """The directory with the sockets of device plugins and the kubelet."""
        return self.root / DIRECTORY

    @property
    def plugins_registry(self) -> Path:
        """The directory with the plugins' registration sockets."""
        return self.root / "plugins_registry"


class Kubelet:
    """Runs the pods that are bound to one node.

    Args:
        config_maps: config maps that many pods use.
        nodes: a watch that includes this node.
        heartbeats: a separate client for the Node and its Lease, because the other one may be busy.

    Raises:
        DraError: the DRA manager's checkpoint is corrupt.
    """

    def __init__(
        self,
        config: KubeletConfig,
        client: Client,
        clock: Clock,
        runtime: Runtime,
        watcher: DirectoryWatcher,
        config_maps: Store[ConfigMap] | None = None,
        faults: CallFaults | None = None,
        sockets: Sockets | None = None,
        nodes: Informer[Node] | None = None,
        heartbeats: Client | None = None,
    ) -> None:
        for folder in (config.root, config.plugins_registry, config.root / "plugins"):
            folder.mkdir(parents=True, exist_ok=True)
        self.config = config
        self.name = config.shape.name
        self._client = client
        self._clock = clock
        self.runtime = runtime
        self.meter = NodeMeter(runtime)
        self._recorder = Recorder(client, "kubelet", host=self.name, clock=clock)
        self._sockets = sockets
        self._watcher = watcher
        self.dra = self._new_dra(faults)
        self.devices = DeviceManager(
            config.device_plugins, clock, self._surroundings(), durable=config.durable
        )
        self._topology = TopologyManager(config.topology_policy, config.numa_nodes, self._topology_hints)
        self._device_plugins = RegistrationServer(str(config.device_plugins / SOCKET), self.devices, clock)
        self._registrar = self._new_registrar(watcher)
        sources = ApiSources(client, config_maps)
        address = config.shape.address
        self._volumes = VolumeManager(config.root / "pods", sources, self.name, address)
        self.cgroups = Cgroups(config.features, Quantity.parse(config.shape.memory).value())
        self._starter = self._new_starter(sources)
        self.reporter = self._new_reporter(heartbeats or client, nodes)
        self._context = self._new_context()
        self._workers: dict[str, PodWorker] = {}
        self._left = Flag()
        self._tasks = Tasks()
        self._ready = False
        self._sources_ready = False
        self._wiped = Flag()
        self._reconcile_now = Flag()
        self._pod_resources = PodResourcesServer(config.root, self.dra, self.devices, self.active_pods)
        runtime.on_change(self._container_changed)

    def _new_context(self) -> WorkerContext:
        return WorkerContext(
            node_name=self.name,
            host_ip=self.config.shape.address,
            runtime=self.runtime,
            dra=self.dra,
            devices=self.devices,
            volumes=self._volumes,
            starter=self._starter,
            cgroups=self.cgroups,
            recorder=self._recorder,
            clock=self._clock,
            admission=self._admit,
            shows_health=self.config.features.enabled("ResourceHealthStatus"),
            most_grace=self.config.most_grace,
        )

    def _new_dra(self, faults: CallFaults | None) -> DraManager:
        config = self.config
        return DraManager(
            config.root,
            self._client,
            self._clock,
            config.features,
            node_name=self.name,
            on_health_change=self._poke_pods,
            on_register=self._driver_registered,
            durable=config.durable,
            faults=faults,
            sockets=self._sockets,
        )

    def _new_reporter(self, client: Client, nodes: Informer[Node] | None) -> NodeReporter:
        shape, clock, recorder = self.config.shape, self._clock, self._recorder
        return NodeReporter(shape, client, clock, recorder, lambda: self._ready, self.devices, nodes)

    def _new_starter(self, sources: Sources) -> ContainerStarter:
        return ContainerStarter(
            self.runtime,
            self.dra,
            self.devices,
            sources,
            self._clock,
            node_name=self.name,
            host_ip=self.config.shape.address,
            cgroups=self.cgroups,
        )

    def _new_registrar(self, watcher: DirectoryWatcher) -> Registrar:
        handlers: dict[str, PluginHandler] = {
            DRA_TYPE: self.dra.connections,
            DEVICE_TYPE: self._device_plugins.plugin_handler(),
        }
        return Registrar(self.config.plugins_registry, watcher, handlers, self._clock, self._sockets)

    def _surroundings(self) -> Surroundings:
        """Return the kubelet's state and callbacks for the device manager."""
        features = self.config.features
        return Surroundings(
            active_pods=lambda: [pod.metadata.uid for pod in self.active_pods()],
            sources_ready=lambda: self._sources_ready,
            on_health_change=self._poke_pods if features.enabled("ResourceHealthStatus") else None,
            on_devices=self._devices_changed,
            affinity=lambda pod_uid, container: self._topology.affinity(pod_uid, container),
            extended_resources=features.enabled("DRAExtendedResource"),
        )

    async def start(self) -> None:
        """Load the state of the previous kubelet, and start to register the node and its drivers."""
        await self.runtime.start()
        if self.config.open_sockets:
            await self._pod_resources.__aenter__()
        self._start_devices()
        await self._device_plugins.start(None if self.config.open_sockets else self._watcher)
        self._ready = True
        self._tasks.start(self.reporter.run(), name=f"node {self.name}")
        self._tasks.start(self._register_drivers(), name=f"registration on {self.name}")

    async def wait_until_wiped(self) -> None:
        """Wait until ResourceSlices from before the kubelet's start are deleted, so that drivers may register."""
        await self._wiped.wait()

    async def close(self) -> None:
        """End all work. Containers keep running if the runtime supports that."""
        await self._tasks.close()
        await self._pod_resources.__aexit__(None, None, None)
        await self._registrar.close()
        await self._device_plugins.stop()
        await self._starter.tasks.close()
        await self.dra.close()
        await self.runtime.close()
        try:
            async with asyncio.timeout(1):
                await self._recorder.flush()
        except (TimeoutError, httpx.HTTPError):
            _log.debug("events dropped at the end", node=self.name)

    # Events of the watch

    def handle_pod(self, pod: Pod) -> None:
        """Handle a pod of this node that was added or changed."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.update(pod)
            return
        statuses = StatusReporter(self._client, self._clock, pod)
        self._workers[pod.metadata.uid] = worker = PodWorker(self._context, pod, statuses)
        self._tasks.start(self._run_worker(worker), name=f"pod {pod.key}")

    def handle_deletion(self, pod: Pod) -> None:
        """Handle the deletion of a pod's object."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.mark_removed()

    def retry(self) -> None:
        """Make waiting pods retry at once, because something that they may be waiting for is now available."""
        for worker in self._workers.values():
            if not worker.is_settled:
                worker.poke()

    def mark_synced(self) -> None:
        """Clean up everything that belongs to unknown pods, because all pods of this node are known."""
        self._tasks.start(self._clean_up_forever(), name=f"housekeeping of {self.name}")
        self._tasks.start(self._wait_for_admissions(), name=f"first pods of {self.name}")

    # Queries

    def pods(self) -> Sequence[Pod]:
        """Return the pods of this node."""
        return [worker.pod for worker in self._workers.values()]

    def problems(self) -> Mapping[str, str]:
        """Return the error of each pod, by its key, that the kubelet could not bring to its desired state."""
        return {worker.pod.key: worker.problem for worker in self._workers.values() if worker.problem}

    def active_pods(self) -> Iterable[Pod]:
        """Return the pods that run or are about to run, for which something may be prepared."""
        return [worker.pod for worker in self._workers.values() if not worker.is_terminated]

    def pod_resources(self) -> "Sequence[pb.PodResources]":
        """Return the devices of the pods' containers for monitoring agents."""
        return self._pod_resources.list_pods()

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """Return the pod with that name if it is on this node, or None."""
        for worker in self._workers.values():
            meta = worker.pod.metadata
            if meta.name == name and meta.namespace == namespace:
                return worker.pod
        return None

    def records(self, pod_uid: str) -> Sequence[ContainerRecord]:
        """Return the pod's containers."""
        return self._starter.records(pod_uid)

    async def _run_worker(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        finally:
            if self._workers.get(worker.pod.metadata.uid) is worker:
                del self._workers[worker.pod.metadata.uid]
            self._left.set()

    async def _register_drivers(self) -> None:
        # A driver's slices are owned by the Node. As upstream, no driver registers before the Node exists.
        await self.reporter.synced.wait()
        # Slices from before the kubelet's start mislead the scheduler, because their drivers may not run any
        # more.
        await self.dra.connections.wipe_all()
        self._registrar.start()
        self._wiped.set()

    async def _clean_up_forever(self) -> None:
        while True:
            self._reconcile_now.clear()
            await self._remove_orphans()
            active = [pod.metadata.uid for pod in self.active_pods()]
            self._topology.keep(active)
            await self.dra.reconcile(active)
            await wait_for(self._reconcile_now.wait(), RECONCILE_PERIOD, self._clock)

    async def _remove_orphans(self) -> None:
        """Remove containers and directories of pods without a worker (HandlePodCleanups, cleanupOrphanedPodDirs).

        A pod that was deleted while the kubelet was down has no worker. It may have volumes without
        containers.
        """
        found = {*self.runtime.pods(), *self._volumes.pods()}
        for uid in sorted(found - self._workers.keys()):
            _log.info("removing what is left of a deleted pod", node=self.name, pod_uid=uid)
            try:
                await self.runtime.remove_sandbox(uid)
            except RuntimeFailure as error:
                # Keep the volumes, because the pod's containers may still use them.
                _log.warning("orphaned pod not removed, will retry", pod_uid=uid, error=str(error))
                continue
            await self._volumes.tear_down(uid)

    def _start_devices(self) -> None:
        containers = self.runtime.containers()
        running = ((record.pod_uid, record.name) for record in containers if record.state is State.RUNNING)
        try:
            self.devices.start(frozenset(running))
        except CheckpointError as error:
            # As upstream, continue without the checkpoint. A new one is written, but the record of devices in
            # use may be lost.
            _log.error("device plugins' checkpoint not read", node=self.name, error=str(error))

    async def _wait_for_admissions(self) -> None:
        """Wait until each existing pod is admitted. Before that, it is not known which devices are free."""
        for worker in list(self._workers.values()):
            await worker.decided.wait()
        self._sources_ready = True

    async def _admit(self, pod: Pod) -> None:
        await self.reporter.synced.wait()
        await self._wait_for_removals(pod.metadata.uid)
        await self._topology.admit(pod, self.devices.allocate)
        others = [
            worker.pod
            for worker in self._workers.values()
            if worker.is_admitted and worker.pod.metadata.uid != pod.metadata.uid and not worker.is_terminated
        ]
        claims = self.config.features.enabled("DRANodeAllocatableResources")
        try:
            admit(pod, self._node_for(pod), others, claims=claims)
        except Rejected as error:
            if error.reason != NODE_AFFINITY:
                raise
            # Read the node again, because it may just have got the label, as nodes of compute domains do.
            await self.reporter.refresh()
            admit(pod, self._node_for(pod), others, claims=claims)

    async def _wait_for_removals(self, uid: str) -> None:
        """Wait until deleted pods are removed, because their resources are then free for this one.

        A pod that cannot be removed now, because a driver does not answer, is not waited for.
        """
        own = self._workers.get(uid)
        while (own is None or not own.object_deleted) and any(
            worker.object_deleted and worker.is_settled for worker in self._workers.values()
        ):
            self._left.clear()
            await wait_for(self._left.wait(), _LEAVING, self._clock)

    def _topology_hints(self, pod: Pod, container: Container) -> Hints:
        self.devices.update_allocated_devices()
        return container_hints(self.devices.state, self.config.numa_nodes, pod, container)

    def _node_for(self, pod: Pod) -> Node:
        """Return the node for the pod's admission, including what is already allocated to the pod."""
        node = self.reporter.node
        allocatable = {
            name: Quantity.parse(amount).value()
            for name, amount in node.status.allocatable.items()
            if self.devices.state.is_device_plugin_resource(name)
        }
        raised = self.devices.update_plugin_resources(pod.metadata.uid, allocatable)
        if raised == allocatable:
            return node
        changed = {**node.status.allocatable, **{name: str(number) for name, number in raised.items()}}
        status = msgspec.structs.replace(node.status, allocatable=changed)
        return msgspec.structs.replace(node, status=status)

    def _devices_changed(self) -> None:
        self.reporter.notify_change()
        self.retry()

    def _container_changed(self, record: ContainerRecord) -> None:
        worker = self._workers.get(record.pod_uid)
        if worker is not None:
            worker.poke()

    def _driver_registered(self) -> None:
        # Retry waiting pods, so that those that only waited for this driver continue at once.
        self._reconcile_now.set()
        self.retry()

    def _poke_pods(self, uids: set[str]) -> None:
        for uid in uids:
            worker = self._workers.get(uid)
            if worker is not None:
                worker.poke()

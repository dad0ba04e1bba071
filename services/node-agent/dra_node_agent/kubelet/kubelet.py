"""One node's kubelet (pkg/kubelet/kubelet.go): it connects the parts, and passes on what watches and runtimes report.

Slices of the node's last life are deleted before drivers may register: their drivers may never return.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from dra_shared.api.core import ConfigMap
from dra_shared.api.pod import Pod
from dra_shared.client.events import Recorder
from dra_shared.client.rest import Client
from dra_shared.client.store import Store
from dra_shared.clock import Clock, wait_for
from dra_shared.features import FeatureGates
from dra_shared.log import logger

from dra_node_agent.kubelet.admission import admit
from dra_node_agent.kubelet.containers import ContainerStarter
from dra_node_agent.kubelet.dra.manager import RECONCILE_PERIOD, DraManager
from dra_node_agent.kubelet.environment import ApiSources
from dra_node_agent.kubelet.node import NodeReporter, NodeShape
from dra_node_agent.kubelet.podresources import PodResourcesServer
from dra_node_agent.kubelet.registration.registrar import DRA_TYPE, Registrar
from dra_node_agent.kubelet.registration.watch import DirectoryWatcher
from dra_node_agent.kubelet.resourcemetrics import NodeMeter
from dra_node_agent.kubelet.statuses import StatusReporter
from dra_node_agent.kubelet.volumes import VolumeManager
from dra_node_agent.kubelet.worker import PodWorker, WorkerContext
from dra_node_agent.runtime.base import ContainerRecord, Runtime
from dra_node_agent.tasks import Tasks

_log = logger(__name__)


@dataclass(frozen=True)
class KubeletConfig:
    """Where a kubelet keeps its files, and what its node is like. ``durable`` syncs checkpoints to the disk."""

    root: Path
    shape: NodeShape
    features: FeatureGates
    durable: bool = True

    @property
    def plugins_registry(self) -> Path:
        """Where plugins put their registration sockets."""
        return self.root / "plugins_registry"


class Kubelet:
    """Runs the pods that are bound to one node.

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
        self.dra = DraManager(
            config.root,
            client,
            clock,
            config.features,
            node_name=self.name,
            on_health_change=self._poke_pods,
            on_register=self._driver_registered,
            durable=config.durable,
        )
        self._registrar = Registrar(config.plugins_registry, watcher, {DRA_TYPE: self.dra.connections}, clock)
        sources = ApiSources(client, config_maps)
        address = config.shape.address
        self._volumes = VolumeManager(config.root / "pods", sources, self.name, address)
        self._starter = ContainerStarter(
            runtime, self.dra, sources, clock, node_name=self.name, host_ip=address
        )
        self.reporter = NodeReporter(config.shape, client, clock, self._recorder, lambda: self._ready)
        self._context = WorkerContext(
            node_name=self.name,
            host_ip=address,
            runtime=runtime,
            dra=self.dra,
            volumes=self._volumes,
            starter=self._starter,
            recorder=self._recorder,
            clock=clock,
            admission=self._admit,
        )
        self._workers: dict[str, PodWorker] = {}
        self._tasks = Tasks()
        self._ready = False
        self._wiped = asyncio.Event()
        self._reconcile_now = asyncio.Event()
        self._pod_resources = PodResourcesServer(config.root, self.dra, self.active_pods)
        runtime.on_change(self._container_changed)

    async def start(self) -> None:
        """Take up what the node ran before, and begin to register it and its drivers."""
        await self.runtime.start()
        await self._pod_resources.__aenter__()
        self._ready = True
        self._tasks.start(self.reporter.run(), name=f"node {self.name}")
        self._tasks.start(self._register_drivers(), name=f"registration on {self.name}")

    async def wiped(self) -> None:
        """Wait until the slices of the node's last life are deleted and drivers may register."""
        await self._wiped.wait()

    async def close(self) -> None:
        """End all work; containers keep running as far as the runtime can."""
        await self._tasks.close()
        await self._pod_resources.__aexit__(None, None, None)
        await self._registrar.close()
        await self._starter.tasks.close()
        await self.dra.close()
        await self.runtime.close()
        try:
            async with asyncio.timeout(1):
                await self._recorder.flush()
        except (TimeoutError, httpx.HTTPError):
            _log.debug("events dropped at the end", node=self.name)

    # What the watch tells

    def pod_changed(self, pod: Pod) -> None:
        """A pod of this node appeared or changed."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.update(pod)
            return
        statuses = StatusReporter(self._client, self._clock, pod)
        self._workers[pod.metadata.uid] = worker = PodWorker(self._context, pod, statuses)
        self._tasks.start(self._look_after(worker), name=f"pod {pod.key}")

    def pod_removed(self, pod: Pod) -> None:
        """A pod of this node is gone."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.removed()

    def retry(self) -> None:
        """Something that pods may wait for is there: those that wait try again at once."""
        for worker in self._workers.values():
            if not worker.settled:
                worker.poke()

    def sources_ready(self) -> None:
        """All pods of this node are known: whatever belongs to others can go."""
        self._tasks.start(self._housekeeping(), name=f"housekeeping of {self.name}")

    # What others ask

    def pods(self) -> Sequence[Pod]:
        """The pods of this node."""
        return [worker.pod for worker in self._workers.values()]

    def active_pods(self) -> Iterable[Pod]:
        """The pods that run or are about to, in which something may be prepared."""
        return [worker.pod for worker in self._workers.values() if not worker.terminated]

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name, if it is on this node."""
        for worker in self._workers.values():
            meta = worker.pod.metadata
            if meta.name == name and meta.namespace == namespace:
                return worker.pod
        return None

    def records(self, pod_uid: str) -> Sequence[ContainerRecord]:
        """The pod's containers."""
        return self._starter.records(pod_uid)

    async def _look_after(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        finally:
            if self._workers.get(worker.pod.metadata.uid) is worker:
                del self._workers[worker.pod.metadata.uid]

    async def _register_drivers(self) -> None:
        # Slices of the node's last life mislead the scheduler: their drivers may never come back.
        await self.dra.connections.wipe_all()
        self._registrar.start()
        self._wiped.set()

    async def _housekeeping(self) -> None:
        known = {pod.metadata.uid for pod in self.pods()}
        for uid in {record.pod_uid for record in self.runtime.containers()} - known:
            _log.info("removing the containers of a pod that is gone", node=self.name, pod_uid=uid)
            await self.runtime.remove_sandbox(uid)
            await self._volumes.tear_down(uid)
        while True:
            self._reconcile_now.clear()
            await self.dra.reconcile([pod.metadata.uid for pod in self.active_pods()])
            await wait_for(self._reconcile_now.wait(), RECONCILE_PERIOD, self._clock)

    def _admit(self, pod: Pod) -> None:
        others = (
            worker.pod
            for worker in self._workers.values()
            if worker.admitted and worker.pod.metadata.uid != pod.metadata.uid and not worker.terminated
        )
        admit(pod, self.reporter.node, others)

    def _container_changed(self, record: ContainerRecord) -> None:
        worker = self._workers.get(record.pod_uid)
        if worker is not None:
            worker.poke()

    def _driver_registered(self) -> None:
        # What only waited for this driver goes on at once.
        self._reconcile_now.set()
        self.retry()

    def _poke_pods(self, uids: set[str]) -> None:
        for uid in uids:
            worker = self._workers.get(uid)
            if worker is not None:
                worker.poke()

"""The device manager: devices of plugins for the containers of one node (pkg/kubelet/cm/devicemanager/manager.go).

Error texts reach users through the pod's status. The gRPC side is in :mod:`.plugin`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from dra_shared.api.container import Container, ContainerStatus, ResourceHealth, ResourceStatus
from dra_shared.api.pod import Pod, PodStatus
from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.quantity import Quantity

from dra_node_agent.kubelet.checkpointmanager import CheckpointStore
from dra_node_agent.kubelet.devicemanager.allocation import DeviceChooser
from dra_node_agent.kubelet.devicemanager.checkpoint import (
    CHECKPOINT_FILE,
    CheckpointData,
    CheckpointError,
    decode,
    encode,
)
from dra_node_agent.kubelet.devicemanager.endpoint import Endpoint
from dra_node_agent.kubelet.devicemanager.metrics import ALLOCATIONS
from dra_node_agent.kubelet.devicemanager.poddevices import Allocation, ReusableDevices
from dra_node_agent.kubelet.devicemanager.state import DeviceState, NumaAffinity, no_affinity
from dra_node_agent.kubelet.devicemanager.types import (
    HEALTHY,
    NODE_WITHOUT_TOPOLOGY,
    Device,
    DeviceError,
    DevicePlugin,
    DeviceRunContainerOptions,
)
from dra_node_agent.kubelet.restarts import is_sidecar

DIRECTORY = "device-plugins"

_log = logger(__name__)

Instances = dict[str, dict[str, Device]]
"""Devices by resource and id."""


@dataclass(frozen=True)
class Capacity:
    """The node's devices by resource. ``deleted`` are resources whose plugin did not return in time."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    deleted: Collection[str]


@dataclass(frozen=True)
class Surroundings:
    """The kubelet's state and callbacks for the manager.

    Args:
        active_pods: UIDs of the pods that may hold devices. sources_ready: whether all pods of the node are
        known. affinity: the NUMA nodes for a container. on_health_change: called with the UIDs of pods whose
        devices changed health. on_devices: called when a plugin's devices have changed or it has disconnected.
        extended_resources: whether DRA may serve extended resources.
    """

    active_pods: Callable[[], Iterable[str]]
    sources_ready: Callable[[], bool]
    affinity: NumaAffinity = no_affinity
    on_health_change: Callable[[set[str]], None] | None = None
    on_devices: Callable[[], None] | None = None
    extended_resources: bool = True


class DeviceManager:
    """The devices of one node. ``directory`` is the device plugin directory."""

    def __init__(
        self, directory: Path, clock: Clock, surroundings: Surroundings, *, durable: bool = True
    ) -> None:
        self.directory = directory
        self.state = DeviceState()
        self._clock = clock
        self._around = surroundings
        self._store = CheckpointStore(directory / CHECKPOINT_FILE, durable=durable)
        self._chooser = DeviceChooser(self.state, surroundings.affinity, self._already_running)
        self._allocating = asyncio.Lock()
        self._running: frozenset[tuple[str, str]] = frozenset()

    def start(self, running: frozenset[tuple[str, str]] = frozenset()) -> None:
        """Load the checkpoint. ``running`` are the running containers (pod UID and name).

        Raises:
            CheckpointError: the checkpoint cannot be read; the manager starts with an empty state and will
            write a new checkpoint.
        """
        self._running = running
        try:
            content = self._store.read()
        except OSError as error:
            raise CheckpointError(str(error)) from error
        if content is None:
            return
        data = decode(content)
        state = self.state
        state.pod_devices.from_checkpoint(data.pod_device_entries or ())
        state.restore_allocated()
        for resource in data.registered_devices or ():
            # The capacity is zero until the plugin registers again.
            state.healthy[resource], state.unhealthy[resource] = set(), set()
            state.endpoints[resource] = Endpoint(resource, stopped_at=self._clock.monotonic())

    # Reports of plugins

    async def plugin_connected(self, resource: str, plugin: DevicePlugin) -> None:
        """Use a plugin that can be called for the resource, replacing any other.

        Raises: DeviceError: the plugin does not answer.
        """
        try:
            options = await plugin.get_options()
        except DeviceError as error:
            raise DeviceError(f"failed to get device plugin options: {error}") from error
        self.state.endpoints[resource] = Endpoint(resource, plugin, options)
        _log.info("device plugin connected", resource=resource)

    def plugin_disconnected(self, resource: str) -> None:
        """Mark the devices of a disconnected plugin as unhealthy.

        The devices are forgotten if the plugin does not connect again in time.
        """
        endpoint = self.state.endpoints.get(resource)
        if endpoint is None:
            return
        self.state.mark_unhealthy(resource)
        endpoint.stopped_at = self._clock.monotonic()
        _log.info("device plugin disconnected", resource=resource)
        self._devices_changed()

    async def plugin_devices(self, resource: str, devices: Collection[Device]) -> None:
        """Store the plugin's list (``PluginListAndWatchReceiver``). Return once it is in the checkpoint."""
        old = self.state.all_devices.get(resource, {})
        changed: set[str] = set()
        for device in devices:
            # A device in the list may have existed before a restart and belong to a pod.
            if device.id not in old or old[device.id].health != device.health:
                pod = self.state.pod_devices.find_pod(resource, device.id)
                if pod is not None:
                    changed.add(pod)
        self.state.set_devices(resource, devices)
        if changed and self._around.on_health_change is not None:
            self._around.on_health_change(changed)
        self._devices_changed()
        try:
            await self.save()
        except DeviceError as error:
            _log.error("devices not in the checkpoint", resource=resource, error=str(error))

    # Allocation

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Allocate the container's devices unless it already has them. Return once the allocation is in the checkpoint.

        Init containers must come first, in order, then the others.

        Raises:
            DeviceError: the devices are not available.
        """
        if not any(map(self.state.is_device_plugin_resource, container.resources.limits)):
            return
        async with self._allocating:
            state, uid = self.state, pod.metadata.uid
            reusable = state.reusable.get(uid, {})
            # Pods are admitted one after another.
            state.reusable.clear()
            state.reusable[uid] = reusable
            await self._allocate_container(pod, container, reusable)
            init = next((found for found in pod.spec.init_containers if found.name == container.name), None)
            if init is not None and not is_sidecar(init):
                state.pod_devices.add_to_reusable(uid, container.name, reusable)
            else:
                state.pod_devices.remove_from_reusable(uid, container.name, reusable)

    async def run_container_options(self, pod: Pod, container: Container) -> DeviceRunContainerOptions | None:
        """Return the options that the container's devices add, after PreStartContainer. None without devices.

        Raises:
            DeviceError: a plugin failed, or the devices are missing and not available.
        """
        missing, uid = False, pod.metadata.uid
        for resource, amount in sorted(container.resources.limits.items()):
            if not self.state.is_device_plugin_resource(resource) or not Quantity.parse(amount).value():
                continue
            await self._pre_start(uid, container.name, resource)
            if uid not in self._around.active_pods():
                continue
            if self.state.pod_devices.container_devices(uid, container.name, resource) is None:
                missing = True
        if missing:
            await self.allocate(pod, container)
        return self.state.pod_devices.run_container_options(uid, container.name)

    def update_allocated_devices(self) -> None:
        """Free the devices of finished pods."""
        if self._around.sources_ready():
            self.state.free_all_but(set(self._around.active_pods()))

    async def _allocate_container(self, pod: Pod, container: Container, reusable: ReusableDevices) -> None:
        uid, updated, save = pod.metadata.uid, False, False
        for resource, amount in sorted(container.resources.limits.items()):
            if self._served_by_dra(pod, container.name, resource):
                continue
            if not self.state.is_device_plugin_resource(resource):
                continue
            if not updated:
                self.update_allocated_devices()
                updated = True
            try:
                devices = await self._chooser.devices_to_allocate(
                    uid,
                    container.name,
                    resource,
                    Quantity.parse(amount).value(),
                    reusable.get(resource, ()),
                )
                if devices:
                    save = True
                    await self._call_allocate(uid, container.name, resource, devices)
            finally:
                self.state.pending.pop(resource, None)
        if save:
            await self.save()

    async def _call_allocate(self, pod_uid: str, container: str, resource: str, devices: set[str]) -> None:
        state = self.state
        endpoint = state.endpoints.get(resource)
        if endpoint is None:
            state.restore_allocated()
            raise DeviceError(f"unknown Device Plugin {resource}")
        started = self._clock.monotonic()
        try:
            responses = await endpoint.allocate(sorted(devices))
        except DeviceError:
            state.restore_allocated()
            raise
        finally:
            ALLOCATIONS.labels(resource).observe(self._clock.monotonic() - started)
        if not responses:
            raise DeviceError("no containers return in allocation response ")
        by_node: dict[int, tuple[str, ...]] = {}
        for device in sorted(devices):
            for node in state.numa_nodes(resource, device) or (NODE_WITHOUT_TOPOLOGY,):
                by_node[node] = (*by_node.get(node, ()), device)
        state.pod_devices.insert(pod_uid, container, resource, Allocation(by_node, responses[0]))

    async def _pre_start(self, pod_uid: str, container: str, resource: str) -> None:
        endpoint = self.state.endpoints.get(resource)
        if endpoint is None:
            raise DeviceError(f"endpoint not found in cache for a registered resource: {resource}")
        if endpoint.options is None or not endpoint.options.pre_start_required:
            return
        devices = self.state.pod_devices.container_devices(pod_uid, container, resource)
        if devices is None:
            raise DeviceError(
                f"no devices found allocated in local cache for pod {pod_uid}, container {container},"
                f" resource {resource}"
            )
        try:
            await endpoint.pre_start_container(sorted(devices))
        except DeviceError as error:
            raise DeviceError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    def _served_by_dra(self, pod: Pod, container: str, resource: str) -> bool:
        status = pod.status.extended_resource_claim_status
        if status is None or not self._around.extended_resources:
            return False
        return any(
            (mapping.container_name, mapping.resource_name) == (container, resource)
            for mapping in status.request_mappings
        )

    def _already_running(self, pod_uid: str, container: str) -> bool:
        return not self._around.sources_ready() and (pod_uid, container) in self._running

    # Capacity and health for the node's and pods' statuses

    async def get_capacity(self) -> Capacity:
        """Return the devices for the node's status. Forget resources whose plugin was disconnected for too long."""
        state, now = self.state, self._clock.monotonic()
        deleted = set()
        for resource in state.healthy.keys() | state.unhealthy.keys():
            endpoint = state.endpoints.get(resource)
            if endpoint is None or endpoint.has_expired(now):
                deleted.add(resource)
        for resource in deleted:
            state.forget(resource)
        allocatable = {resource: len(devices) for resource, devices in state.healthy.items()}
        capacity = dict(allocatable)
        for resource, devices in state.unhealthy.items():
            capacity[resource] = capacity.get(resource, 0) + len(devices)
        if deleted:
            try:
                await self.save()
            except DeviceError as error:
                _log.error("forgotten resources still in the checkpoint", error=str(error))
        return Capacity(capacity, allocatable, deleted)

    def update_plugin_resources(self, pod_uid: str, allocatable: Mapping[str, int]) -> dict[str, int]:
        """Return the node's allocatable for the pod's admission, including devices that it already has."""
        raised = dict(allocatable)
        if self.state.pod_devices.has_pod(pod_uid):
            for resource, devices in self.state.allocated.items():
                if raised.get(resource, -1) < len(devices):
                    raised[resource] = len(devices)
        return raised

    def should_reset_extended_resource_capacity(self) -> bool:
        """True if the node was recreated, so that extended resources in its status are outdated."""
        return not self._store.path.exists()

    def get_allocatable_devices(self) -> Instances:
        """Return all healthy devices."""
        return {
            resource: {id_: device for id_, device in devices.items() if id_ in self.state.healthy[resource]}
            for resource, devices in self.state.all_devices.items()
            if resource in self.state.healthy
        }

    def container_options(self, pod_uid: str, container: str) -> DeviceRunContainerOptions | None:
        """Return the options that the container's devices have added, or None without devices."""
        return self.state.pod_devices.run_container_options(pod_uid, container)

    def get_devices(self, pod_uid: str, container: str) -> Instances | None:
        """Return the container's devices with only their NUMA nodes, or None if the container is unknown."""
        return self.state.pod_devices.container_instances(pod_uid, container)

    def with_device_health(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status with the health of the containers' devices (``UpdateAllocatedResourcesStatus``)."""
        if not self.state.pod_devices.has_pod(pod.metadata.uid):
            return status
        statuses = tuple(self._with_health(pod.metadata.uid, old) for old in status.container_statuses)
        return msgspec.structs.replace(status, container_statuses=statuses)

    def _with_health(self, pod_uid: str, status: ContainerStatus) -> ContainerStatus:
        found = dict.fromkeys(entry.name for entry in status.allocated_resources_status)
        entries = {entry.name: entry for entry in status.allocated_resources_status}
        for resource, devices in sorted((self.get_devices(pod_uid, status.name) or {}).items()):
            known = self.state.all_devices.get(resource, {})
            healths = tuple(
                ResourceHealth(
                    resource_id=id_,
                    health="Healthy" if id_ not in known or known[id_].health == HEALTHY else "Unhealthy",
                )
                for id_ in sorted(devices)
            )
            found[resource] = None
            entries[resource] = ResourceStatus(name=resource, resources=healths)
        return msgspec.structs.replace(
            status, allocated_resources_status=tuple(entries[name] for name in found)
        )

    def _devices_changed(self) -> None:
        if self._around.on_devices is not None:
            self._around.on_devices()

    async def save(self) -> None:
        """Return once the checkpoint has the current state. Raises DeviceError."""
        try:
            await self._store.write(lambda: encode(self.checkpoint_data()))
        except OSError as error:
            raise DeviceError(f"failed to write checkpoint file {CHECKPOINT_FILE!r}: {error}") from error

    def checkpoint_data(self) -> CheckpointData:
        """Return the current content for the checkpoint."""
        registered = {resource: sorted(devices) for resource, devices in self.state.healthy.items()}
        return CheckpointData(self.state.pod_devices.to_checkpoint(), registered)

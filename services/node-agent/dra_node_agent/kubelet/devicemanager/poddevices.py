"""The devices that each container holds (pkg/kubelet/cm/devicemanager/pod_devices.go)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from google.protobuf.message import DecodeError

from dra_node_agent.kubelet.devicemanager.checkpoint import PodDevicesEntry
from dra_node_agent.kubelet.devicemanager.types import (
    NODE_WITHOUT_TOPOLOGY,
    Device,
    DeviceRunContainerOptions,
)

DevicesPerNuma = Mapping[int, Sequence[str]]
ReusableDevices = dict[str, set[str]]
"""Devices by resource."""


@dataclass(frozen=True)
class Allocation:
    """The devices of one resource in one container, and the plugin's answer for them."""

    device_ids: DevicesPerNuma
    response: pb.ContainerAllocateResponse

    @property
    def devices(self) -> set[str]:
        """Their ids. A device with several NUMA nodes is listed once."""
        return {device for devices in self.device_ids.values() for device in devices}


class PodDevices:
    """Allocations by pod, container and resource."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, dict[str, Allocation]]] = {}

    def __iter__(self) -> Iterator[tuple[str, str, str, Allocation]]:
        for pod, containers in self._pods.items():
            for container, resources in containers.items():
                for resource, allocation in resources.items():
                    yield pod, container, resource, allocation

    def pods(self) -> set[str]:
        """Return the UIDs of pods that hold devices."""
        return set(self._pods)

    def has_pod(self, pod_uid: str) -> bool:
        """True if the pod holds devices."""
        return pod_uid in self._pods

    def insert(self, pod_uid: str, container: str, resource: str, allocation: Allocation) -> None:
        """Record that the container holds these devices of the resource."""
        self._pods.setdefault(pod_uid, {}).setdefault(container, {})[resource] = allocation

    def delete(self, pod_uids: Iterable[str]) -> None:
        """Forget the pods."""
        for uid in pod_uids:
            self._pods.pop(uid, None)

    def pod_devices(self, pod_uid: str, resource: str) -> set[str]:
        """Return all devices of the resource that the pod's containers hold."""
        containers = self._pods.get(pod_uid, {}).values()
        return {
            id_ for resources in containers if resource in resources for id_ in resources[resource].devices
        }

    def container_devices(self, pod_uid: str, container: str, resource: str) -> set[str] | None:
        """Return the container's devices of the resource, or None if nothing was allocated."""
        allocation = self._container(pod_uid, container).get(resource)
        return None if allocation is None else allocation.devices

    def add_to_reusable(self, pod_uid: str, container: str, reusable: ReusableDevices) -> None:
        """Allow later containers of the pod to reuse the container's devices."""
        for resource, allocation in self._container(pod_uid, container).items():
            reusable[resource] = reusable.get(resource, set()) | allocation.devices

    def remove_from_reusable(self, pod_uid: str, container: str, reusable: ReusableDevices) -> None:
        """Reserve the container's devices for itself."""
        for resource, allocation in self._container(pod_uid, container).items():
            reusable[resource] = reusable.get(resource, set()) - allocation.devices

    def devices(self) -> dict[str, set[str]]:
        """Return the ids of all allocated devices by resource."""
        found: dict[str, set[str]] = {}
        for _, _, resource, allocation in self:
            found.setdefault(resource, set()).update(allocation.devices)
        return found

    def find_pod(self, resource: str, device: str) -> str | None:
        """Return the pod that holds the device. Other resources may have the same id (kubernetes/kubernetes#140323)."""
        holders = (pod for pod, _, name, held in self if name == resource and device in held.devices)
        return next(holders, None)

    def run_container_options(self, pod_uid: str, container: str) -> DeviceRunContainerOptions | None:
        """Return the options that the container's devices add, or None if the container is unknown."""
        resources = self._pods.get(pod_uid, {}).get(container)
        if resources is None:
            return None
        options = DeviceRunContainerOptions()
        for _, allocation in sorted(resources.items()):
            options.add(allocation.response)
        return options

    def container_instances(self, pod_uid: str, container: str) -> dict[str, dict[str, Device]] | None:
        """Return the container's devices by resource and id, with only their NUMA nodes."""
        resources = self._pods.get(pod_uid, {}).get(container)
        if resources is None:
            return None
        found: dict[str, dict[str, Device]] = {}
        for resource, allocation in resources.items():
            if not allocation.device_ids:
                continue
            nodes: dict[str, tuple[int, ...] | None] = {}
            for node, devices in allocation.device_ids.items():
                for device in devices:
                    known = nodes.get(device)
                    nodes[device] = None if node == NODE_WITHOUT_TOPOLOGY else (node, *(known or ()))
            found[resource] = {device: Device("", "", of) for device, of in nodes.items()}
        return found

    def to_checkpoint(self) -> list[PodDevicesEntry] | None:
        """Return the entries of a checkpoint, or None without any, like Go's nil list."""
        entries = [
            PodDevicesEntry(
                pod, container, resource, dict(allocation.device_ids), allocation.response.SerializeToString()
            )
            for pod, container, resource, allocation in self
        ]
        return entries or None

    def from_checkpoint(self, entries: Iterable[PodDevicesEntry]) -> None:
        """Load the entries. An entry with an unreadable response is skipped."""
        for entry in entries:
            try:
                response = pb.ContainerAllocateResponse.FromString(entry.alloc_resp or b"")
            except DecodeError:
                continue
            device_ids = {node: tuple(ids or ()) for node, ids in (entry.device_ids or {}).items()}
            self.insert(
                entry.pod_uid, entry.container_name, entry.resource_name, Allocation(device_ids, response)
            )

    def _container(self, pod_uid: str, container: str) -> Mapping[str, Allocation]:
        return self._pods.get(pod_uid, {}).get(container, {})

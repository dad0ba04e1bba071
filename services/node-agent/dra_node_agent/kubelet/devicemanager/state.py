"""What the device manager knows of devices, plugins and allocations (the fields of ManagerImpl in manager.go)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from dra_node_agent.kubelet.devicemanager.endpoint import Endpoint
from dra_node_agent.kubelet.devicemanager.poddevices import PodDevices, ReusableDevices
from dra_node_agent.kubelet.devicemanager.types import HEALTHY, Device

NumaAffinity = Callable[[str, str], Collection[int] | None]
"""The NUMA nodes that a container of a pod is to be on; None where it does not matter."""


def no_affinity(_pod_uid: str, _container: str) -> Collection[int] | None:
    """The answer of a node without topology policy."""
    return None


@dataclass
class DeviceState:
    """All by resource, but for the pods' devices."""

    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    all_devices: dict[str, dict[str, Device]] = field(default_factory=dict)
    healthy: dict[str, set[str]] = field(default_factory=dict)
    unhealthy: dict[str, set[str]] = field(default_factory=dict)
    allocated: dict[str, set[str]] = field(default_factory=dict)
    pod_devices: PodDevices = field(default_factory=PodDevices)
    reusable: dict[str, ReusableDevices] = field(default_factory=dict)
    """By pod: what its init containers have left to its later containers."""
    pending: dict[str, set[str]] = field(default_factory=dict)
    """Chosen for a container whose plugin has not answered yet."""

    def is_device_plugin_resource(self, resource: str) -> bool:
        """Whether a plugin has, or had, such devices."""
        return resource in self.healthy or resource in self.allocated

    def set_devices(self, resource: str, devices: Collection[Device]) -> None:
        """The plugin has these devices, and no others."""
        self.all_devices[resource] = {device.id: device for device in devices}
        healthy: set[str] = set()
        unhealthy: set[str] = set()
        for device in devices:
            (healthy if device.health == HEALTHY else unhealthy).add(device.id)
        self.healthy[resource], self.unhealthy[resource] = healthy, unhealthy

    def mark_unhealthy(self, resource: str) -> None:
        """Nothing of the resource can be had for now."""
        gone = self.healthy.get(resource)
        if gone is not None:
            self.healthy[resource] = set()
        self.unhealthy[resource] = self.unhealthy.get(resource, set()) | (gone or set())

    def forget(self, resource: str) -> None:
        """The resource's plugin does not return."""
        for known in (self.endpoints, self.healthy, self.unhealthy):
            known.pop(resource, None)

    def available(self, resource: str) -> set[str]:
        """The healthy devices that no container holds."""
        return self.healthy.get(resource, set()) - self.allocated.get(resource, set())

    def numa_nodes(self, resource: str, device: str) -> tuple[int, ...]:
        """The NUMA nodes of the device; none where they are not known."""
        known = self.all_devices.get(resource, {}).get(device)
        return (known.numa_nodes or ()) if known is not None else ()

    def has_topology(self, resource: str) -> bool:
        """Whether some device of the resource has a NUMA node."""
        return any(device.numa_nodes for device in self.all_devices.get(resource, {}).values())

    def restore_allocated(self) -> None:
        """Allocated is what the containers hold."""
        self.allocated = self.pod_devices.devices()

    def free_all_but(self, active: Collection[str]) -> None:
        """Free the devices of the pods that are not active any more."""
        gone = self.pod_devices.pods() - set(active)
        if not gone:
            return
        self.pod_devices.delete(gone)
        self.restore_allocated()
        # What is being allocated at this moment is not free.
        for resource, devices in self.pending.items():
            self.allocated.setdefault(resource, set()).update(devices)

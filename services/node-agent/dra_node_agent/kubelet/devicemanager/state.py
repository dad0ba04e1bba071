"""The device manager's state of devices, plugins and allocations (the fields of ManagerImpl in manager.go)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from dra_node_agent.kubelet.devicemanager.endpoint import Endpoint
from dra_node_agent.kubelet.devicemanager.poddevices import PodDevices, ReusableDevices
from dra_node_agent.kubelet.devicemanager.types import HEALTHY, Device

NumaAffinity = Callable[[str, str], Collection[int] | None]
"""Returns the NUMA nodes for a container of a pod, or None if any will do."""


def no_affinity(_pod_uid: str, _container: str) -> Collection[int] | None:
    """Return None: there is no NUMA affinity on a node without a topology policy."""
    return None


@dataclass
class DeviceState:
    """The state by resource, except the pods' devices."""

    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    all_devices: dict[str, dict[str, Device]] = field(default_factory=dict)
    healthy: dict[str, set[str]] = field(default_factory=dict)
    unhealthy: dict[str, set[str]] = field(default_factory=dict)
    allocated: dict[str, set[str]] = field(default_factory=dict)
    pod_devices: PodDevices = field(default_factory=PodDevices)
    reusable: dict[str, ReusableDevices] = field(default_factory=dict)
    """By pod: the devices that its init containers left for later containers."""
    pending: dict[str, set[str]] = field(default_factory=dict)
    """Devices chosen for a container whose plugin has not answered yet."""

    def is_device_plugin_resource(self, resource: str) -> bool:
        """True if a plugin has, or had, devices of the resource."""
        return resource in self.healthy or resource in self.allocated

    def set_devices(self, resource: str, devices: Collection[Device]) -> None:
        """Replace the plugin's devices."""
        self.all_devices[resource] = {device.id: device for device in devices}
        healthy: set[str] = set()
        unhealthy: set[str] = set()
        for device in devices:
            (healthy if device.health == HEALTHY else unhealthy).add(device.id)
        self.healthy[resource], self.unhealthy[resource] = healthy, unhealthy

    def mark_unhealthy(self, resource: str) -> None:
        """Mark all devices of the resource as unhealthy."""
        gone = self.healthy.get(resource)
        if gone is not None:
            self.healthy[resource] = set()
        self.unhealthy[resource] = self.unhealthy.get(resource, set()) | (gone or set())

    def forget(self, resource: str) -> None:
        """Forget a resource whose plugin does not return."""
        for known in (self.endpoints, self.healthy, self.unhealthy):
            known.pop(resource, None)

    def available(self, resource: str) -> set[str]:
        """Return the healthy devices that no container holds."""
        return self.healthy.get(resource, set()) - self.allocated.get(resource, set())

    def numa_nodes(self, resource: str, device: str) -> tuple[int, ...]:
        """Return the NUMA nodes of the device. Empty if they are unknown."""
        known = self.all_devices.get(resource, {}).get(device)
        return (known.numa_nodes or ()) if known is not None else ()

    def has_topology(self, resource: str) -> bool:
        """True if some device of the resource has a NUMA node."""
        return any(device.numa_nodes for device in self.all_devices.get(resource, {}).values())

    def restore_allocated(self) -> None:
        """Compute the allocated devices from the containers' devices."""
        self.allocated = self.pod_devices.devices()

    def free_all_but(self, active: Collection[str]) -> None:
        """Free the devices of pods that are no longer active."""
        gone = self.pod_devices.pods() - set(active)
        if not gone:
            return
        self.pod_devices.delete(gone)
        self.restore_allocated()
        # Devices that are being allocated right now are not free.
        for resource, devices in self.pending.items():
            self.allocated.setdefault(resource, set()).update(devices)

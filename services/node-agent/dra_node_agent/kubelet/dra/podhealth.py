"""The health of claims' devices in pods' statuses (UpdateAllocatedResourcesStatus of pkg/kubelet/cm/dra/manager.go)."""

from collections.abc import Callable

import msgspec
from dra_shared.api.container import Container, ContainerStatus, ResourceHealth, ResourceStatus
from dra_shared.api.pod import Pod, PodStatus

from dra_node_agent.kubelet.dra.checkpoint import CheckpointDevice
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfoCache, is_for_request
from dra_node_agent.kubelet.dra.health import DeviceHealth, HealthInfoCache


class PodHealth:
    """Adds the devices' health to the statuses of pods.

    Args:
        claims: the claims that pods of the node use.
        messages: whether statuses have the drivers' messages (ResourceHealthStatusMessage).
        on_change: called with the UIDs of pods whose devices changed health.
    """

    def __init__(
        self,
        claims: ClaimInfoCache,
        devices: HealthInfoCache,
        *,
        messages: bool,
        is_sorted: bool = False,
        on_change: Callable[[set[str]], None] | None,
    ) -> None:
        self._claims = claims
        self._devices = devices
        self._messages = messages
        self._is_sorted = is_sorted
        self._on_change = on_change

    def add_health(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return ``status`` with the health of each container's devices in ``allocatedResourcesStatus``."""
        containers = {container.name: container for container in pod.spec.containers}
        changed = tuple(
            self._container_health(pod, containers[entry.name], entry)
            if entry.name in containers and containers[entry.name].resources.claims
            else entry
            for entry in status.container_statuses
        )
        return msgspec.structs.replace(status, container_statuses=changed)

    def _container_health(self, pod: Pod, container: Container, status: ContainerStatus) -> ContainerStatus:
        resources = {entry.name: entry for entry in status.allocated_resources_status}
        for used in container.resources.claims:
            name = _claim_of(pod, used.name)
            info = self._claims.get(pod.metadata.namespace, name) if name else None
            if info is None:
                continue
            label = f"claim:{used.name}/{used.request}" if used.request else f"claim:{used.name}"
            devices: dict[str, ResourceHealth] = {}
            for driver, known in info.devices.items():
                for device in known:
                    if is_for_request(device, used.request.partition("/")[0]):
                        health = self._devices.get(driver, device.pool_name, device.device_name)
                        shown = resource_health(driver, device, health, messages=self._messages)
                        # Devices are distinguished by their CDI id, which several may share.
                        devices.setdefault(shown.resource_id, shown)
            resources[label] = ResourceStatus(name=label, resources=tuple(devices.values()))
        kept = tuple(entry for entry in resources.values() if entry.resources)
        if self._is_sorted:
            kept = tuple(_sort_devices(entry) for entry in sorted(kept, key=lambda entry: entry.name))
        return msgspec.structs.replace(status, allocated_resources_status=kept)

    async def report(self, driver: str, devices: list[DeviceHealth]) -> None:
        """Store a driver's report durably."""
        changed = self._devices.update(driver, devices)
        if not changed:
            return
        self._devices.save()
        names = {(device.pool_name, device.device_name) for device in changed}
        pods: set[str] = set()
        for info in self._claims:
            for device in info.devices.get(driver, ()):
                if (device.pool_name, device.device_name) in names:
                    pods |= info.pod_uids
        if pods and self._on_change is not None:
            self._on_change(pods)

    def end(self, driver: str) -> None:
        """Forget a driver's reports, because it no longer reports."""
        if self._devices.clear(driver) and self._on_change is not None:
            self._on_change({uid for info in self._claims if driver in info.devices for uid in info.pod_uids})


def _claim_of(pod: Pod, name: str) -> str | None:
    for known in pod.status.resource_claim_statuses:
        if known.name == name:
            return known.resource_claim_name
    return next((entry.resource_claim_name for entry in pod.spec.resource_claims if entry.name == name), None)


def resource_health(
    driver: str, device: CheckpointDevice, health: DeviceHealth, *, messages: bool
) -> ResourceHealth:
    """Return a device's health in the form of container statuses."""
    ids = device.cdi_device_ids
    return ResourceHealth(
        resource_id=ids[0] if ids else f"{driver}/{device.pool_name}/{device.device_name}",
        health=str(health.health),
        message=health.message if messages else "",
    )


def _sort_devices(status: ResourceStatus) -> ResourceStatus:
    devices = sorted(status.resources, key=lambda device: device.resource_id)
    return msgspec.structs.replace(status, resources=tuple(devices))

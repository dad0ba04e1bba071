"""Courses of events: capacity, and the resources shown for pods."""

import orjson
from dra_node_agent.kubelet.devicemanager.checkpoint import CHECKPOINT_FILE, CheckpointError
from dra_node_agent.kubelet.devicemanager.manager import DeviceManager
from dra_shared.api.container import ContainerStatus, ResourceHealth, ResourceStatus
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod, PodStatus
from dra_shared.clock import FakeClock
from dra_shared.jsontypes import JsonObject

from dra_recordings.devicemanager import worlds
from dra_recordings.devicemanager.worlds import RecordedPlugin, World


async def capacity(given: JsonObject) -> JsonObject:
    """Add and remove plugins and devices on a fake clock."""
    with worlds.directory() as directory:
        course = _Capacity(directory)
        resources = sorted({step["resource"] for step in given["steps"] if "resource" in step})
        return {"steps": [await course.step(step, resources) for step in given["steps"]]}


class _Capacity(World):
    async def step(self, step: JsonObject, resources: list[str]) -> JsonObject:
        """Return the state after one step."""
        found = await self._happen(step)
        manager = self.manager
        return {
            **found,
            "isDevicePluginResource": {
                resource: manager.state.is_device_plugin_resource(resource) for resource in resources
            },
            "allocatableDevices": worlds.sets_json(manager.get_allocatable_devices()),
            "checkpointRegistered": self._read_registered(),
            "shouldResetExtendedResourceCapacity": manager.should_reset_extended_resource_capacity(),
        }

    async def _happen(self, step: JsonObject) -> JsonObject:
        operation, resource = step["op"], step.get("resource", "")
        if operation == "getCapacity":
            return await capacity_json(self.manager)
        if operation == "restart":
            self.manager = self.new_manager()
            try:
                self.manager.start()
            except CheckpointError as error:
                return {"readError": str(error)}
            return {"readError": None}
        if operation == "advance":
            assert isinstance(self.clock, FakeClock)
            await self.clock.advance(step["milliseconds"] / 1000)
            return {}
        if operation == "allocated":
            worlds.hold(self.manager, {"podUID": "pod", **step})
            return {}
        return await plugin_step(self.manager, resource, step)

    def _read_registered(self) -> JsonObject | None:
        try:
            content = (self.directory / CHECKPOINT_FILE).read_bytes()
        except FileNotFoundError:
            return None
        registered: JsonObject = orjson.loads(content)["Data"]["RegisteredDevices"]
        return registered


async def plugin_step(manager: DeviceManager, resource: str, step: JsonObject) -> JsonObject:
    """Connect or disconnect a plugin, or send a list."""
    if step["op"] == "connect":
        await manager.plugin_connected(resource, RecordedPlugin(resource))
        return {"error": None}
    if step["op"] == "disconnect":
        manager.plugin_disconnected(resource)
    elif step["op"] == "devices":
        await manager.plugin_devices(resource, worlds.devices(step["devices"]))
    else:
        raise ValueError(f"unknown step {step['op']!r}")
    return {}


async def capacity_json(manager: DeviceManager) -> JsonObject:
    """Return the node's devices, and the manager's state afterwards."""
    found = await manager.get_capacity()
    return {
        "capacity": dict(found.capacity),
        "allocatable": dict(found.allocatable),
        "deleted": sorted(found.deleted),
        "endpointsAfter": {
            resource: {"stopped": endpoint.is_stopped}
            for resource, endpoint in manager.state.endpoints.items()
        },
        "healthyAfter": worlds.sets_json(manager.state.healthy),
        "unhealthyAfter": worlds.sets_json(manager.state.unhealthy),
    }


async def pod_resources(given: JsonObject) -> JsonObject:
    """Return the devices shown to monitoring and in pods' statuses."""
    with worlds.directory() as directory:
        course = _PodResources(directory)
        return {"steps": [await course.step(step) for step in given["steps"]]}


class _PodResources(World):
    async def step(self, step: JsonObject) -> JsonObject:
        """Return the state after one step."""
        self.health_updates.clear()
        found = await self._happen(step)
        manager = self.manager
        held = {
            f"{pod_uid}/{container}": worlds.instances_json(manager.get_devices(pod_uid, container))
            for pod_uid, container, _, _ in manager.state.pod_devices
        }
        return {
            **found,
            "allocatedDevices": worlds.sets_json(manager.state.allocated),
            "getAllocatableDevices": worlds.instances_json(manager.get_allocatable_devices()),
            "getDevices": held,
            "healthUpdatesForPods": list(self.health_updates),
        }

    async def _happen(self, step: JsonObject) -> JsonObject:
        operation, manager = step["op"], self.manager
        if operation == "allocated":
            worlds.hold(manager, step)
            return {}
        if operation == "updateAllocatedDevices":
            self.active = dict.fromkeys(step["activePods"])
            self.sources_ready = step["sourcesReady"]
            manager.update_allocated_devices()
            return {}
        if operation == "updateAllocatedResourcesStatus":
            return self._status(step)
        return await plugin_step(manager, step["resource"], step)

    def _status(self, step: JsonObject) -> JsonObject:
        pod = Pod(metadata=ObjectMeta(name="p", uid=step["podUID"]))
        given = tuple(_status(raw) for raw in step["containerStatuses"])
        # An init container with the same name: the health of its devices is not reported.
        status = PodStatus(
            container_statuses=given, init_container_statuses=(ContainerStatus(name=given[0].name),)
        )
        found = self.manager.with_device_health(pod, status)
        return {
            "containerStatuses": [_status_json(one) for one in found.container_statuses],
            "initContainerStatuses": [_status_json(one) for one in found.init_container_statuses],
        }


def _status(raw: JsonObject) -> ContainerStatus:
    entries = tuple(
        ResourceStatus(
            name=entry["name"],
            resources=tuple(
                ResourceHealth(resource_id=one["resourceID"], health=one["health"])
                for one in entry["resources"]
            ),
        )
        for entry in raw.get("allocatedResourcesStatus") or ()
    )
    return ContainerStatus(name=raw["name"], allocated_resources_status=entries)


def _status_json(status: ContainerStatus) -> JsonObject:
    entries = [
        {
            "name": entry.name,
            "resources": [{"resourceID": one.resource_id, "health": one.health} for one in entry.resources],
        }
        for entry in status.allocated_resources_status
    ]
    return {"name": status.name, "allocatedResourcesStatus": entries}

"""Single questions to the manager: chosen devices, a container's options, a node's resources."""

from typing import Any

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_node_agent.kubelet.devicemanager.allocation import DeviceChooser
from dra_node_agent.kubelet.devicemanager.endpoint import Endpoint
from dra_node_agent.kubelet.devicemanager.poddevices import Allocation, PodDevices
from dra_node_agent.kubelet.devicemanager.types import DeviceError, PluginOptions
from dra_shared.jsontypes import JsonObject

from dra_recordings.devicemanager import worlds
from dra_recordings.devicemanager.worlds import RecordedPlugin, World

_POD, _CONTAINER = "pod", "c"


async def devices_to_allocate(given: JsonObject) -> JsonObject:
    """Return the ids that one container gets of one resource."""
    with worlds.directory() as directory:
        world = World(directory, lambda _pod, _container: given["affinityHint"])
        world.sources_ready = given["sourcesReady"]
        known = [raw["id"] for raw in given["devices"]]
        plugin = RecordedPlugin(given["resource"], preferred=given["preferredAnswer"], known=known)
        _fill(world, given, plugin)
        running = given.get("containerAtKubeletStart") in ("running", "restartedRunning")
        chooser = DeviceChooser(
            world.manager.state, world.affinity, lambda _pod, _container: running and not world.sources_ready
        )
        state, resource = world.manager.state, given["resource"]
        split = chooser.filter_by_affinity(_POD, _CONTAINER, resource, state.available(resource))
        found: dict[str, Any] = {
            "filterByAffinity": dict(
                zip(("aligned", "unaligned", "noAffinity"), map(sorted, split), strict=True)
            )
        }
        try:
            chosen = await chooser.devices_to_allocate(
                _POD, _CONTAINER, resource, given["required"], given["reusable"] or ()
            )
            found |= {"devices": sorted(chosen)} if chosen else {"nothingToDo": True}
        except DeviceError as error:
            found["error"] = str(error)
        return found | {"allocatedAfter": sorted(state.allocated.get(resource, ())), "calls": plugin.calls}


def _fill(world: World, given: JsonObject, plugin: RecordedPlugin) -> None:
    state, resource = world.manager.state, given["resource"]
    state.set_devices(resource, worlds.devices(given["devices"]))
    if not given["registered"]:
        del state.healthy[resource], state.unhealthy[resource]
    if given["endpoint"] != "missing":
        options = given["options"]
        state.endpoints[resource] = Endpoint(
            resource,
            plugin,
            None
            if options is None
            else PluginOptions(get_preferred_allocation_available=options["getPreferredAllocationAvailable"]),
            stopped_at=0.0 if given["endpoint"] == "stopped" else None,
        )
    holders = [("other", _CONTAINER, given["allocatedToOtherPods"])]
    if given["allocatedToThisContainer"] is not None:
        holders.append((_POD, _CONTAINER, given["allocatedToThisContainer"]))
    if given["reusable"] and given["reusableIsAllocated"]:
        holders.append((_POD, "init", given["reusable"]))
    for pod_uid, container, ids in holders:
        if ids or pod_uid == _POD:
            allocation = Allocation({-1: tuple(ids)}, pb.ContainerAllocateResponse())
            state.pod_devices.insert(pod_uid, container, resource, allocation)
    state.restore_allocated()


async def run_container_options(given: JsonObject) -> JsonObject:
    """Merge several responses for one container."""
    pod_devices = PodDevices()
    for one in given["responses"]:
        allocation = Allocation({-1: ("d",)}, worlds.response(one["response"]))
        pod_devices.insert(_POD, _CONTAINER, one["resource"], allocation)
    return {"options": worlds.options_json(pod_devices.run_container_options(_POD, _CONTAINER))}


async def update_plugin_resources(given: JsonObject) -> JsonObject:
    """Return the node's allocatable resources during the admission of one pod."""
    with worlds.directory() as directory:
        world = World(directory)
        for one in given["podDevices"]:
            worlds.hold(world.manager, one)
        raised = world.manager.update_plugin_resources(given["podUID"], given["nodeAllocatable"])
        return {"error": None, "nodeAllocatable": raised}

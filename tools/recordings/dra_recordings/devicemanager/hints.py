"""Topology hints of a pod and its containers."""

from dra_node_agent.kubelet.devicemanager import topologyhints
from dra_node_agent.kubelet.devicemanager.topologyhints import Hints
from dra_shared.jsontypes import JsonObject

from dra_recordings.devicemanager import worlds
from dra_recordings.devicemanager.worlds import World


async def topology_hints(given: JsonObject) -> JsonObject:
    """Return the hints of one world."""
    with worlds.directory() as directory:
        world = World(directory)
        manager, state, machine = world.manager, world.manager.state, given["numaNodes"]
        for resource in given["resources"]:
            state.set_devices(resource["name"], worlds.devices(resource["devices"]))
        for one in given["podDevices"]:
            worlds.hold(manager, one)
        pod = worlds.pod(given["pod"])
        state.reusable[pod.metadata.uid] = {
            resource: set(ids) for resource, ids in (given["reusable"] or {}).items()
        }
        world.active = dict.fromkeys(given["activePods"])
        manager.update_allocated_devices()
        containers = [
            {
                "container": container.name,
                "hints": _json(topologyhints.container_hints(state, machine, pod, container)),
            }
            for container in (*pod.spec.init_containers, *pod.spec.containers)
        ]
        return {
            "containers": containers,
            "pod": _json(topologyhints.pod_hints(state, machine, pod)),
            "podDeviceRequest": topologyhints.pod_device_request(state, pod),
        }


def _json(hints: Hints) -> JsonObject:
    return {
        resource: None
        if found is None
        else [{"numaNodes": list(hint.numa_nodes), "preferred": hint.preferred} for hint in found]
        for resource, found in hints.items()
    }

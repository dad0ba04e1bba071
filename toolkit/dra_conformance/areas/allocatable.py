"""Devices that consume the node's own CPU and memory (KEP-5517)."""

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from dra_conformance.check import Area, Breach, NotOffered, Stage
from dra_conformance.session import Session

AREA = Area("allocatable", Stage.START, since=V1_36, gate="DRANodeAllocatableResources")

_PLUGIN = "pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go"


@AREA.check(
    "divisible",
    "a device that consumes by capacity can be shared",
    promise="A device with a capacityKey for a node resource has allowMultipleAllocations: claims consume capacity of"
    " such devices only.",
    source=_PLUGIN + " (ConsumedCapacity is nil, but Capacity key is set)",
    cost="The scheduler stops with an error at each pod that is to get the device.",
)
async def _check_divisible(session: Session) -> None:
    for device, entries in _devices_with_node_resources(session):
        for resource, entry in entries.items():
            if entry.get("capacityKey") and not device.get("allowMultipleAllocations"):
                raise Breach(f"device {device['name']}: {resource} by capacity {entry['capacityKey']}")


def _devices_with_node_resources(session: Session) -> list[tuple[JsonObject, dict[str, JsonObject]]]:
    """Return the devices with the node resources that each consumes. Raises NotOffered if there are none."""
    found = []
    for device in (one.spec for one in session.devices):
        mappings = dict(device.get("nodeAllocatableResourceMappings") or {})
        for resource, entry in (device.get("nodeAllocatableResources") or {}).items():
            mappings[resource] = entry.get("mapping") or {}
        if mappings:
            found.append((device, mappings))
    if not found:
        raise NotOffered("no device consumes the node's own resources")
    return found

"""Writing and reading of the checkpoint."""

import base64
from typing import Any

import orjson
from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_node_agent.kubelet.devicemanager.checkpoint import (
    CHECKPOINT_FILE,
    NOT_FOUND,
    CheckpointError,
    checksum,
    decode,
    hashed_text,
    parse,
)
from dra_node_agent.kubelet.devicemanager.manager import DeviceManager
from dra_node_agent.kubelet.devicemanager.types import Device
from dra_shared.jsontypes import JsonObject

from dra_recordings.devicemanager import worlds
from dra_recordings.devicemanager.worlds import World


async def write(given: JsonObject) -> JsonObject:
    """Return a manager's checkpoint, and the state that the next kubelet reads from it."""
    with worlds.directory() as directory:
        world = World(directory)
        for one in given["podDevices"]:
            worlds.hold(world.manager, one)
        for resource, ids in given["healthyDevices"].items():
            world.manager.state.set_devices(resource, [Device(id_) for id_ in ids])
        await world.manager.save()
        path = directory / CHECKPOINT_FILE
        found = _file(path.read_bytes())
        found["mode"] = f"{path.stat().st_mode & 0o777:o}"
        found["restored"] = await _read(world)
        return found


async def read(given: JsonObject) -> JsonObject:
    """Return the state that a manager reads from a file."""
    with worlds.directory() as directory:
        world = World(directory)
        if given["file"] is None:
            return await _read(world)
        content = given["file"].encode(errors="surrogatepass")
        (directory / CHECKPOINT_FILE).write_bytes(content)
        return await _read(world) | text_facts(content)


async def _read(world: World) -> JsonObject:
    manager = world.manager = world.new_manager()
    read_error = get_error = None
    try:
        manager.start()
    except CheckpointError as error:
        read_error = get_error = str(error)
    if manager.should_reset_extended_resource_capacity():
        get_error = NOT_FOUND
    found = {
        "readError": read_error,
        "getError": get_error,
        **worlds.state_json(manager),
        "healthyDevices": worlds.sets_json(manager.state.healthy),
        "unhealthyDevices": worlds.sets_json(manager.state.unhealthy),
        "endpoints": _endpoints(manager),
    }
    after = await manager.get_capacity()
    return found | {
        "capacity": dict(after.capacity),
        "allocatable": dict(after.allocatable),
        "deleted": sorted(after.deleted),
    }


def _endpoints(manager: DeviceManager) -> JsonObject:
    return {
        resource: {"stopped": endpoint.is_stopped, "options": endpoint.options is not None}
        for resource, endpoint in manager.state.endpoints.items()
    }


def _file(content: bytes) -> dict[str, Any]:
    data = decode(content)
    return {
        "file": orjson.loads(content),
        "checksum": checksum(data),
        "hashedText": hashed_text(data),
    }


def text_facts(content: bytes) -> JsonObject:
    """Return the checksum that a file should have, and the text that it covers. Empty for an unreadable file."""
    try:
        data, _ = parse(content)
    except CheckpointError:
        return {}
    return {"rightChecksum": checksum(data), "hashedText": hashed_text(data)}


def decode_entries(raw: list[JsonObject] | None) -> list[JsonObject] | None:
    """Return the entries of a file with decoded responses, because the order of a message's map is random."""
    if raw is None:
        return None
    return [{**entry, "AllocResp": worlds.response_json(_response(entry["AllocResp"]))} for entry in raw]


def _response(text: str | None) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse.FromString(base64.b64decode(text or ""))

"""A device plugin in a separate process, which can be killed: ``python -m tests.endurance.plugin DIRECTORY``."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_node_agent.kubelet.devicemanager.types import Device
from dra_node_agent.kubelet.dra.wire import CallError
from dra_recordings.devicemanager.stub import StubPlugin

RESOURCE = "example.com/widget"
_DEVICES = [Device(f"widget-{number}", "Healthy") for number in range(4)]
_LOOK = 0.3


async def serve(directory: Path) -> None:
    """Register with the kubelet, and again each time the kubelet restarts."""
    plugin = StubPlugin(RESOURCE, directory / "widget.sock", respond=_respond)
    kubelet = directory / "kubelet.sock"
    known: tuple[int, int] | None = None
    while True:
        found = _identity(kubelet)
        if found is not None and (found != known or not plugin.socket.exists()):
            await plugin.stop()
            await plugin.start()
            plugin.update(_DEVICES)
            try:
                await plugin.register(kubelet)
            except CallError:
                found = None
            known = found
        await asyncio.sleep(_LOOK)


def _identity(socket: Path) -> tuple[int, int] | None:
    try:
        found = socket.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def _respond(resource: str, ids: Sequence[str]) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(envs={"WIDGETS": ",".join(sorted(ids))})


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))

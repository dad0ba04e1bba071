"""Registration of device plugins that fail to return their options, over real sockets and gRPC."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_node_agent.kubelet.devicemanager.plugin.server import SOCKET, RegistrationServer
from dra_node_agent.kubelet.devicemanager.types import DeviceError
from dra_node_agent.kubelet.dra.wire import CallError
from dra_recordings.devicemanager.stub import StubPlugin
from dra_recordings.devicemanager.worlds import World

RESOURCE = "example.com/gpu"


class _WithoutOptions(StubPlugin):
    """Responds with an error code to GetDevicePluginOptions."""

    code = grpc.StatusCode.OK

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> pb.DevicePluginOptions:
        await context.abort(self.code, "still starting")
        raise AssertionError


@pytest.fixture
def directory() -> Iterator[Path]:
    # The paths of sockets have to be short.
    with tempfile.TemporaryDirectory(prefix="dralab-") as found:
        yield Path(found) / "device-plugins"


@asynccontextmanager
async def _registration(
    directory: Path, code: grpc.StatusCode
) -> AsyncIterator[tuple[RegistrationServer, _WithoutOptions]]:
    world = World(directory)
    server = RegistrationServer(str(directory / SOCKET), world.manager, world.clock)
    await server.start()
    plugin = _WithoutOptions(RESOURCE, directory / "p.sock")
    plugin.code = code
    await plugin.start()
    try:
        yield server, plugin
    finally:
        await server.stop()
        await plugin.stop()


@pytest.mark.parametrize(
    ("code", "spelled"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Unavailable"),
        (grpc.StatusCode.CANCELLED, "Canceled"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "DeadlineExceeded"),
        (grpc.StatusCode.UNIMPLEMENTED, "Unimplemented"),
    ],
)
async def test_an_error_of_the_options_call_is_returned_with_code_unknown(
    directory: Path, code: grpc.StatusCode, spelled: str
) -> None:
    message = f"failed to get device plugin options: rpc error: code = {spelled} desc = still starting"
    async with _registration(directory, code) as (server, plugin):
        with pytest.raises(CallError) as caught:
            await plugin.register(directory / SOCKET)
        assert caught.value.code == "Unknown"
        assert str(caught.value) == f"rpc error: code = Unknown desc = {message}"
        # The plugin watcher only gets the text of the error.
        with pytest.raises(DeviceError) as refused:
            await server.register(RESOURCE, str(plugin.socket), ["v1beta1"])
        assert str(refused.value) == message

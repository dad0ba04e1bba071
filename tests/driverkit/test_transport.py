"""A plugin is called in the same way with and without a socket."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from dra_driverkit.proto import dra_v1_pb2, health_v1_pb2, rpc
from dra_driverkit.transport import LocalSockets, Sockets, UnixSockets
from dra_node_agent.kubelet.dra import wire

_PREPARE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
_HEALTH = "/v1.DRAResourceHealth/NodeWatchResources"


class _Plugin:
    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.ended = asyncio.Event()

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        match request.claims[0].name:
            case "refused":
                await context.abort(grpc.StatusCode.UNKNOWN, "not today")
            case "buggy":
                raise KeyError("nowhere")
            case "slow":
                self.waiting.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.ended.set()
        answer = dra_v1_pb2.NodePrepareResourcesResponse()
        answer.claims[request.claims[0].uid].error = "prepared"
        return answer

    async def NodeWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            for number in range(2):
                yield health_v1_pb2.NodeWatchResourcesResponse(
                    devices=[
                        health_v1_pb2.DeviceHealth(
                            device=health_v1_pb2.DeviceIdentifier(device_name=f"gpu-{number}")
                        )
                    ]
                )
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def _add(plugin: _Plugin) -> Callable[[Any], None]:
    def add(server: Any) -> None:
        rpc.serve(dra_v1_pb2, "DRAPlugin", plugin, server)
        rpc.serve(health_v1_pb2, "DRAResourceHealth", plugin, server)

    return add


@pytest.fixture(params=[UnixSockets, LocalSockets])
def sockets(request: pytest.FixtureRequest) -> Sockets:
    made: Sockets = request.param()
    return made


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ns") as folder:
        yield Path(folder) / "dra.sock"


async def _prepare(channel: Any, name: str, timeout: float | None = None) -> str:
    request = dra_v1_pb2.NodePrepareResourcesRequest(claims=[dra_v1_pb2.Claim(name=name, uid="u")])
    answer = dra_v1_pb2.NodePrepareResourcesResponse
    return str((await wire.call(channel, _PREPARE, request, answer, timeout)).claims["u"].error)


async def _fails(channel: Any, name: str, timeout: float | None = None) -> str:
    with pytest.raises(wire.CallError) as caught:
        await _prepare(channel, name, timeout)
    return str(caught.value)


async def _times_out(channel: Any, plugin: _Plugin) -> None:
    """Check that a call times out in the plugin. On a busy machine the call may take a while to arrive."""
    seconds = 0.05
    while not plugin.waiting.is_set():
        error = await _fails(channel, "slow", seconds)
        assert error == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        seconds *= 2


async def test_responses_and_errors_are_equal_over_both_transports(sockets: Sockets, path: Path) -> None:
    plugin = _Plugin()
    server = sockets.server([path], _add(plugin))
    await server.start()
    async with sockets.channel(str(path)) as channel:
        await channel.channel_ready()
        assert await _prepare(channel, "good") == "prepared"
        assert await _fails(channel, "refused") == "rpc error: code = Unknown desc = not today"
        assert (
            await _fails(channel, "buggy")
            == "rpc error: code = Unknown desc = Unexpected <class 'KeyError'>: 'nowhere'"
        )
        await _times_out(channel, plugin)
        await plugin.ended.wait()
        with pytest.raises(wire.CallError, match="code = Unimplemented desc = Method not found!"):
            await wire.call(
                channel, "/v9.None/None", dra_v1_pb2.Claim(), dra_v1_pb2.NodePrepareResourcesResponse, None
            )
    await server.stop(None)


async def test_calls_in_progress_end_when_the_server_stops(sockets: Sockets, path: Path) -> None:
    plugin = _Plugin()
    server = sockets.server([path], _add(plugin))
    await server.start()
    async with sockets.channel(str(path)) as channel:
        await channel.channel_ready()
        state = channel.get_state(try_to_connect=True)
        call = asyncio.create_task(_fails(channel, "slow"))
        await plugin.waiting.wait()
        await server.stop(0.01)
        assert (await call).startswith("rpc error: code = ")
        await plugin.ended.wait()
        await channel.wait_for_state_change(state)
        assert channel.get_state() is not grpc.ChannelConnectivity.READY


async def test_a_stream_ends_when_its_reader_stops(sockets: Sockets, path: Path) -> None:
    plugin = _Plugin()
    server = sockets.server([path], _add(plugin))
    await server.start()
    seen: list[str] = []
    both = asyncio.Event()

    async def read(channel: Any) -> None:
        request, answer = health_v1_pb2.NodeWatchResourcesRequest(), health_v1_pb2.NodeWatchResourcesResponse
        async for report in wire.stream(channel, _HEALTH, request, answer):
            seen.append(report.devices[0].device.device_name)
            if len(seen) % 2 == 0:
                both.set()

    async with sockets.channel(str(path)) as channel:
        reader = asyncio.create_task(read(channel))
        await both.wait()
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        await plugin.ended.wait()
        assert seen == ["gpu-0", "gpu-1"]
        both.clear()
        reader = asyncio.create_task(read(channel))
        await both.wait()
        await server.stop(0.01)
        with pytest.raises(wire.CallError):
            await reader


async def test_a_server_without_a_socket_is_found_until_it_ends(path: Path) -> None:
    sockets = LocalSockets()
    changes: list[list[str]] = []
    sockets.watch(path.parent, lambda: changes.append([one for one, _ in sockets.listeners(path.parent)]))
    first = sockets.server([path], _add(_Plugin()))
    await first.start()
    (one,) = sockets.listeners(path.parent)
    second = sockets.server([path], _add(_Plugin()))
    await second.start()
    (other,) = sockets.listeners(path.parent)
    assert one[0] == other[0] == str(path)
    assert one[1] != other[1]
    await first.stop(None)
    assert await _prepare(sockets.channel(str(path)), "good") == "prepared"
    await second.stop(None)
    assert changes == [[str(path)], [str(path)], [str(path)], []]


async def test_a_driver_of_another_process_is_reached_over_its_socket(path: Path) -> None:
    elsewhere = UnixSockets().server([path], _add(_Plugin()))
    await elsewhere.start()
    async with LocalSockets().channel(str(path)) as channel:
        assert await _prepare(channel, "good") == "prepared"
    await elsewhere.stop(None)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)


async def test_a_call_to_a_plugin_that_connects_late_does_not_fail(path: Path) -> None:
    behind, done, ended = path.with_name("behind.sock"), asyncio.Event(), asyncio.Event()
    server = UnixSockets().server([behind], _add(_Plugin()))
    await server.start()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The plugin answers a new connection only after several reconnect delays.
        await asyncio.sleep(0.5)
        there, back = await asyncio.open_unix_connection(str(behind))
        copies = asyncio.gather(_copy(reader, back), _copy(there, writer))
        await done.wait()
        for one in (back, writer):
            one.close()
            await one.wait_closed()
        await copies
        ended.set()

    front = await asyncio.start_unix_server(late, str(path))
    async with UnixSockets().channel(str(path)) as channel:
        assert await _prepare(channel, "good") == "prepared"
        done.set()
        await ended.wait()
    await server.stop(None)
    front.close()
    await front.wait_closed()

"""Port forwarding over SPDY, over SPDY in a WebSocket, and over channels of a WebSocket."""

import struct

import pytest

from tests.node_agent.kubelet.spdyclient import Client, upgrade
from tests.support.kubelet.channels import Answered, session
from tests.support.kubelet.endpoints import WEB_SERVER, serve_kubelet
from tests.support.waiting import until

_PROTOCOL = "portforward.k8s.io"
_GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
_PATH = "/portForward/ns/pod"


async def _pair(client: Client, port: int, request: str = "0") -> tuple[int, int]:
    error = await client.open(streamtype="error", port=str(port), requestid=request)
    assert await client.reply() == error
    await client.data(error, b"", final=True)
    data = await client.open(streamtype="data", port=str(port), requestid=request)
    assert await client.reply() == data
    return error, data


async def test_a_server_in_the_pod_answers_over_spdy() -> None:
    async with serve_kubelet(WEB_SERVER) as (_, port), upgrade(port, _PATH, _PROTOCOL) as client:
        for request in ("0", "1"):
            error, data = await _pair(client, 8080, request)
            await client.data(data, _GET)
            found = await client.everything(error, data)
            assert found[error] == b""
            assert found[data].startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
            assert found[data].endswith(b"\r\n\r\nhello\n")


async def test_many_connections_share_one_session() -> None:
    async with serve_kubelet(WEB_SERVER) as (_, port), upgrade(port, _PATH, _PROTOCOL) as client:
        pairs = [await _pair(client, 8080, str(number)) for number in range(20)]
        for _, data in pairs:
            await client.data(data, _GET)
        found = await client.everything(*(number for pair in pairs for number in pair))
        assert all(found[data].endswith(b"hello\n") for _, data in pairs)


async def test_a_closed_port_is_an_error_of_that_connection_only() -> None:
    async with serve_kubelet(WEB_SERVER) as (_, port), upgrade(port, _PATH, _PROTOCOL) as client:
        error, data = await _pair(client, 81)
        found = await client.everything(error, data)
        assert found[error].startswith(
            b"error forwarding port 81 to pod pod-uid, uid : failed to connect to "
        )
        assert b"connection refused" in found[error]
        error, data = await _pair(client, 8080, "1")
        await client.data(data, _GET)
        assert (await client.everything(error, data))[data].endswith(b"hello\n")


async def test_the_end_of_the_client_stream_reaches_the_pod() -> None:
    async with serve_kubelet("nc -l -p 7; echo done; sleep 9999") as (bench, port):
        async with upgrade(port, _PATH, _PROTOCOL) as client:
            error, data = await _pair(client, 7)
            await client.data(data, b"one\n")
            await client.data(data, b"two\n", final=True)
            await client.everything(error, data)
        logs = bench.folder / "runtime"
        await until(lambda: any("done" in path.read_text() for path in logs.glob("*/*.log")))
        assert await bench.log() == "one\ntwo\ndone\n"


async def test_invalid_port_forward_streams_are_rejected() -> None:
    async with serve_kubelet(WEB_SERVER) as (_, port), upgrade(port, _PATH, _PROTOCOL) as client:
        for headers in ({"streamtype": "data"}, {"port": "80"}, {"streamtype": "x", "port": "80"}):
            number = await client.open(False, **headers)
            assert await client.reply() == number
            assert await client.frame() == (-3, 0, struct.pack("!II", number, 3))
        await client.control(6, struct.pack("!I", 5))
        assert await client.frame() == (-6, 0, struct.pack("!I", 5))


async def test_data_that_is_not_spdy_ends_the_session() -> None:
    async with serve_kubelet(WEB_SERVER) as (_, port), upgrade(port, _PATH, _PROTOCOL) as client:
        await client.send(b"\xff" * 64)
        assert (await client.frame())[0] == -7


async def test_an_unknown_protocol_is_rejected() -> None:
    async with serve_kubelet(WEB_SERVER) as (_, port):
        with pytest.raises(Answered) as refused:
            async with upgrade(port, _PATH, "other"):
                pass
        assert (refused.value.code, refused.value.text) == (
            403,
            "unable to upgrade: unable to negotiate protocol: client supports [other], server accepts"
            " [portforward.k8s.io]",
        )
        with pytest.raises(Answered) as absent:
            async with upgrade(port, "/portForward/ns/none", _PROTOCOL):
                pass
        assert (absent.value.code, absent.value.text) == (
            404,
            'pod does not exist: pod "ns/none" not found',
        )


async def test_ports_are_forwarded_over_spdy_in_a_websocket() -> None:
    async with (
        serve_kubelet(WEB_SERVER) as (_, port),
        session(port, _PATH, f"SPDY/3.1+{_PROTOCOL}") as channels,
    ):
        assert channels.protocol.lower() == f"spdy/3.1+{_PROTOCOL}"

        async def send(data: bytes) -> None:
            await channels.send(data[0], data[1:])

        async def receive() -> bytes:
            opcode, payload = await channels.frame()
            assert opcode == 2
            return payload

        client = Client(send, receive)
        error, data = await _pair(client, 8080)
        await client.data(data, _GET)
        assert (await client.everything(error, data))[data].endswith(b"hello\n")


async def test_two_ports_are_forwarded_as_channels_of_a_websocket() -> None:
    async with serve_kubelet(WEB_SERVER) as (_, port):
        async with session(port, f"{_PATH}?port=8080,81", "v4.channel.k8s.io") as channels:
            begun = [await channels.read() for _ in range(4)]
            assert begun == [(number, struct.pack("<H", (8080, 81)[number // 2])) for number in range(4)]
            number, text = await channels.read()
            assert (number, text[:24]) == (3, b"error forwarding port 81")
            await channels.send(0, _GET)
            seen = b""
            while not seen.endswith(b"hello\n"):
                number, data = await channels.read()
                assert number == 0
                seen += data
            assert await channels.frame() == (8, b"\x03\xe8")
        for query in (
            "",
            "?port=",
            "?port=0",
            "?port=x",
            "?port=70000",
            "?port=%C2%B2",
            "?port=" + "0" * 5000,
        ):
            with pytest.raises(Answered) as refused:
                async with session(port, _PATH + query, "v4.channel.k8s.io"):
                    pass
            assert refused.value.code == 400

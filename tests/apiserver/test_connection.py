"""Test a client's connection."""

import asyncio
from pathlib import Path

from dra_apiserver.config import Config
from dra_apiserver.connection import JoiningTransport
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY

from tests.support.waiting import until


class Socket(asyncio.Transport):
    """A socket that records writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[list[bytes]] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append([bytes(data)])

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, list)
        self.written.append(list(list_of_data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def test_writes_of_one_event_loop_iteration_are_sent_together() -> None:
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"head")
    transport.write(b"body")
    assert socket.written == []
    await asyncio.sleep(0)
    transport.write(b"event")
    await asyncio.sleep(0)
    assert socket.written == [[b"head", b"body"], [b"event"]]


async def test_empty_data_is_not_handed_to_the_socket() -> None:
    """Since Python 3.12 asyncio would try forever to write it."""
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"")
    transport.write(b"head")
    transport.write_now(b"")
    transport.write(b"")
    await asyncio.sleep(0)
    assert socket.written == [[b"head"]]


async def test_large_writes_are_sent_at_once_instead_of_buffered() -> None:
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"head")
    transport.write(bytes(1 << 17))
    assert socket.written == [[b"head", bytes(1 << 17)]]


async def test_closing_a_connection_sends_buffered_data() -> None:
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"last")
    transport.close()
    assert socket.written == [[b"last"]]
    assert transport.is_closing()


async def test_nothing_is_written_to_a_closed_socket() -> None:
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"late")
    socket.close()
    await asyncio.sleep(0)
    assert socket.written == []


def _request(method: str, name: str, body: bytes = b"", version: str = "1.1", *headers: str) -> bytes:
    path = "/api/v1/namespaces/default/configmaps" + (f"/{name}" if method != "POST" else "")
    lines = [f"{method} {path} HTTP/{version}", "host: localhost", "content-type: application/json", *headers]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def _config_map(name: str) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%b"}}' % name.encode()


async def test_pipelined_requests_get_their_responses_in_order(tmp_path: Path) -> None:
    async with ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))

        async def answer() -> tuple[int, bytes]:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            return int(head.split()[1]), await reader.readexactly(length)

        # Several requests are sent at once, and the first one waits for the disk.
        many = [_request("POST", name, _config_map(name)) for name in ("a", "b")]
        writer.write(b"".join([*many, _request("GET", "a"), _request("GET", "none")]))
        answers = [await answer() for _ in range(4)]
        assert [code for code, _ in answers] == [201, 201, 200, 404]
        assert [b'"name":"a"' in answers[0][1], b'"name":"b"' in answers[1][1]] == [True, True]
        assert answers[2][1] == answers[0][1]

        # A body in two parts, and one that is only sent after a 100 Continue.
        whole = _request("POST", "c", _config_map("c"))
        writer.write(whole[:-5])
        await writer.drain()
        writer.write(whole[-5:])
        assert (await answer())[0] == 201
        body = _config_map("d")
        expecting = _request("POST", "d", body, "1.1", "expect: 100-continue")
        writer.write(expecting[: -len(body)])
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await answer())[0] == 201

        # A client that does not support persistent connections.
        writer.write(_request("GET", "a", b"", "1.0"))
        assert (await answer())[0] == 200
        assert await reader.read() == b""
        writer.close()


async def test_a_slow_write_is_answered_after_the_client_half_closes(tmp_path: Path) -> None:
    async with ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write(_request("POST", "a", _config_map("a")))
        writer.write_eof()
        assert (await reader.read()).startswith(b"HTTP/1.1 201 ")
        writer.close()


async def test_a_buffered_response_is_sent_after_the_client_half_closes(tmp_path: Path) -> None:
    async with ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server:
        # Answers with headers of their own, and those without a body, are held until the turn of the loop ends.
        for line in (b"GET /livez", b"GET /no", b"HEAD /version", b"GET /openapi/v3"):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
            writer.write(line + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
            writer.write_eof()
            assert (await reader.read()).startswith(b"HTTP/1.1 "), line
            writer.close()


async def test_a_watch_ends_when_its_client_half_closes(tmp_path: Path) -> None:
    async with ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server:
        for delay in (False, True):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
            writer.write(b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            if delay:
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.write_eof()
            async with asyncio.timeout(60):
                assert (await reader.read()).endswith(b"0\r\n\r\n")
            writer.close()
        await until(lambda: not server.api.streams)


_OFFER = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")


async def test_a_dry_run_of_a_delete_that_offers_an_upgrade_deletes_nothing(tmp_path: Path) -> None:
    async with ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write(_request("POST", "a", _config_map("a"), "1.1", *_OFFER))
        writer.write(_request("DELETE", "a", b'{"dryRun":["All"]}', "1.1", *_OFFER))
        writer.write(_request("DELETE", "a", b'{"preconditions":{"uid":"other"}}', "1.1", *_OFFER))
        writer.write(_request("GET", "a", b"", "1.1", *_OFFER) + _request("GET", "a"))
        writer.write_eof()
        answers = (await reader.read()).split(b"HTTP/1.1 ")[1:]
        assert [answer[:3] for answer in answers] == [b"201", b"200", b"409", b"200", b"200"]
        writer.close()

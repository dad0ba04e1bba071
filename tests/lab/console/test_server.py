"""The console's own server."""

import asyncio
from urllib.parse import urlsplit

import pytest
from dra_lab.console.doorkeeper import Doorkeeper, Receive, Scope, Send
from dra_lab.console.server import listen

from tests.support.waiting import until


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": message["body"]})


async def test_bodies_of_requests_that_offer_an_upgrade_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    serving = asyncio.create_task(listen(Doorkeeper(_echo, "secret", True), 0, "", "", False))
    printed = ""

    def address() -> str:
        nonlocal printed
        printed += capsys.readouterr().out
        return printed.partition("\n")[0] if "\n" in printed else ""

    url = urlsplit(await until(address))
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = (
        f"POST /api/v1/nodes HTTP/1.1\r\nhost: 127.0.0.1:{url.port}\r\ncookie: dralab-console=secret\r\n"
        "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
    )
    writer.write(f"{head}content-length: 8\r\n\r\nthe body".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"\r\nthe body\r\n" in answer

"""Relay a terminal's WebSocket between the browser and the cluster, which gets the user's credentials."""

import asyncio
import contextlib
import ssl
from urllib.parse import urlsplit

from dra_kube.reader import Reader
from dra_kube.stream import PROTOCOL, refusal_message, upgrade_request
from dra_shared.websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, FrameError, Frames, frame
from fastapi import WebSocket, WebSocketDisconnect

_CHUNK = 1 << 16
_TIMEOUT = 30.0
# The longest reason in a close frame, in bytes.
_LONGEST_REASON = 123
_REFUSED, _BROKEN = 1008, 1011


async def relay(cluster: Reader, socket: WebSocket, target: str) -> None:
    """Pass messages between the two ends until one of them closes.

    If the cluster rejects the connection, close the socket with its reason.
    """
    await socket.accept(subprotocol=PROTOCOL)
    try:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await _connect(cluster)
            writer.write(upgrade_request(cluster, target))
            head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        await _close(socket, _BROKEN, f"the cluster does not answer: {error}")
        return
    try:
        if head.startswith(b"HTTP/1.1 101"):
            await _join(reader, writer, socket)
        else:
            await _close(socket, _REFUSED, refusal_message(head, await _body(reader)))
    finally:
        writer.close()


async def _connect(cluster: Reader) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(cluster.server)
    if parts.scheme != "https":
        return await asyncio.open_connection(parts.hostname, parts.port or 80)
    tls = cluster.tls or ssl.create_default_context()
    name = cluster.server_name or parts.hostname
    return await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=tls, server_hostname=name)


async def _body(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(2):
            return await reader.read(_CHUNK)
    return b""


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: WebSocket) -> None:
    ways = [asyncio.ensure_future(_to_browser(reader, writer, socket))]
    ways.append(asyncio.ensure_future(_to_cluster(socket, writer)))
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    await _close(socket, 1000, "")


async def _to_browser(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: WebSocket) -> None:
    frames, message = Frames(masked=False), bytearray()
    with contextlib.suppress(OSError, FrameError):
        while data := await reader.read(_CHUNK):
            for one in frames.feed(data):
                if one.opcode == CLOSE:
                    return
                if one.opcode == PING:
                    writer.write(frame(PONG, one.payload, masked=True))
                elif one.opcode in (BINARY, TEXT, CONTINUATION):
                    message += one.payload
                    if one.final:
                        await socket.send_bytes(bytes(message))
                        message.clear()


async def _to_cluster(socket: WebSocket, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(WebSocketDisconnect, OSError):
        while True:
            writer.write(frame(BINARY, await socket.receive_bytes(), masked=True))
            await writer.drain()


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    # The browser may have closed the connection already.
    with contextlib.suppress(RuntimeError):
        await socket.close(code, reason.encode()[:_LONGEST_REASON].decode(errors="ignore"))

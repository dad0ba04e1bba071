"""Connections to the ports of pods through their nodes, and an httpcore backend for HTTP over them."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from dra_shared.websocket import BINARY, CLOSE, PING, PONG, Frames, frame

from dra_apiserver.nodeaccess import NodeAccess

if TYPE_CHECKING:
    import httpcore

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PROTOCOL = "v4.channel.k8s.io"
_CONNECT_TIMEOUT = 5.0
_DATA, _ERROR = 0, 1
_PIECE = 1 << 15


class Tunnel:
    """A connection to a port of a pod by the kubelet's port-forward, a WebSocket with a channel for data."""

    def __init__(
        self, host: str, kubelet: int, namespace: str, pod: str, port: int, address: str, access: NodeAccess
    ) -> None:
        self._host, self._kubelet = host, kubelet
        self._access = access
        self._path = f"/portForward/{namespace}/{pod}?port={port}"
        self._place = f"{address}:{port}"
        self._failed = False
        self._pump: asyncio.Task[None] | None = None

    def failure(self) -> str:
        """Return the error of the connection, or "" if it was established."""
        return f"dial tcp {self._place}: connect: connection refused" if self._failed else ""

    async def connect(self) -> Streams:
        """Open the connection.

        Raises:
            OSError: the node can't be reached, or does not forward ports.
        """
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(
                self._host, self._kubelet, ssl=self._access.context()
            )
            try:
                await self._upgrade(reader, writer)
            except BaseException:
                writer.close()
                raise
        ours, theirs = socket.socketpair()
        end = await asyncio.open_connection(sock=theirs)
        self._pump = asyncio.ensure_future(self._copy((reader, writer), end))
        return await asyncio.open_connection(sock=ours)

    async def _upgrade(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (
            f"GET {self._path} HTTP/1.1",
            f"Host: {self._host}:{self._kubelet}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            f"Sec-WebSocket-Protocol: {_PROTOCOL}",
            *(f"{name.decode()}: {value.decode()}" for name, value in self._access.headers),
        )
        writer.write("\r\n".join((*lines, "", "")).encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionError("the node ended the connection") from error
        first = head.split(b"\r\n", 1)[0].decode("latin-1")
        if first.split(" ")[1:2] != ["101"]:
            raise ConnectionError(f"the node does not forward ports: {first}")

    async def _copy(self, node: Streams, end: Streams) -> None:
        (reader, writer), (here, back) = node, end

        async def up() -> None:
            while data := await here.read(_PIECE):
                writer.write(frame(BINARY, bytes((_DATA,)) + data, masked=True))
                await writer.drain()

        async def down() -> None:
            frames = Frames(masked=False)
            # Each channel begins with the port's number.
            left = {_DATA: struct.calcsize("<H"), _ERROR: struct.calcsize("<H")}
            while data := await reader.read(_PIECE):
                for _, opcode, payload in frames.feed(data):
                    if opcode == CLOSE:
                        return
                    if opcode == PING:
                        writer.write(frame(PONG, payload, masked=True))
                    if opcode != BINARY or not payload or payload[0] not in left:
                        continue
                    rest = payload[1 + left[payload[0]] :]
                    left[payload[0]] = 0
                    if payload[0] == _ERROR and rest:
                        self._failed = True
                    elif payload[0] == _DATA and rest:
                        back.write(rest)
                await back.drain()

        sending, receiving = asyncio.ensure_future(up()), asyncio.ensure_future(down())
        try:
            # Neither side can close one direction only, so the end of one is the end of the connection.
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)
            back.close()
            writer.close()


def backend_of(connect: Callable[[], Awaitable[Streams]]) -> httpcore.AsyncNetworkBackend:
    """Return an httpcore backend that opens all connections with `connect`, regardless of their address."""
    import httpcore

    class Stream(httpcore.AsyncNetworkStream):
        def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._reader, self._writer = reader, writer

        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            try:
                return await self._reader.read(max_bytes)
            except OSError as error:
                raise httpcore.ReadError(str(error)) from error

        async def write(self, buffer: bytes, timeout: float | None = None) -> None:
            try:
                self._writer.write(buffer)
                await self._writer.drain()
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

        async def aclose(self) -> None:
            self._writer.close()

        async def start_tls(
            self,
            ssl_context: ssl.SSLContext,
            server_hostname: str | None = None,
            timeout: float | None = None,
        ) -> httpcore.AsyncNetworkStream:
            try:
                await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
            except OSError as error:
                raise httpcore.ConnectError(str(error)) from error
            return self

        def get_extra_info(self, info: str) -> Any:
            return self._writer.get_extra_info(info)

    class Backend(httpcore.AsyncNetworkBackend):
        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,
            local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> httpcore.AsyncNetworkStream:
            try:
                return Stream(*await connect())
            except (OSError, TimeoutError) as error:
                why = os.strerror(error.errno).lower() if error.errno else str(error) or "i/o timeout"
                place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                raise httpcore.ConnectError(f"dial tcp {place}: connect: {why}") from error

    return Backend()

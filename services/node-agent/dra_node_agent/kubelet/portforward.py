"""port-forward: connections to the ports of a pod (pkg/kubelet's cri/streaming/portforward).

kubectl uses SPDY, directly or through a WebSocket: each connection is a pair of streams, one for data and
one for an error. Other clients use a WebSocket with two channels for each port.
"""

import asyncio
import base64
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from dra_shared.numerals import integer, is_digits

from dra_node_agent.kubelet.spdy import SPDY, Session, Stream
from dra_node_agent.kubelet.websocket import Refused, Upgrade, WebSocket
from dra_node_agent.runtime.base import RuntimeFailure
from dra_node_agent.tasks import Tasks

# The protocol on SPDY, and the WebSocket protocol that tunnels it.
PROTOCOL = "portforward.k8s.io"
_TUNNEL = f"{SPDY}+{PROTOCOL}"
_CHANNELS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
_VERSIONS = "x-stream-protocol-version"
_DATA, _ERROR = "data", "error"
_PIECE = 1 << 15
# The maximum number of pairs with only one stream so far.
_MOST_WAITING = 128
_MOST_PORTS = 127

Connect = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class _Data(Protocol):
    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...


async def serve(socket: WebSocket, connect: Connect, pod_uid: str) -> None:
    """Forward ports of a pod. `connect` opens a connection to one of them.

    Raises:
        Refused: the client uses an unknown protocol, or names no port.
    """
    request = socket.request
    if request.headers.get("upgrade", "").lower() == SPDY.lower():
        versions = _offered_protocols(request)
        if PROTOCOL not in versions:
            text = f"client supports [{' '.join(versions)}], server accepts [{PROTOCOL}]"
            raise Refused(403, f"unable to upgrade: unable to negotiate protocol: {text}")
        socket.switch(SPDY, {_VERSIONS: PROTOCOL})
        await _Pairs(Session(socket), connect, pod_uid).run()
    elif _TUNNEL in request.protocols:
        socket.accept(_TUNNEL)
        await _Pairs(Session(socket), connect, pod_uid).run()
    else:
        await _Channels(socket, _ports(request.query)).run(connect, pod_uid)


def _offered_protocols(request: Upgrade) -> Sequence[str]:
    if _VERSIONS not in request.headers:
        text = (
            f"header X-Stream-Protocol-Version does not exist in request with {len(request.headers)} headers"
        )
        raise Refused(400, f"unable to upgrade: {text}")
    return [name.strip() for name in request.headers[_VERSIONS].split(",") if name.strip()]


async def _forward(data: _Data, connect: Connect, port: int, pod_uid: str) -> str:
    """Copy in both directions until the pod closes the connection. Return the error, or an empty string."""
    try:
        reader, writer = await connect(port)
    except RuntimeFailure as error:
        return f"error forwarding port {port} to pod {pod_uid}, uid : {error}"

    async def copy_upwards() -> None:
        while piece := await data.read():
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    sending = asyncio.ensure_future(copy_upwards())
    try:
        while piece := await reader.read(_PIECE):
            await data.write(piece)
    except ConnectionError as error:
        return f"error forwarding port {port} to pod {pod_uid}, uid : {error}"
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
    return ""


class _Pairs:
    """The pairs of streams of one SPDY connection."""

    def __init__(self, session: Session, connect: Connect, pod_uid: str) -> None:
        self._session = session
        self._connect = connect
        self._pod_uid = pod_uid
        self._waiting: dict[str, dict[str, Stream]] = {}
        self._tasks = Tasks()

    async def run(self) -> None:
        """Forward until the client closes the connection."""
        self._tasks.start(self._session.run())
        try:
            while (stream := await self._session.accept_stream()) is not None:
                await self._take(stream)
        finally:
            await self._tasks.close()

    async def _take(self, stream: Stream) -> None:
        kind, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
        if kind not in (_DATA, _ERROR) or not is_digits(port) or not 0 < integer(port) < 1 << 16:
            await self._session.refuse(stream)
            return
        # Old clients send no request id. They open the error stream first, directly followed by the data
        # stream.
        own = str(stream.number if kind == _ERROR else stream.number - 2)
        request = stream.headers.get("requestid", own)
        pair = self._waiting.setdefault(request, {})
        if kind in pair or len(self._waiting) > _MOST_WAITING:
            await self._session.refuse(stream)
            return
        pair[kind] = stream
        if len(pair) == 2:
            del self._waiting[request]
            self._tasks.start(self._forward(pair[_DATA], pair[_ERROR], integer(port)))

    async def _forward(self, data: Stream, error: Stream, port: int) -> None:
        text = await _forward(data, self._connect, port, self._pod_uid)
        if text:
            await error.write(text.encode())
        for stream in (data, error):
            await stream.close()
            self._session.forget(stream)


def _ports(query: Sequence[tuple[str, str]]) -> Sequence[int]:
    values = [value for name, value in query if name == "port"]
    if not values:
        raise Refused(400, 'query parameter "port" is required')
    ports = []
    for value in values:
        if not value:
            raise Refused(400, 'query parameter "port" cannot be empty')
        for text in value.split(","):
            if not is_digits(text) or integer(text) >= 1 << 16:
                raise Refused(400, f'unable to parse "{value}" as a port')
            if integer(text) < 1:
                raise Refused(400, f'port "{value}" must be > 0')
            ports.append(integer(text))
    if len(ports) > _MOST_PORTS:
        raise Refused(400, "too many ports")
    return ports


class _Channel:
    """The data of one port on a WebSocket."""

    def __init__(self, send: Callable[[int, bytes], Awaitable[None]], number: int) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue(64)
        self._send, self._number = send, number

    async def read(self) -> bytes:
        """Return the next piece."""
        return await self.pieces.get()

    async def write(self, data: bytes) -> None:
        """Send data."""
        await self._send(self._number, data)


class _Channels:
    """A WebSocket with two channels for each port: data and errors. Each starts with the port's number."""

    def __init__(self, socket: WebSocket, ports: Sequence[int]) -> None:
        self._socket = socket
        self._ports = ports
        offered = socket.request.protocols or ("",)
        protocol = next((name for name in offered if name in _CHANNELS), None)
        if protocol is None:
            raise Refused(400, f"unable to upgrade: unable to negotiate protocol: client supports {offered}")
        self._protocol = protocol
        self._coded = "base64." in protocol

    async def run(self, connect: Connect, pod_uid: str) -> None:
        """Forward until every port's connection has ended, or the client has disconnected."""
        self._socket.accept(self._protocol)
        channels: dict[int, _Channel] = {}
        for index, port in enumerate(self._ports):
            for number in (2 * index, 2 * index + 1):
                await self._send(number, struct.pack("<H", port))
            channels[2 * index] = _Channel(self._send, 2 * index)

        async def one(index: int, port: int) -> None:
            text = await _forward(channels[2 * index], connect, port, pod_uid)
            if text:
                await self._send(2 * index + 1, text.encode())

        work = asyncio.gather(*(one(index, port) for index, port in enumerate(self._ports)))
        reading = asyncio.ensure_future(self._read(channels))
        try:
            await asyncio.wait((work, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            reading.cancel()
            await asyncio.gather(work, reading, return_exceptions=True)

    async def _send(self, number: int, data: bytes) -> None:
        if self._coded:
            await self._socket.send(str(number).encode() + base64.b64encode(data))
        else:
            await self._socket.send(bytes((number,)) + data)

    async def _read(self, channels: Mapping[int, _Channel]) -> None:
        async for message in self._messages():
            number, data = message[0], message[1:]
            if self._coded:
                number, data = number - ord("0"), base64.b64decode(data)
            if number in channels and data:
                await channels[number].pieces.put(data)

    async def _messages(self) -> AsyncIterator[bytes]:
        while (message := await self._socket.receive()) is not None:
            if message:
                yield message

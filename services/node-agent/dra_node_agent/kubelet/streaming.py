"""exec and attach over WebSocket, in the channel protocol of kubectl and client-go (``v5.channel.k8s.io``).

The first byte of each message is its channel. The outcome is a Status on the error channel.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dra_node_agent.kubelet.websocket import Refused, Upgrade, WebSocket
from dra_node_agent.runtime.base import RuntimeFailure, TerminalSize

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _END = 0, 1, 2, 3, 4, 255
_V5 = "v5.channel.k8s.io"
_BASE64 = "base64."
# The supported protocols, and whether their outcome is a Status (or only text, in old ones).
_PROTOCOLS: Mapping[str, bool] = {
    _V5: True,
    "v4.channel.k8s.io": True,
    "v4.base64.channel.k8s.io": True,
    "channel.k8s.io": False,
    "base64.channel.k8s.io": False,
    "": False,
}
_PIECE = 1 << 15


class _Size(msgspec.Struct, rename="pascal"):
    """A message of the resize channel (client-go's remotecommand.TerminalSize)."""

    width: int
    height: int


_size = msgspec.json.Decoder(_Size)


class ChannelStreams:
    """A client's streams. ``stdin``, ``stdout`` and ``stderr`` are true for those that it wants.

    Raises:
        Refused: it wants none of them.
    """

    def __init__(self, socket: WebSocket) -> None:
        query = dict(socket.request.query)
        self.stdin, self.stdout = _is_set(query, "input"), _is_set(query, "output")
        self.tty = _is_set(query, "tty")
        # A terminal has a single output.
        self.stderr = _is_set(query, "error") and not self.tty
        if not (self.stdin or self.stdout or self.stderr):
            raise Refused(400, "you must specify at least 1 of stdin, stdout, stderr")
        self._socket = socket
        self._protocol = _choose(socket.request)
        self._input: asyncio.Queue[bytes] = asyncio.Queue(64)
        self._ended = False
        self._reader: asyncio.Task[None] | None = None
        self._size: TerminalSize | None = None
        self._resized: Callable[[TerminalSize], None] | None = None

    async def open(self) -> None:
        """Accept the connection, and send an empty message, which the client may wait for."""
        self._socket.accept(self._protocol)
        await self._send(_STDOUT if self.stdout else _STDERR if self.stderr else _ERROR, b"")
        self._reader = asyncio.get_running_loop().create_task(self._read_all())

    async def run(self, work: asyncio.Task[int]) -> int | None:
        """Return the result of ``work``. If the client disconnects, cancel it and return None."""
        assert self._reader is not None
        gone = self._reader
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def read(self) -> bytes:
        """Return the client's input, or empty bytes at its end."""
        if not self.stdin or (self._ended and self._input.empty()):
            return b""
        data = await self._input.get()
        if not data:
            self._ended = True
        return data

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Send output. A terminal has a single stream."""
        channel = _STDERR if stderr and not self.tty else _STDOUT
        if not (self.stderr if channel == _STDERR else self.stdout):
            return
        for start in range(0, len(data), _PIECE):
            await self._send(channel, data[start : start + _PIECE])

    def on_resize(self, handler: Callable[[TerminalSize], None]) -> None:
        """Call ``handler`` with the terminal's size, at once if the client has already sent one."""
        self._resized = handler
        if self._size is not None:
            handler(self._size)

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Send the outcome."""
        if _PROTOCOLS[self._protocol]:
            await self._send(_ERROR, msgspec.json.encode({"metadata": {}, **status}))
        elif status["status"] != "Success":
            await self._send(_ERROR, str(status.get("message", "")).encode())

    async def _send(self, channel: int, data: bytes) -> None:
        if _BASE64 in self._protocol:
            await self._socket.send(str(channel).encode() + base64.b64encode(data))
        else:
            await self._socket.send(bytes((channel,)) + data)

    async def _read_all(self) -> None:
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            if _BASE64 in self._protocol:
                channel, data = message[0] - ord("0"), base64.b64decode(message[1:])
            else:
                channel, data = message[0], message[1:]
            if channel == _STDIN and data:
                await self._input.put(data)
            elif channel == _END and self._protocol == _V5 and data[:1] == bytes((_STDIN,)):
                await self._input.put(b"")
            elif channel == _RESIZE and self.tty:
                self._resize(data)

    def _resize(self, data: bytes) -> None:
        try:
            size = _size.decode(data)
        except msgspec.DecodeError:
            return
        self._size = TerminalSize(size.width, size.height)
        if self._resized is not None:
            self._resized(self._size)


def exit_status(command: Sequence[str], code: int) -> Mapping[str, Any]:
    """Return the outcome of a command."""
    if code == 0:
        return {"status": "Success"}
    return {
        "status": "Failure",
        "message": "command terminated with non-zero exit code: error executing command"
        f" [{' '.join(command)}], exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure_status(action: str, error: RuntimeFailure) -> Mapping[str, Any]:
    """Return the outcome of a failure of the runtime."""
    return {
        "status": "Failure",
        "message": f"Internal error occurred: error {action} container: {error}",
        "reason": "InternalError",
        "details": {"causes": [{"message": f"error {action} container: {error}"}]},
        "code": 500,
    }


def _choose(request: Upgrade) -> str:
    offered = request.protocols
    for name in offered or ("",):
        if name in _PROTOCOLS:
            return name
    raise Refused(400, f"unable to upgrade: unable to negotiate protocol: client supports {offered}")


def _is_set(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true")

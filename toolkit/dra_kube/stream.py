"""A command's streams over a WebSocket, as in kubectl since 1.30: subprotocol v5.channel.k8s.io.

The first byte of each message is its channel: 0 standard input, 1 standard output, 2 standard error, 3 the command's
status, 4 the terminal's size; 255 closes a channel.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from dra_shared.errors import UserError
from dra_shared.websocket import BINARY, CLOSE, PING, PONG, TEXT, Frames, frame

from dra_kube.reader import Reader

PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _STATUS, _SIZE, _CLOSED = 0, 1, 2, 3, 4, 255
_CHUNK = 65536


def execute(reader: Reader, path: str, params: Sequence[tuple[str, str]], *, stdin: bool, tty: bool) -> int:
    """Run a command in a container with our standard streams, and return its exit code.

    Raises:
        UserError: the server rejects the request, or the connection breaks.
    """
    query = [*params, ("stdout", "true"), ("stderr", "false" if tty else "true")]
    query += [("stdin", "true")] * stdin + [("tty", "true")] * tty
    connection, early = _connect(reader, f"{path}?{urlencode(query)}")
    link = _Link(connection)
    with contextlib.closing(connection), _raw(tty and stdin), _sizes(link, wanted=tty):
        if stdin:
            threading.Thread(target=_feed, args=(link,), daemon=True).start()
        return _receive(link, early)


class _Link:
    """The connection; several threads send on it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._lock = threading.Lock()

    def send(self, channel: int, data: bytes) -> None:
        """Send a message on a channel."""
        self._frame(BINARY, bytes([channel]) + data)

    def pong(self, data: bytes) -> None:
        """Answer a ping."""
        self._frame(PONG, data)

    def _frame(self, opcode: int, payload: bytes) -> None:
        with self._lock:
            self.connection.sendall(frame(opcode, payload, masked=True))


def upgrade_request(reader: Reader, path: str) -> bytes:
    """Return the head of the request that opens a WebSocket at the path, with the reader's credentials."""
    parts = urlsplit(reader.server)
    headers = {
        "Host": parts.netloc,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": PROTOCOL,
        **reader.headers,
    }
    lines = [
        f"GET {parts.path.rstrip('/')}{path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def refusal_message(head: bytes, body: bytes) -> str:
    """Return why the server did not open a WebSocket: its Status message, or the first line of its answer."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return head.split(b"\r\n")[0].decode(errors="replace")


def _connect(reader: Reader, path: str) -> tuple[socket.socket, bytes]:
    parts = urlsplit(reader.server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    try:
        connection = socket.create_connection((host, port))
    except OSError as error:
        raise UserError(f"cannot reach the API server at {reader.server}: {error}") from error
    if parts.scheme == "https":
        tls = reader.tls or ssl.create_default_context()
        connection = tls.wrap_socket(connection, server_hostname=reader.server_name or host)
    connection.sendall(upgrade_request(reader, path))
    answer = b""
    while b"\r\n\r\n" not in answer:
        chunk = connection.recv(_CHUNK)
        if not chunk:
            break
        answer += chunk
    head, _, early = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 101"):
        body = _body(connection, head, early)
        raise UserError(f"Error from server: {refusal_message(head, body)}")
    return connection, early


def _body(connection: socket.socket, head: bytes, body: bytes) -> bytes:
    connection.settimeout(2)
    with contextlib.suppress(OSError, ValueError):
        length = next(
            int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        while len(body) < length and (chunk := connection.recv(_CHUNK)):
            body += chunk
    return body


def _feed(link: _Link) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(sys.stdin.fileno(), _CHUNK):
            link.send(_STDIN, data)
        link.send(_CLOSED, bytes([_STDIN]))


@contextlib.contextmanager
def _sizes(link: _Link, *, wanted: bool) -> Iterator[None]:
    """Send the terminal's size, now and whenever it changes (kubectl/pkg/util/term/resizeevents.go)."""
    if not wanted:
        yield
        return
    _send_size(link)
    # Block the signal and let a thread wait for it, so that it interrupts no read. A handler must be set, because an
    # ignored signal would not be delivered at all.
    before = signal.signal(signal.SIGWINCH, lambda number, where: None)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
    ended = threading.Event()
    follower = threading.Thread(target=_follow_size, args=(link, ended), daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        if follower.ident is not None and follower.is_alive():
            signal.pthread_kill(follower.ident, signal.SIGWINCH)
        follower.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGWINCH, before)


def _follow_size(link: _Link, ended: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while True:
            signal.sigwait({signal.SIGWINCH})
            if ended.is_set():
                return
            _send_size(link)


def _send_size(link: _Link) -> None:
    try:
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns, lines = shutil.get_terminal_size()
    link.send(_SIZE, json.dumps({"Width": columns, "Height": lines}).encode())


def _receive(link: _Link, data: bytes) -> int:
    frames, outputs = Frames(masked=False), {_STDOUT: sys.stdout.buffer, _STDERR: sys.stderr.buffer}
    while True:
        for one in frames.feed(data):
            if one.opcode == PING:
                link.pong(one.payload)
            elif one.opcode == CLOSE:
                raise UserError("the server closed the stream")
            elif one.opcode in (BINARY, TEXT) and one.payload:
                channel, payload = one.payload[0], one.payload[1:]
                if channel == _STATUS:
                    return _code(json.loads(payload))
                if channel in outputs:
                    outputs[channel].write(payload)
                    outputs[channel].flush()
        data = link.connection.recv(_CHUNK)
        if not data:
            raise UserError("the connection ended before the command")


def _code(status: dict[str, Any]) -> int:
    """Return the exit code in a Status.

    Raises:
        UserError: the command was not run.
    """
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise UserError(str(status.get("message") or "the command failed"))


@contextlib.contextmanager
def _raw(wanted: bool) -> Iterator[None]:
    """Put the terminal, if there is one, into raw mode for the block, so that the command gets every key."""
    if not wanted or not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

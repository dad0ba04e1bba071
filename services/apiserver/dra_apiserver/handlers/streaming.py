"""pods/exec and pods/attach: a connection that is handed through to the pod's node.

The API server only finds the node, repeats the request there and copies bytes both ways; which protocol the two ends
speak after the upgrade is theirs to agree on (upstream's pkg/registry/core/pod/rest and upgradeaware proxy).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlencode

from dra_apiserver.errors import bad_request, forbidden, internal, not_found
from dra_apiserver.handlers.api import Api, Target
from dra_apiserver.handlers.logs import choose_container, node_address
from dra_apiserver.http import Request

#: The key in a request's scope under which an upgrade's connection can be had, and the message that it was taken.
TAKE_OVER = "dralab.take_over"

_CONNECT_TIMEOUT = 5.0
_FLAGS = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
# The node sees this server as its client, and gets none of the credentials that are meant for it.
_NOT_PASSED = frozenset({b"host", b"authorization", b"content-length", b"transfer-encoding"})


class Peer(Protocol):
    """The client's end of a connection that was taken over."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def pause(self, paused: bool) -> None:
        """Stop reading from the client, or go on."""
        ...


TakeOver = Callable[[Callable[[bytes], None], Callable[[], None]], Peer]


def _options(request: Request, target: Target, container: str) -> dict[str, Any]:
    """What is asked for, as the object that policies and webhooks see."""
    flags = {name: True for name, _ in _FLAGS if request.flag(name)}
    command = [word for name, word in request.parameters if name == "command"]
    kind = "PodExecOptions" if target.subresource == "exec" else "PodAttachOptions"
    said = {"kind": kind, "apiVersion": "v1", **flags, "container": container}
    return said | ({"command": command} if command else {})


async def stream(api: Api, request: Request, target: Target) -> None:
    """Hand the connection through to the container's node until either side ends it."""
    # As upstream: to read is not enough, also where a WebSocket comes by GET.
    reason = api.context(target, request.user).authorize(
        "create", f"pods/{target.subresource}", target.namespace, target.name
    )
    if reason is not None:
        raise forbidden(target.qualified, target.name, reason)
    record = api.store.get(target.resource, target.key)
    if record is None:
        raise not_found(target.qualified, target.name)
    pod = record.object()
    container = choose_container(pod, request.query.get("container", ""))
    host = pod["spec"].get("nodeName")
    if not host:
        raise bad_request(f"pod {target.name} does not have a host assigned")
    if api.dynamic is not None:
        ctx = api.context(target, request.user)
        await api.dynamic.admit(request, target, _options(request, target, container), ctx, "CONNECT")
    address, port = node_address(api, host)
    take_over: TakeOver | None = request.scope.get(TAKE_OVER)
    if take_over is None:
        raise bad_request("Upgrade request required")
    passed = [("command", word) for name, word in request.parameters if name == "command"]
    passed += [(there, "1") for here, there in _FLAGS if request.flag(here)]
    path = f"/{target.subresource}/{target.namespace}/{target.name}/{container}"
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError) as error:
        raise internal(f"error dialing backend: dial tcp {address}:{port}: {error}") from None
    try:
        writer.write(_head(request, f"{path}?{urlencode(passed)}", f"{address}:{port}"))
        gone = asyncio.Event()

        def to_node(data: bytes) -> None:
            writer.write(data)
            if writer.transport.get_write_buffer_size():
                peer.pause(True)
                drains.add(drain := asyncio.ensure_future(_drained(writer, peer)))
                drain.add_done_callback(drains.discard)

        drains: set[asyncio.Future[None]] = set()
        peer = take_over(to_node, gone.set)
        request.code = 101
        copying = asyncio.ensure_future(_copy(reader, peer))
        leaving = asyncio.ensure_future(gone.wait())
        await asyncio.wait((copying, leaving), return_when=asyncio.FIRST_COMPLETED)
        copying.cancel()
        leaving.cancel()
        await asyncio.gather(copying, leaving, *drains, return_exceptions=True)
        peer.close()
    finally:
        writer.close()


def _head(request: Request, path: str, host: str) -> bytes:
    lines = [f"{request.method} {path} HTTP/1.1".encode(), b"host: " + host.encode()]
    lines += [name + b": " + value for name, value in request.scope["headers"] if name not in _NOT_PASSED]
    return b"\r\n".join([*lines, b"", b""])


async def _drained(writer: asyncio.StreamWriter, peer: Peer) -> None:
    try:
        await writer.drain()
    except ConnectionError:
        return
    peer.pause(False)


async def _copy(reader: asyncio.StreamReader, peer: Peer) -> None:
    try:
        while data := await reader.read(1 << 16):
            peer.write(data)
    except ConnectionError:
        return

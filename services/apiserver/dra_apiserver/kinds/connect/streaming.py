"""pods/exec, pods/attach and pods/portforward: connect the client to the pod's node.

The API server only finds the node, repeats the request there and copies bytes both ways. The two ends choose
the protocol after the upgrade (upstream's pkg/registry/core/pod/rest and upgradeaware proxy).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlencode

from dra_shared.jsontypes import JsonObject
from dra_shared.numerals import integer

from dra_apiserver.api import Api, Route
from dra_apiserver.connection import TAKE_OVER
from dra_apiserver.errors import bad_request, forbidden_error, not_found, quote, server_error
from dra_apiserver.handthrough import upgrade
from dra_apiserver.http import Headers, Request
from dra_apiserver.kinds.connect.logs import choose_container, node_address
from dra_apiserver.target import Target

_CONNECT_TIMEOUT = 5.0
_FLAGS = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
# The node sees this server as its client, which is not a web page, and must not get the credentials for this
# server.
_NOT_PASSED = frozenset(
    {
        b"host",
        b"authorization",
        b"cookie",
        b"origin",
        b"sec-fetch-site",
        b"expect",
    }
)


def _ports(request: Request) -> list[int]:
    ports = [value for name, value in request.parameters if name == "ports"]
    try:
        return [integer(port) for port in ports]
    except ValueError:
        raise bad_request(f"strconv.ParseInt: parsing {quote(ports[0])}: invalid syntax") from None


def _options(request: Request, target: Target, container: str) -> JsonObject:
    """Return the options of the request as the object for policies and webhooks."""
    if target.subresource == "portforward":
        ports = _ports(request)
        return {"kind": "PodPortForwardOptions", "apiVersion": "v1", **({"ports": ports} if ports else {})}
    flags = {name: True for name, _ in _FLAGS if request.flag(name)}
    command = [word for name, word in request.parameters if name == "command"]
    kind = "PodExecOptions" if target.subresource == "exec" else "PodAttachOptions"
    options = {"kind": kind, "apiVersion": "v1", **flags, "container": container}
    return options | ({"command": command} if command else {})


def _path(request: Request, target: Target, container: str) -> str:
    """Return the kubelet's path for the request, with its query."""
    if target.subresource == "portforward":
        ports = ",".join(map(str, _ports(request)))
        query = f"?{urlencode({'port': ports})}" if ports else ""
        return f"/portForward/{target.namespace}/{target.name}{query}"
    passed = [("command", word) for name, word in request.parameters if name == "command"]
    passed += [(there, "1") for here, there in _FLAGS if request.flag(here)]
    return f"/{target.subresource}/{target.namespace}/{target.name}/{container}?{urlencode(passed)}"


async def stream(api: Api, request: Request, target: Target) -> None:
    """Connect the client to the pod's node until either side closes the connection."""
    if "dryRun" in request.query:
        raise bad_request("dryRun is not supported")
    # As upstream, permission to read is not enough, although a WebSocket begins with a GET.
    ctx = api.context(target, request.user)
    reason = ctx.authorize("create", f"pods/{target.subresource}", target.namespace, target.name)
    if reason is not None:
        raise forbidden_error(target.qualified_resource, target.name, reason)
    record = api.store.get(target.resource, target.key)
    if record is None:
        raise not_found(target.qualified_resource, target.name)
    pod = record.object()
    container = ""
    if target.subresource != "portforward":
        container = choose_container(pod, request.query.get("container", ""))
    host = pod["spec"].get("nodeName")
    if not host:
        raise bad_request(f"pod {target.name} does not have a host assigned")
    await api.admit(request, target, _options(request, target, container), ctx, "CONNECT")
    path = _path(request, target, container)
    address, port = node_address(api, host)
    if request.scope.get(TAKE_OVER) is None:
        raise bad_request("Upgrade request required")
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(address, port, ssl=api.config.nodes.context())
    except (OSError, TimeoutError) as error:
        raise server_error(f"error dialing backend: dial tcp {address}:{port}: {error}") from None
    head = upgrade_head(request, path, f"{address}:{port}", api.config.nodes.headers)
    await upgrade(request, reader, writer, head)


def upgrade_head(request: Request, path: str, host: str, more: Headers) -> bytes:
    """Return the head of the request for another server, with ``more`` headers."""
    lines = [f"{request.method} {path} HTTP/1.1".encode(), b"host: " + host.encode()]
    passed = [header for header in request.scope["headers"] if header[0] not in _NOT_PASSED]
    lines += [name + b": " + value for name, value in (*passed, *more)]
    return b"\r\n".join([*lines, b"", b""])


ROUTES: Mapping[str, Route] = {"GET": ("get", stream), "POST": ("create", stream)}
"""The methods of exec, attach and portforward."""

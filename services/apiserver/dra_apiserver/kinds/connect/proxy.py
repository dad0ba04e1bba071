"""The `proxy` subresource of pods, services and nodes: forward requests to their target.

Mirrors apimachinery's `util/proxy` (UpgradeAwareHandler, Transport) and Go's `httputil.ReverseProxy`.
"""

from __future__ import annotations

import functools
import gzip
import posixpath
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote as percent_encoded

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api, Route
from dra_apiserver.connection import TAKE_OVER
from dra_apiserver.errors import bad_request, server_error, service_unavailable
from dra_apiserver.handthrough import upgrade
from dra_apiserver.http import Headers, Request
from dra_apiserver.kinds.connect.locations import Location, locate
from dra_apiserver.kinds.connect.pagelinks import rewrite_page, rewrite_url
from dra_apiserver.kinds.connect.tunnel import backend_of
from dra_apiserver.target import Target

if TYPE_CHECKING:
    import httpcore


_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Credentials for the API server itself.
_CREDENTIALS = ("authorization", "impersonate-")
# The date is set by this server.
_NOT_ANSWERED = frozenset(
    {
        b"date",
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
    }
)
# In bytes. Links in longer pages are not rewritten.
_LONGEST_PAGE = 8 << 20
_EMPTY_PATH = frozenset({"GET", "HEAD"})
# Characters that Go does not escape in a URL's path.
_PLAIN = "$&+,/:;=@~"


def _path(request: Request, target: Target) -> str:
    """Return the part of the request's path after `proxy`, as in upstream's options."""
    # Go's RequestInfo splits the path without its leading and trailing slash.
    parts = request.path.strip("/").split("/")[7 if target.kind.namespaced else 5 :]
    path = "/".join(parts)
    if path and not path.startswith("/"):
        path = f"/{path}"
    return f"{path}/" if request.path.endswith("/") and not path.endswith("/") else path


async def proxy(api: Api, request: Request, target: Target) -> None:
    """Forward the request to the pod, the service's endpoint or the node, and pass on the response.

    Raises:
        StatusError: 400, 404, 500 or 503, the target can't be found or reached.
    """
    if "dryRun" in request.query:
        raise bad_request("dryRun is not supported")
    path = _path(request, target)
    options: JsonObject = {"kind": target.kind.subresources["proxy"].kind, "apiVersion": "v1"}
    ctx = api.context(target, request.user)
    await api.admit(request, target, options | ({"path": path} if path else {}), ctx, "CONNECT")
    location = locate(api, target)
    # Go's path.Join removes the trailing slash. It is added again if the request has it.
    joined = posixpath.normpath(f"/{path.lstrip('/')}") if path else ""
    if request.scope.get(TAKE_OVER) is not None:
        await _upgrade(request, location, joined)
        return
    if joined and request.path.endswith("/") and not joined.endswith("/"):
        joined += "/"
    joined = "/" if not joined and request.path.endswith("/") else joined
    query = request.scope["query_string"].decode("latin-1")
    if not joined and request.method in _EMPTY_PATH:
        to = f"{request.path}/" + (f"?{query}" if query else "")
        await request.respond(
            301, b"", "text/plain; charset=utf-8", {"Location": percent_encoded(to, _PLAIN + "?%")}
        )
        return
    target_path = percent_encoded(joined or "/", _PLAIN) + (f"?{query}" if query else "")
    await _Exchange(request, location, joined).run(target_path)


async def _upgrade(request: Request, location: Location, path: str) -> None:
    try:
        reader, writer = await location.connect()
        if location.scheme == "https":
            await writer.start_tls(_unverified_context(), server_hostname=location.host)
    except OSError as error:
        raise server_error(f"error dialing backend: {error}") from None
    query = request.scope["query_string"].decode("latin-1")
    wanted = percent_encoded(path or "/", _PLAIN) + (f"?{query}" if query else "")
    lines = [f"{request.method} {wanted} HTTP/1.1".encode()]
    lines += [name + b": " + value for name, value in _forwarded_headers(request, location, upgrades=True)]
    await upgrade(request, reader, writer, b"\r\n".join([*lines, b"", b""]))


def _forwarded_headers(request: Request, location: Location, *, upgrades: bool = False) -> Headers:
    """Return the request's headers for the target."""
    named = {
        token.strip().lower().encode("latin-1") for token in request.header(b"connection").split(",") if token
    }
    left_out = {b"expect"} if upgrades else _HOP_BY_HOP | named
    headers = [
        (name, value)
        for name, value in request.scope["headers"]
        if name not in left_out and not name.decode("latin-1").startswith(_CREDENTIALS)
    ]
    if location.own_host:
        headers = [(name, value) for name, value in headers if name not in _OF_PAGES]
        headers += [(b"host", location.authority.encode()), *location.headers]
    client = request.scope.get("client")
    if client is not None:
        known = [value for name, value in headers if name == b"x-forwarded-for"]
        headers = [(name, value) for name, value in headers if name != b"x-forwarded-for"]
        headers.append((b"x-forwarded-for", b", ".join([*known, client[0].encode()])))
    return headers


# The kubelet sees this server as its client, which is not a web page.
_OF_PAGES = frozenset({b"host", b"origin", b"cookie", b"sec-fetch-site"})


class _Exchange:
    """One request and its response. `path` is the decoded path at the target."""

    def __init__(self, request: Request, location: Location, path: str) -> None:
        self._request = request
        self._location = location
        suffix = f"{path}/" if request.path.endswith("/") and not path.endswith("/") else path
        self._prefix = request.path.removesuffix(suffix)
        self._path = path

    async def run(self, target: str) -> None:
        """Forward the request, and send the response back."""
        import httpcore

        request, location = self._request, self._location
        headers = _forwarded_headers(request, location)
        forwarded = posixpath.join(self._prefix, self._path.lstrip("/"))
        headers.append((b"x-forwarded-uri", percent_encoded(forwarded, _PLAIN).encode()))
        length = request.header(b"content-length")
        body = request.pieces() if length or request.header(b"transfer-encoding") else None
        if body is not None and not length:
            headers.append((b"transfer-encoding", b"chunked"))
        url = httpcore.URL(
            scheme=location.scheme.encode(),
            host=location.host.encode(),
            port=location.port,
            target=target.encode(),
        )
        backend = backend_of(location.connect)
        try:
            async with (
                httpcore.AsyncConnectionPool(
                    ssl_context=_unverified_context(), network_backend=backend
                ) as pool,
                pool.stream(request.method, url, headers=headers, content=body) as answer,
            ):
                await self._pass_on(answer)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            if request.code:
                await request.stream(b"", more=False)
                return
            why = location.failure() or str(error) or "EOF"
            raise service_unavailable(f"error trying to reach service: {why}") from None

    async def _pass_on(self, answer: httpcore.Response) -> None:
        request = self._request
        headers = [
            (name.lower(), value)
            for name, value in answer.headers
            if name.lower() not in _HOP_BY_HOP and name.lower() not in _NOT_ANSWERED
        ]
        found = dict(headers)
        pieces: AsyncIterator[bytes] | None
        if b"location" in found:
            to = self._link(found[b"location"].decode("latin-1")).encode("latin-1", "replace")
            headers = [(name, to if name == b"location" else value) for name, value in headers]
        is_page = found.get(b"content-type", b"").partition(b";")[0].strip() == b"text/html"
        data, pieces = b"", answer.aiter_stream()
        if is_page and b"location" not in found and request.method != "HEAD":
            data, pieces = await _read_page(pieces)
            if pieces is None:
                data = self._page(data, found.get(b"content-encoding", b""))
                headers = [pair for pair in headers if pair[0] != b"content-length"]
                headers.append((b"content-length", b"%d" % len(data)))
        await request.start(answer.status, headers)
        if data:
            await request.stream(data)
        if pieces is not None:
            await request.copy_until_gone(_copy_all(request, pieces))
        await request.stream(b"", more=False)

    def _link(self, url: str) -> str:
        return rewrite_url(url, (self._location.authority, self._request.header(b"host")), self._prefix)

    def _page(self, data: bytes, encoding: bytes) -> bytes:
        """Rewrite the links of a page. A page that cannot be decoded is unchanged."""
        if encoding not in {b"", b"gzip"}:
            return data
        try:
            page = _decompress(data) if encoding else data
        except zlib.error:
            return data
        changed = rewrite_page(page.decode(errors="surrogateescape"), self._link)
        made = changed.encode(errors="surrogateescape")
        return data if made == page else gzip.compress(made) if encoding else made


async def _read_page(pieces: AsyncIterator[bytes]) -> tuple[bytes, AsyncIterator[bytes] | None]:
    """Return the data up to the length of a page, and an iterator over the rest; None if there is no more."""
    held: list[bytes] = []
    size = 0
    async for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > _LONGEST_PAGE:
            return b"".join(held), pieces
    return b"".join(held), None


def _decompress(data: bytes) -> bytes:
    unpacking = zlib.decompressobj(31)
    page = unpacking.decompress(data, _LONGEST_PAGE)
    if unpacking.unconsumed_tail:
        raise zlib.error("the page is too long")
    return page


async def _copy_all(request: Request, pieces: AsyncIterator[bytes]) -> None:
    async for piece in pieces:
        await request.stream(piece)


@functools.cache
def _unverified_context() -> ssl.SSLContext:
    # As upstream's transport for proxies, trust the cluster's network.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


ROUTES: Mapping[str, Route] = {
    "GET": ("get", proxy),
    "HEAD": ("get", proxy),
    "POST": ("create", proxy),
    "PUT": ("update", proxy),
    "PATCH": ("patch", proxy),
    "DELETE": ("delete", proxy),
    # OPTIONS has no verb, so only a wildcard allows it.
    "OPTIONS": ("", proxy),
}
"""The methods that are forwarded."""

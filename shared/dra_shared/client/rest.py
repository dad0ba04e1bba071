"""Typed requests to a Kubernetes API server."""

import asyncio
import enum
import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec
import orjson

from dra_shared.api.codec import ObjectList, decode, decode_list, encode, reader
from dra_shared.api.meta import Object, Status
from dra_shared.api.resources import Resource
from dra_shared.client.errors import from_response, from_status
from dra_shared.client.retry import retry_after
from dra_shared.client.transport import HttpTransport

T = TypeVar("T", bound=Object)

_REQUEST_TIMEOUT = 60.0
_sleep = asyncio.sleep
# The limit of watches that are sent to the main server because ``read_url`` is unreachable. They end soon, so
# that clients return to ``read_url``.
_AWAY_SECONDS = 30


class PatchType(enum.StrEnum):
    """The format of a patch's body: its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class EventType(enum.StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change of one object. The object of a bookmark has only a resource version."""

    type: EventType
    object: T


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw


_frames = msgspec.json.Decoder(_Frame)
_statuses = msgspec.json.Decoder(Status)


@dataclass(slots=True)
class _Server:
    """An API server's address, and the header fields of requests to it."""

    url: str
    origin: tuple[str, str, int]
    base_path: bytes
    host: str
    fields: bytes = b""

    @classmethod
    def at(cls, url: str) -> "_Server":
        base = httpx.URL(url)
        port = base.port or (443 if base.scheme == "https" else 80)
        return cls(url, (base.scheme, base.host, port), base.raw_path.rstrip(b"/"), base.netloc.decode())


_Events = tuple[int, AsyncIterator[bytes], Callable[[], Awaitable[None]]]
"""The status of a watch, its body in parts, and a function that ends it."""


class Client:
    """A client of one API server.

    With a ``read_url``, lists and watches are sent to the server there, which has the same objects. While
    that server is unreachable, they are sent to the main server, with watches limited to half a minute.

    A request that is rejected with a ``Retry-After`` is sent again after that time, at most ``retries``
    times.

    Every method raises :class:`~dra_shared.client.errors.ApiError` if the server rejects the request, and
    ``httpx.TransportError`` if the server cannot be reached.
    """

    def __init__(
        self,
        base_url: str,
        *,
        user_agent: str = "dralab",
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        ssl_context: ssl.SSLContext | None = None,
        server_name: str | None = None,
        bare_context: ssl.SSLContext | None = None,
        read_url: str = "",
        retries: int = 0,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._retries = retries
        self._server = _Server.at(self.base_url)
        self._reader = _Server.at(read_url.rstrip("/")) if read_url else None
        self._transport = transport or HttpTransport(ssl_context=ssl_context, server_name=server_name)
        # Servers check a connection's certificate before a request's token.
        identified = bare_context is not None and bare_context is not ssl_context
        self._bare = (
            HttpTransport(ssl_context=bare_context, server_name=server_name)
            if identified
            else self._transport
        )
        self._user_agent = user_agent
        self.set_token(token)

    @property
    def read_url(self) -> str:
        """The address for lists and watches; empty if it is the main server."""
        return self._reader.url if self._reader is not None else ""

    def set_token(self, token: str | None) -> None:
        """Use this token from now on."""
        self._headers = {"user-agent": self._user_agent, "accept": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        for server in filter(None, (self._server, self._reader)):
            fields = {"host": server.host, **self._headers}
            server.fields = b"".join(b"\r\n%b: %b" % (k.encode(), v.encode()) for k, v in fields.items())

    def with_token(self, token: str) -> "Client":
        """Return a client of the same server with the token.

        All such clients share connections without a certificate.
        """
        return Client(
            self.base_url,
            user_agent=self._user_agent,
            token=token,
            transport=self._bare,
            read_url=self.read_url,
            retries=self._retries,
        )

    def separate(self) -> "Client":
        """Return a client of the same server and user with its own connections, whose requests never wait for
        this one's.
        """
        if not isinstance(self._transport, HttpTransport) or not isinstance(self._bare, HttpTransport):
            return self
        made = copy(self)
        made._transport = self._transport.create_another()
        made._bare = made._transport if self._bare is self._transport else self._bare.create_another()
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._transport.aclose()
        await self._bare.aclose()

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """Return the current object."""
        return decode(resource, await self._send("GET", resource.path(namespace, name)))

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        resource_version: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
    ) -> ObjectList[T]:
        """Return one page of the objects; all of them without ``limit``. Without a namespace, list all namespaces."""
        params = _params(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            resourceVersion=resource_version,
            limit=limit,
            **{"continue": continue_},
        )
        path = resource.path(namespace)
        if self._reader is not None:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return decode_list(resource, await self._send("GET", path, params, server=self._reader))
        return decode_list(resource, await self._send("GET", path, params))

    async def create(
        self,
        resource: Resource[T],
        obj: T,
        namespace: str | None = None,
        *,
        field_manager: str | None = None,
    ) -> T:
        """Create ``obj``, in its own namespace unless another is named."""
        path = resource.path(namespace or obj.metadata.namespace)
        params = _params(fieldManager=field_manager)
        return decode(resource, await self._send("POST", path, params, encode(resource, obj)))

    async def update(
        self,
        resource: Resource[T],
        obj: T,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> T:
        """Replace the object or its subresource. Raises Conflict if it changed since it was read."""
        path = resource.path(obj.metadata.namespace, obj.metadata.name, subresource)
        params = _params(fieldManager=field_manager)
        return decode(resource, await self._send("PUT", path, params, encode(resource, obj)))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool | None = None,
    ) -> T:
        """Patch the object. ``body`` is encoded as JSON: dicts and lists, or an API struct."""
        path = resource.path(namespace, name, subresource)
        params = _params(fieldManager=field_manager, force=force)
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return decode(resource, await self._send("PATCH", path, params, content, patch_type.value))

    async def patch_status(self, resource: Resource[T], obj: Object, status: Any) -> T:
        """Merge ``status`` into the object's status, with lists merged by their keys.

        The uid protects another object of that name.
        """
        meta = obj.metadata
        return await self.patch(
            resource,
            meta.name,
            {"metadata": {"uid": meta.uid}, "status": status},
            meta.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete the object, if it still has the given uid and resource version.

        ``grace_period`` is in seconds; ``propagation`` is Background, Foreground or Orphan.
        """
        preconditions = _params(uid=uid, resourceVersion=resource_version)
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        if propagation is not None:
            options["propagationPolicy"] = propagation
        await self._send("DELETE", resource.path(namespace, name), None, orjson.dumps(options))

    async def delete_collection(
        self, resource: Resource[T], namespace: str | None = None, *, field_selector: str | None = None
    ) -> None:
        """Delete all objects that the selector selects, in all namespaces unless one is named."""
        await self._send("DELETE", resource.path(namespace), _params(fieldSelector=field_selector))

    async def create_subresource(
        self, resource: Resource[T], name: str, subresource: str, body: Any, namespace: str | None = None
    ) -> bytes:
        """POST to a subresource, such as ``pods/binding``. Return the response as JSON."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self._send("POST", resource.path(namespace, name, subresource), None, content)

    async def watch(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        send_initial_events: bool = False,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Yield the changes after ``resource_version``, until the server ends the stream.

        An ERROR event is raised as the exception of its Status.
        """
        params = _params(
            watch=True,
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            allowWatchBookmarks=bookmarks or None,
            timeoutSeconds=timeout_seconds,
            sendInitialEvents=send_initial_events or None,
            resourceVersionMatch="NotOlderThan" if send_initial_events else None,
        )
        status, chunks, close = await self._open_watch(resource.path(namespace), params)
        try:
            if status != 200:
                raise from_response(status, b"".join([chunk async for chunk in chunks]))
            read = reader(WatchEvent[resource.type])  # type: ignore[name-defined]  # known when it runs
            rest = b""
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        try:
                            event: WatchEvent[T] = read(line)
                        except msgspec.ValidationError:
                            _raise_error_event(line)
                            raise
                        yield event
        finally:
            await close()

    async def _open_watch(self, path: str, params: Mapping[str, str]) -> _Events:
        if self._reader is not None:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._events(path, params, self._reader)
            # Try the reading server again after that time.
            seconds = min(int(params.get("timeoutSeconds", _AWAY_SECONDS)), _AWAY_SECONDS)
            params = {**params, "timeoutSeconds": str(seconds)}
        return await self._events(path, params, self._server)

    async def _events(self, path: str, params: Mapping[str, str], server: _Server) -> _Events:
        if isinstance(self._transport, HttpTransport) and not self._retries:
            request = _request(server, "GET", path, params, None, "")
            status, _, stream = await self._transport.stream(server.origin, "GET", request)
            return status, aiter(stream), stream.aclose
        response = await self.stream("GET", path, params=params)
        return response.status_code, response.aiter_bytes(), response.aclose

    async def raw(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        accept: str | None = None,
    ) -> httpx.Response:
        """Send any request and return its whole response. Errors are responses here, not exceptions."""
        for left in range(self._retries, -1, -1):
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                response = await self._open(method, path, params, content, content_type, accept)
                await response.aread()
            if not left or (seconds := _pause(response)) is None:
                break
            await _sleep(seconds)
        return response

    async def stream(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, accept: str | None = None
    ) -> httpx.Response:
        """Send any request and return its response unread: iterate ``aiter_bytes`` and ``aclose`` it."""
        for left in range(self._retries, -1, -1):
            response = await self._open(method, path, params, None, accept=accept)
            if not left or (seconds := _pause(response)) is None:
                break
            await response.aclose()
            await _sleep(seconds)
        return response

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        server: _Server | None = None,
    ) -> bytes:
        server = server or self._server
        if isinstance(self._transport, HttpTransport) and not self._retries:
            request = _request(server, method, path, params, content, content_type)
            code, body = await self._transport.exchange(
                server.origin, method, request, timeout=_REQUEST_TIMEOUT
            )
        else:
            response = await self.raw(method, path, params=params, content=content, content_type=content_type)
            code, body = response.status_code, response.content
        if code >= 400:
            raise from_response(code, body)
        return body

    async def _open(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        accept: str | None = None,
    ) -> httpx.Response:
        headers = self._headers
        if accept is not None:
            headers = {**headers, "accept": accept}
        if content is not None:
            headers = {**headers, "content-type": content_type}
        request = httpx.Request(
            method, self.base_url + path, params=params or None, content=content, headers=headers
        )
        return await self._transport.handle_async_request(request)


def _request(
    server: _Server,
    method: str,
    path: str,
    params: Mapping[str, str] | None,
    content: bytes | None,
    content_type: str,
) -> bytes:
    target = path if path.isascii() and "%" not in path and " " not in path else quote(path)
    if params:
        target += "?" + _query(tuple(params.items()))
    head = b"%b %b%b HTTP/1.1%b" % (method.encode(), server.base_path, target.encode(), server.fields)
    if content is None:
        return head + b"\r\n\r\n"
    return b"%b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        head,
        content_type.encode(),
        len(content),
        content,
    )


def _pause(response: httpx.Response) -> int | None:
    return retry_after(response.status_code, response.headers.get("retry-after"))


def _raise_error_event(line: bytes) -> None:
    frame = _frames.decode(line)
    if frame.type == "ERROR":
        raise from_status(_statuses.decode(frame.object)) from None


@functools.lru_cache(256)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    return urlencode(params)


def _params(**values: Any) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }

"""Requests and responses of the resource API, as a thin layer over ASGI."""

from __future__ import annotations

import asyncio
import gzip
import unicodedata
import zlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    MutableMapping,
)
from typing import Any, Protocol
from urllib.parse import parse_qsl

import orjson
from dra_shared.cel.authorization import Decision
from dra_shared.jsontext import dumps

from dra_apiserver.errors import StatusError, bad_request, timeout, too_large
from dra_apiserver.user import ADMINISTRATOR, UserInfo

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

BODY_LIMIT = 3 << 20
_BODY_TIMEOUT = 60.0
_HALF_CLOSED_TIMEOUT = 60.0
# The limits in characters: of all warnings together, and of each if they exceed that.
_WARNINGS = 4096
_WARNING = 256
# Go's strconv.ParseBool.
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_CACHE_CONTROL = b"cache-control"
_READERS = (b"curl", b"Wget", b"Mozilla/5.0")
# Larger responses are not indented, which would block all requests: JSON is decoded and encoded without
# releasing the GIL.
_PRETTY_UP_TO = 4 << 20
_GZIP_FROM = 128 << 10
_GZIP_IN_LOOP = 256 << 10
_YAML_FROM = 16 << 10
_GZIP_ONLY = 16 + zlib.MAX_WBITS
# Go's net/url treats a query with more parameters as empty.
MOST_PARAMETERS = 10_000

# The key of a `Direct` among the `extensions` of a request's scope, if the server has one.
DIRECT = "dralab.direct"
# The key of the client's certificate in a request's scope, if the client sent one.
CERTIFICATE = "dralab.certificate"

JSON = "application/json"
_SHOWN_AS_JSON = frozenset({"", "*/*", JSON})
_JSON_HEADER = (b"content-type", b"application/json")


def _is_control(char: str) -> bool:
    return unicodedata.category(char) == "Cc"


def _limit(warnings: Collection[str]) -> Collection[str]:
    """Return the warnings; if they exceed the limit for response headers, shorten them and drop the last ones."""
    if sum(map(len, warnings)) <= _WARNINGS:
        return warnings
    kept: list[str] = []
    written = 0
    over = False
    for text in warnings:
        if over and written >= _WARNINGS:
            break
        kept.append(text[:_WARNING] if over else text)
        written += len(kept[-1])
        if not over and written > _WARNINGS:
            over = True
            kept = [one[:_WARNING] for one in kept]
            written = sum(map(len, kept))
    return kept


def _unpack(body: bytes, limit: int) -> bytes:
    """Decompress a gzip body, up to the limit for bodies."""
    parts: list[bytes] = []
    left = limit + 1
    while body:
        unpacker = zlib.decompressobj(_GZIP_ONLY)
        try:
            parts.append(unpacker.decompress(body, left))
        except zlib.error as error:
            raise bad_request(f"unable to decompress the body: {error}") from None
        left -= len(parts[-1])
        if left <= 0:
            raise too_large(f"limit is {limit}")
        if not unpacker.eof:
            raise bad_request("unable to decompress the body: unexpected EOF")
        body = unpacker.unused_data
    return b"".join(parts)


class Direct(Protocol):
    """Shortcuts that bypass ASGI messages and the event loop. A shortcut that is not possible returns None or False."""

    def read(self, scope: Scope) -> bytes | None:
        """Return the request's whole body if it has been received, else None."""
        ...

    def answer(self, scope: Scope, code: int, headers: Headers, body: bytes) -> bool:
        """Send a whole response. Return False if that is not possible at once."""
        ...

    def write(self, scope: Scope, part: bytes) -> bool:
        """Send a part of a started response. Return False if that is not possible at once."""
        ...

    def replace_header(self, name: bytes) -> None:
        """Omit the default header of that name, because the response has its own."""
        ...

    def lose_answer(self) -> None:
        """Cut the connection instead of sending the response, for a fault on demand."""
        ...

    def has_ended(self) -> bool:
        """True if the client has closed its half of the connection. It may still read the response."""
        ...


class Audited(Protocol):
    """The audit log's record of a request."""

    def record_decision(self, decision: Decision) -> None:
        """Record the authorizer's decision."""
        ...

    def record_deprecation(self, warning: str) -> None:
        """Record that the requested API is deprecated."""
        ...

    def annotate(self, key: str, value: str, *, detailed: bool = False) -> None:
        """Add an annotation. A `detailed` annotation is left out if only the request's metadata is logged."""
        ...

    def record_body(self, body: bytes, content_type: str) -> None:
        """Record the request's body."""
        ...

    def record_decoded(self, kind: Any, version: str, obj: dict[str, Any]) -> None:
        """Record the object of the request, of a served kind."""
        ...

    def record_object(self, obj: dict[str, Any]) -> None:
        """Record the object of the request, of a type that is not a served kind."""
        ...

    def record_response(self, body: bytes, media_type: str) -> None:
        """Record the response body."""
        ...

    def start_response(self) -> None:
        """Record the start of a response that may take long."""
        ...

    def record_failure(self, error: Exception) -> None:
        """Record an unexpected exception of the handler."""
        ...

    def complete(self) -> None:
        """Record the end of the response."""
        ...


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


class Request:
    """One request. `query` has the first value of each parameter, `parameters` all of them.

    `code` is the status of its response, 0 before that is started.
    """

    __slots__ = (
        "_direct",
        "_parameters",
        "_query",
        "audit",
        "cbor",
        "code",
        "headers",
        "id",
        "method",
        "path",
        "receive",
        "scope",
        "send",
        "user",
        "view",
        "warnings",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.id = request_id
        self.code = 0
        self.audit: Audited | None = None
        #: Whether this server reads and writes CBOR.
        self.cbor = False
        self._direct: Direct | None = scope["extensions"].get(DIRECT) if "extensions" in scope else None
        self.user: UserInfo = ADMINISTRATOR
        #: The moment of the past that the request reads, if any (`handlers/views.py`).
        self.view: Any = None
        self.warnings: dict[str, None] = {}
        self._query: dict[str, str] | None = None if scope["query_string"] else {}
        self._parameters: list[tuple[str, str]] | None = None
        #: By lower-case name. If a header is repeated, the last value counts.
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        if b"audit-id" in self.headers:
            # As upstream: a request keeps the ID that a proxy gave it, so that both use the same ID.
            self.id = self.headers[b"audit-id"].decode("latin-1") or request_id

    def lose_answer(self) -> None:
        """Cut the connection instead of sending the response, if the connection supports that."""
        if self._direct is not None:
            self._direct.lose_answer()

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The query's parameters in order."""
        if self._parameters is None:
            text = self.scope["query_string"]
            if not text or text.count(b"&") >= MOST_PARAMETERS:
                self._parameters = []
            else:
                self._parameters = parse_qsl(text.decode("latin-1"), keep_blank_values=True)
        return self._parameters

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters by name.

        If a name occurs several times, the first value counts, as in Go's url.Values.
        """
        if self._query is None:
            found: dict[str, str] = {}
            for name, value in self.parameters:
                found.setdefault(name, value)
            self._query = found
        return self._query

    def header(self, name: bytes) -> str:
        """Return a header by its lower-case name, or ""."""
        value = self.headers.get(name)
        return "" if value is None else value.decode("latin-1")

    def accepts_gzip(self) -> bool:
        """True if the client accepts gzip, without a weight (`ContentEncodingSupported`)."""
        return "gzip" in map(str.strip, self.header(b"accept-encoding").split(","))

    def has_any(self, names: frozenset[bytes]) -> bool:
        """True if one of these headers, named in lower case, is present."""
        return not names.isdisjoint(self.headers)

    def flag(self, name: str) -> bool:
        """Return a boolean parameter as parsed by Go: a parameter without a value is true."""
        value = self.query.get(name)
        return value is not None and value.lower() not in {"false", "0"}

    async def body(self, limit: int = BODY_LIMIT) -> bytes:
        """Return the whole body, decompressed.

        Raises:
            StatusError: 413, it is longer than `limit`, 3 MiB by default; 504, it takes longer than a minute.
            Disconnected: it ended early.
        """
        body = self._direct.read(self.scope) if self._direct is not None else None
        if body is None:
            body = await self._awaited_body(limit)
        elif len(body) > limit:
            raise too_large(f"limit is {limit}")
        if self.header(b"content-encoding") == "gzip":
            body = _unpack(body, limit)
        if len(body) > _YAML_FROM and "yaml" in (content_type := self.header(b"content-type")):
            from dra_apiserver.schema.yamlbody import read_ahead

            body = await read_ahead(body, content_type)
        if self.audit is not None:
            self.audit.record_body(body, self.header(b"content-type"))
        return body

    async def _awaited_body(self, limit: int) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        late = False

        def give_up() -> None:
            nonlocal late
            late = True
            task.cancel()

        # asyncio.timeout would cost several times as much in every write.
        alarm = asyncio.get_running_loop().call_later(_BODY_TIMEOUT, give_up)
        try:
            return await self._raw_body(limit)
        except asyncio.CancelledError:
            if not late or task.uncancel() > 0:
                raise
            raise timeout("request did not complete within the allotted timeout") from None
        finally:
            alarm.cancel()

    async def _raw_body(self, limit: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in self.pieces():
            size += len(chunk)
            if size > limit:
                raise too_large(f"limit is {limit}")
            chunks.append(chunk)
        return b"".join(chunks)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body in parts as they arrive.

        Raises:
            Disconnected: it ended early.
        """
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            yield bytes(message.get("body", b""))
            if not message.get("more_body"):
                return

    def has_ended(self) -> bool:
        """True if the client has half-closed its connection. It may still read the response."""
        return self._direct is not None and self._direct.has_ended()

    async def wait_until_gone(self) -> None:
        """Return when the client has disconnected or half-closed its connection."""
        while not self.has_ended():
            if (await self.receive())["type"] == "http.disconnect":
                return

    async def copy_until_gone(self, copying: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that sends the response, until it ends or the client disconnects.

        A closed connection looks like a half-closed one, so the response is cancelled after a minute in both
        cases.

        Raises:
            Disconnected: the client has disconnected.
        """
        task = asyncio.ensure_future(copying)
        gone = asyncio.ensure_future(self.wait_until_gone())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and self.has_ended():
                await asyncio.wait((task,), timeout=_HALF_CLOSED_TIMEOUT)
            if not task.done():
                raise Disconnected
            task.result()
        finally:
            task.cancel()
            gone.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    def warn(self, texts: Iterable[str]) -> None:
        """Add Warning headers to the response: each text once, and none that a header cannot contain."""
        for text in texts:
            if text not in self.warnings and (text.isprintable() or not any(map(_is_control, text))):
                self.warnings[text] = None

    def replace_header(self, name: bytes) -> None:
        """Replace a default header by the response's own."""
        if self._direct is not None:
            self._direct.replace_header(name)

    def _base_headers(self, extra: Mapping[str, str] | None) -> Headers:
        headers: Headers = [(b"audit-id", self.id.encode("latin-1"))]
        for text in _limit(self.warnings) if self.warnings else ():
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            headers.append((b"warning", f'299 - "{escaped}"'.encode()))
        for name, value in (extra or {}).items():
            header = name.lower().encode()
            if header == _CACHE_CONTROL:
                self.replace_header(header)
            headers.append((header, value.encode("latin-1")))
        return headers

    def _pretty(self) -> bool:
        """True if a person reads the response, by upstream's rule: the client says so, or is a browser, curl
        or wget.
        """
        if b"pretty=1" in self.headers.get(b"accept", b""):
            return True
        pretty = self.query.get("pretty") if self.scope["query_string"] else ""
        if pretty:
            return pretty in _TRUE
        return self.headers.get(b"user-agent", b"").startswith(_READERS) and not self.path.startswith(
            "/openapi/"
        )

    async def respond(
        self, code: int, body: bytes, media_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a response. A large one is compressed if the client accepts that."""
        self.code = code
        if self.audit is not None:
            self.audit.record_response(body, media_type)
        sent = self._base_headers(headers)
        if media_type == JSON and len(body) <= _PRETTY_UP_TO and self._pretty():
            body = dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)
        sent.append(_JSON_HEADER if media_type == JSON else (b"content-type", media_type.encode()))
        if len(body) >= _GZIP_FROM and self.accepts_gzip():
            if len(body) <= _GZIP_IN_LOOP:
                body = gzip.compress(body, 1)
            else:
                body = await asyncio.to_thread(gzip.compress, body, 1)
            sent.append((b"content-encoding", b"gzip"))
            sent.append((b"vary", b"Accept-Encoding"))
        sent.append((b"content-length", b"%d" % len(body)))
        # Responses that the server did not generate itself are checked in the general case below.
        plain = not self.warnings and not headers
        if plain and self._direct is not None and self._direct.answer(self.scope, code, sent, body):
            return
        await self.send({"type": "http.response.start", "status": code, "headers": sent})
        await self.send({"type": "http.response.body", "body": body})

    async def respond_unmodified(self, headers: Mapping[str, str]) -> None:
        """Respond with 304: the client's copy is current."""
        self.code = 304
        await self.send(
            {"type": "http.response.start", "status": self.code, "headers": self._base_headers(headers)}
        )
        await self.stream(b"", more=False)

    async def fail(self, error: StatusError) -> None:
        """Respond with the Status of a failure."""
        accept = self.header(b"accept")
        if accept in _SHOWN_AS_JSON:
            await self.respond(error.code, error.encode(), headers=error.headers)
            return
        from dra_apiserver.negotiation import encode_status, negotiate_document

        try:
            accepted = negotiate_document(accept, self.cbor)
        except StatusError:
            # Send the error even if the client accepts no supported format (`WriteObjectNegotiated`).
            body = dumps(error.status, option=orjson.OPT_INDENT_2)
            await self.respond(error.code, body, headers=error.headers)
            return
        body = encode_status(error.status, accepted)
        await self.respond(error.code, body, accepted.media_type, error.headers)

    async def start_stream(self, media_type: str, headers: Mapping[str, str] | None = None) -> None:
        """Start a response that `stream` continues."""
        sent = self._base_headers(headers)
        sent.append((b"content-type", media_type.encode()))
        await self._start(200, sent)

    async def start(self, code: int, headers: Headers) -> None:
        """Start a response of another server, which `stream` continues."""
        await self._start(code, [*self._base_headers(None), *headers])

    async def _start(self, code: int, headers: Headers) -> None:
        self.code = code
        if self.audit is not None:
            self.audit.start_response()
        await self.send({"type": "http.response.start", "status": code, "headers": headers})

    def write(self, chunk: bytes) -> bool:
        """Send a part at once. Return False, with nothing sent, if that would have to wait."""
        return self._direct is not None and self._direct.write(self.scope, chunk)

    async def stream(self, chunk: bytes, more: bool = True) -> None:
        """Send a part. Wait while the client's buffer is full."""
        await self.send({"type": "http.response.body", "body": chunk, "more_body": more})

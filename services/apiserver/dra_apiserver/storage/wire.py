"""The messages between an API server and its readers over a local socket.

A message is its length in four bytes and a msgpack array. The order of messages is the order of revisions: an
answer comes after everything that was durable when it was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from dra_apiserver.storage.records import Change, Event, Record, Resource
from dra_apiserver.storage.rows import CODES, TYPES, resource_of, resource_text

FEED, REQUESTS = "feed.sock", "requests.sock"
"""The sockets in the API server's directory: its log, and the requests that readers pass on."""

_LENGTH = 4


class Hello(msgspec.Struct, tag=1, array_like=True):
    """The first message of a reader. It knows everything up to a revision, which is 0 for nothing.

    `place` is its port and its address.
    """

    after: int
    place: tuple[int, str] | None = None


class Ask(msgspec.Struct, tag=2, array_like=True):
    """A reader's question: a method of the store's engine and its arguments, or `fresh`."""

    number: int
    what: str
    arguments: Sequence[Any] = ()


class Objects(msgspec.Struct, tag=3, array_like=True):
    """Some of a resource's objects, each as (key, revision, data), for a reader that knows none, or too old ones."""

    resource: str
    records: list[tuple[str, int, bytes]]


class Live(msgspec.Struct, tag=4, array_like=True):
    """The reader has got everything up to a revision. What follows are changes as they happen.

    `whole` is True if the objects that came before this are all that exist.
    """

    revision: int
    compacted: int
    whole: bool


class Logged(msgspec.Struct, tag=5, array_like=True):
    """Changes, each as (resource, type's code, key, revision, data), and the revision up to which history is
    deleted.
    """

    changes: list[tuple[str, int, str, int, bytes]]
    compacted: int


class Answer(msgspec.Struct, tag=6, array_like=True):
    """The answer to a question. `status` is that of a refusal."""

    number: int
    compacted: int
    result: Any = None
    status: dict[str, Any] | None = None
    code: int = 0


Message = Hello | Ask | Objects | Live | Logged | Answer

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def framed(message: Message) -> bytes:
    """Return the message as it is sent."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_LENGTH, "big") + body


def logged(changes: Sequence[Change], compacted: int) -> Logged:
    """Return the message with the changes."""
    made = []
    for change in changes:
        event = change.event
        name, code = resource_text(change.resource), CODES[event.type]
        made.append((name, code, event.key, event.revision, event.record.data))
    return Logged(made, compacted)


def changes_of(message: Logged) -> list[Change]:
    """Return the changes of a message. The reader knows the versions before them."""
    known: dict[str, Resource] = {}
    found = []
    for name, code, key, revision, data in message.changes:
        resource = known.get(name)
        if resource is None:
            resource = known[name] = resource_of(name)
        found.append(Change(resource, Event(TYPES[code], Record(key, revision, data), None)))
    return found


class Line(asyncio.Protocol):
    """One end of the connection. It calls `received` for each message, and `lost` once."""

    def __init__(self, received: Callable[[Line, Message], None], lost: Callable[[Line], None]) -> None:
        self._received, self._lost = received, lost
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def unsent(self) -> int:
        """The number of bytes that wait for the other end."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, data: bytes) -> None:
        """Send a framed message."""
        if self._transport is not None:
            self._transport.write(data)

    async def drained(self) -> None:
        """Wait while the other end has much to read. Return also if it is gone."""
        await self._writable.wait()

    def close(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        held = self._held
        held += data
        start = 0
        while len(held) - start >= _LENGTH:
            end = start + _LENGTH + int.from_bytes(held[start : start + _LENGTH], "big")
            if end > len(held):
                break
            with memoryview(held) as view:
                message = _decoder.decode(view[start + _LENGTH : end])
            start = end
            self._received(self, message)
        if start:
            del held[:start]

    def connection_lost(self, error: Exception | None) -> None:
        self._writable.set()
        self._lost(self)

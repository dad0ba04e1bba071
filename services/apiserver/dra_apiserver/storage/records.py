"""Versions of objects and the changes between them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

_NOTHING: Final[dict[Hashable, Any]] = {}
"""The cache of events without derived data: one for all, because an empty map takes as much memory as an event."""

Resource = tuple[str, str]
"""(group, plural) of the kind as it is stored."""


class Record:
    """One version of one object: its JSON in the stored version, with its own resourceVersion."""

    __slots__ = ("data", "key", "revision")

    def __init__(self, key: str, revision: int, data: bytes) -> None:
        self.key = key
        self.revision = revision
        self.data = data

    def object(self) -> JsonObject:
        """Return a new copy of the object, which the caller may change."""
        decoded: JsonObject = orjson.loads(self.data)
        return decoded


class Event:
    """One revision: an object was added, modified or deleted (`record` is then its last state, at this revision).

    `cache` holds data that watchers derive from the event, so that it is derived once for all of them. `kept`
    is the number of bytes that the event adds to the size of its ring.
    """

    __slots__ = ("cache", "kept", "key", "previous", "record", "revision", "type")

    def __init__(self, type: str, record: Record, previous: Record | None) -> None:
        self.type = type
        self.key = record.key
        self.revision = record.revision
        self.record = record
        self.previous = previous
        self.cache = _NOTHING
        self.kept = 0

    def remember(self, place: Hashable, made: Any) -> None:
        """Keep derived data."""
        if self.cache is _NOTHING:
            self.cache = {}
        self.cache[place] = made

    def forget(self) -> None:
        """Drop the derived data."""
        self.cache, self.kept = _NOTHING, 0

    @property
    def state(self) -> Record | None:
        """The object's state after this event."""
        return None if self.type == DELETED else self.record


class Change:
    """An event as it is written to history, with its resource.

    `time` is when it was written, in milliseconds since 1970, and `author` the author in the form of
    `storage/authors.py`. `counted` lists other objects on which the change depends.
    """

    __slots__ = ("author", "counted", "event", "resource", "time")

    def __init__(
        self,
        resource: Resource,
        event: Event,
        time: int = 0,
        author: str = "",
        counted: Sequence[Counted] = (),
    ) -> None:
        self.resource = resource
        self.event = event
        self.time = time
        self.author = author
        self.counted = counted

    def miscounts(self, others: Mapping[Resource, Sequence[Change]]) -> bool:
        """Return whether other servers' changes, by resource, affect objects that this change counted."""
        return any(
            one.covers(other)
            for one in self.counted
            if one.resource in others
            for other in others[one.resource]
        )


def by_resource(changes: Iterable[Change]) -> dict[Resource, list[Change]]:
    """Return the changes by resource, in their order."""
    found: dict[Resource, list[Change]] = {}
    for change in changes:
        found.setdefault(change.resource, []).append(change)
    return found


class Counted(NamedTuple):
    """Other objects that a write depends on: those of a resource whose keys begin with `prefix`.

    `types` are the types of events that matter: for a quota, for example, deleted objects do not.
    """

    resource: Resource
    prefix: str
    types: Collection[str] = (ADDED,)

    def covers(self, change: Change) -> bool:
        """Return whether the change affects one of these objects."""
        event = change.event
        return (
            change.resource == self.resource
            and event.type in self.types
            and event.key.startswith(self.prefix)
        )


def object_key(namespace: str, name: str) -> str:
    """Return the key of an object within its resource. Keys sort as upstream lists objects."""
    return f"{namespace}/{name}" if namespace else name


def with_revision(data: bytes, revision: int) -> bytes:
    """Return the same object with another resourceVersion."""
    obj = orjson.loads(data)
    obj["metadata"]["resourceVersion"] = str(revision)
    return dumps(obj)


def canonical(obj: JsonObject) -> JsonObject:
    """Return the object with kind, apiVersion and metadata first, as every stored object has them."""
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": obj["metadata"], **obj}

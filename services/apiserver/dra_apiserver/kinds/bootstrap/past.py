"""Fill a new database with the history of another cluster, as packed by ``dralab bundle``.

The history is a file with a JSON object a line: the moment at which it begins, then the objects of that
moment, then every change in order. Revisions, times, authors and uids are kept. The services then find the
cluster in the state after a power cut of all its machines: its pods have to be started again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
from dra_shared.jsontext import dumps
from dra_shared.retention import Retention
from dra_shared.service import CannotRun

from dra_apiserver.conversion import to_storage
from dra_apiserver.kindkit.kind import Kind, split_api_version
from dra_apiserver.kinds.custom.definitions import kind_of_definition
from dra_apiserver.registry import Registry
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Event, Record, Resource, object_key
from dra_apiserver.storage.archive.keeper import Keeper
from dra_apiserver.storage.authors import Author, text_of
from dra_apiserver.storage.engine import Engine
from dra_apiserver.storage.records import Change, canonical

_STEP = 500
_OF_PROCESSES = frozenset({"Lease"})
_DEFINITION = "CustomResourceDefinition"


class Begin(msgspec.Struct):
    """The moment at which a history begins: a revision, and its time in milliseconds since 1970."""

    revision: int
    time: int


class Line(msgspec.Struct):
    """A line of the history's file: an object of the first moment (without a ``type``), or a change."""

    object: dict[str, Any]
    plural: str
    revision: int
    type: str = ""
    time: int = 0
    user: str = ""
    agent: str = ""
    manager: str = ""
    verb: str = ""
    subresource: str = ""


_begin = msgspec.json.Decoder(Begin).decode
_line = msgspec.json.Decoder(Line).decode


def load_past(engine: Engine, registry: Registry, file: Path, retention: Retention | None) -> bool:
    """Fill an empty database with the history in a file. Return False if the database has objects already.

    Raises:
        CannotRun: the file is not a history.
        OSError: the file cannot be read, or the database not be used.
    """
    try:
        if engine.open().newest:
            return False
        with file.open("rb") as lines:
            begin = _begin(next(lines))
            first = [_line(text) for text in lines]
        loaded = _Past(registry, _custom_kinds(first))
        changes = [line for line in first if line.type]
        _write(engine, loaded.base(line for line in first if not line.type))
        engine.compact(begin.revision, 0)
        Keeper.begin(engine, retention, begin.revision, begin.time)
        _write(engine, loaded.changes(changes))
        _write(engine, loaded.power_cut(int(time.time() * 1000)))
    except (StopIteration, msgspec.DecodeError, KeyError, ValueError) as error:
        raise CannotRun(f"{file} is not the history of a cluster: {error!r}") from error
    finally:
        engine.close()
    return True


def _write(engine: Engine, changes: Iterator[Change]) -> None:
    batch: list[Change] = []
    for change in changes:
        batch.append(change)
        if len(batch) == _STEP:
            engine.write(batch)
            batch = []
    if batch:
        engine.write(batch)


def _custom_kinds(lines: list[Line]) -> dict[Resource, Kind]:
    """Return the kinds of the history's custom resources, each from the last version of its definition.

    No server knows these kinds yet.
    """
    found: dict[Resource, Kind] = {}
    for line in lines:
        if line.object.get("kind") == _DEFINITION:
            kind = kind_of_definition(line.object)
            if kind is not None:
                found[kind.storage] = kind
    return found


class _Past:
    """Follows the objects through the changes. `custom` are kinds that the history defines."""

    def __init__(self, registry: Registry, custom: dict[Resource, Kind]) -> None:
        self._registry = registry
        self._custom = custom
        self._now: dict[tuple[Resource, str], Record] = {}
        self._kinds: dict[Resource, Kind] = {}
        self._newest = 0

    def base(self, lines: Iterator[Line]) -> Iterator[Change]:
        """Yield the objects of the first moment, as if each had been added at its revision."""
        seen: set[int] = set()
        for line in sorted(lines, key=lambda one: one.revision):
            if line.revision not in seen:
                seen.add(line.revision)
                yield from self._change(line, ADDED)

    def changes(self, lines: list[Line]) -> Iterator[Change]:
        """Yield the changes.

        A change that the file has for two views of one object, such as Events, is yielded once.
        """
        for line in sorted(lines, key=lambda one: one.revision):
            if line.revision > self._newest:
                yield from self._change(line, line.type)

    def _change(self, line: Line, type: str) -> Iterator[Change]:
        made = self._to_stored(line.object, line.plural)
        if made is None:
            return
        resource, obj = made
        meta = obj["metadata"]
        meta["resourceVersion"] = str(line.revision)
        record = Record(object_key(meta.get("namespace", ""), meta["name"]), line.revision, dumps(obj))
        place = resource, record.key
        before = self._now.pop(place, None)
        if type == DELETED and before is None:
            return
        if type != DELETED:
            self._now[place] = record
            type = ADDED if before is None else MODIFIED
        self._newest = max(self._newest, line.revision)
        author = Author(line.user, line.agent, line.manager, line.verb, line.subresource)
        yield Change(resource, Event(type, record, before), line.time, text_of(author) if line.user else "")

    def _to_stored(self, obj: dict[str, Any], plural: str) -> tuple[Resource, dict[str, Any]] | None:
        """Return the object in its storage version, and its resource.

        None if its kind is unknown or its objects belong to running processes, such as Leases.
        """
        group, version = split_api_version(obj["apiVersion"])
        kind = (
            self._registry.get(group, plural)
            or self._registry.known_kind(group, version, obj["kind"])
            or self._custom.get((group, plural))
        )
        if kind is None or kind.kind in _OF_PROCESSES:
            return None
        self._kinds[kind.storage] = kind
        return kind.storage, canonical(to_storage(kind, obj, version))

    def power_cut(self, now: int) -> Iterator[Change]:
        """Yield the changes that put the cluster into the state after a power cut, in which no pod is running."""
        for (resource, key), record in list(self._now.items()):
            obj = orjson.loads(record.data)
            if not self._kinds[resource].rewind.begin(obj):
                continue
            self._newest += 1
            obj["metadata"]["resourceVersion"] = str(self._newest)
            made = Record(key, self._newest, dumps(obj))
            yield Change(resource, Event(MODIFIED, made, record), now)

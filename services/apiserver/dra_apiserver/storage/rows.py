"""The rows of the tables in ``schema.py``, as every SQL engine writes and reads them.

A row of ``history`` is (revision, resource, key, type, revision before, data, time, author), one of
``objects`` (resource, key, revision, data). A version that is kept only because an event follows it has time
0: it is not an event itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_apiserver.storage.records import ADDED, DELETED, MODIFIED, Change, Event, Record, Resource

Row = tuple[Any, ...]

#: The types of events. A row stores the index of its type.
TYPES = (ADDED, MODIFIED, DELETED)
CODES = {name: code for code, name in enumerate(TYPES)}


@dataclass(slots=True)
class Rows:
    """The rows of a transaction: events, versions before them, objects to keep, and keys of objects that are
    deleted.
    """

    history: list[Row] = field(default_factory=list)
    before: list[Row] = field(default_factory=list)
    kept: list[Row] = field(default_factory=list)
    gone: list[Row] = field(default_factory=list)


def rows_of(changes: Sequence[Change], compacted: int) -> Rows:
    """Return the rows of changes, if history is compacted up to a revision."""
    made = Rows()
    final: dict[tuple[str, str], Event] = {}
    for change in changes:
        one = change.event
        name = resource_text(change.resource)
        known = one.previous
        previous = known.revision if known is not None else 0
        code, data = CODES[one.type], one.record.data
        made.history.append((one.revision, name, one.key, code, previous, data, change.time, change.author))
        if known is not None and previous <= compacted:
            # Compaction has deleted the version before, which is now needed again.
            made.before.append((previous, name, one.key, CODES[MODIFIED], 0, known.data, 0, ""))
        final[name, one.key] = one
    for place, one in final.items():
        if one.type == DELETED:
            made.gone.append(place)
        else:
            made.kept.append((*place, one.revision, one.record.data))
    return made


def objects(rows: Iterable[Any]) -> Iterator[tuple[Resource, Record]]:
    """Yield the objects of rows, with one tuple for each resource, however many its objects."""
    resources: dict[str, Resource] = {}
    for name, key, revision, data in rows:
        resource = resources.get(name)
        if resource is None:
            resource = resources[name] = resource_of(name)
        yield resource, Record(key, revision, data)


def events(rows: Iterable[Any], size: int) -> tuple[list[Event], bool]:
    """Return the events of rows of (type, key, revision, data, revision before, data before), and whether all
    are there.

    The result ends earlier if the objects are more than ``size`` bytes, but has at least one event.
    """
    found: list[Event] = []
    for code, key, revision, data, earlier, before in rows:
        previous = None if earlier is None else Record(key, earlier, before)
        found.append(Event(TYPES[code], Record(key, revision, data), previous))
        size -= len(data) + len(before or b"")
        if size <= 0:
            return found, False
    return found, True


def versions(revisions: Sequence[int], size: int, read: Callable[[int], Any]) -> list[Record]:
    """Return the versions with these revisions.

    ``read`` returns the row of one, (key, data), or None if it is deleted.

    The result ends at a deleted one, or as in :func:`events`.
    """
    found: list[Record] = []
    for revision in revisions:
        row = read(revision)
        if row is None:
            break
        found.append(Record(row[0], revision, row[1]))
        size -= len(row[1])
        if size <= 0:
            break
    return found


def resource_text(resource: Resource) -> str:
    """Return a resource's name in the tables: ``group/plural``."""
    return f"{resource[0]}/{resource[1]}"


def resource_of(text: str) -> Resource:
    """Return the resource of a name in a table."""
    group, _, plural = text.partition("/")
    return group, plural

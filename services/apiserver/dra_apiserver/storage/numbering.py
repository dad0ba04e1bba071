"""Giving changes their revisions, where another server may have been first."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dra_apiserver.storage.records import Change, Event, Record, Resource, with_revision


def numbered(
    changes: Iterable[Change], newest: int, taken: Collection[tuple[Resource, str]]
) -> list[Change | None]:
    """The changes with the revisions after `newest`, in order; None for those whose objects are `taken`.

    A change whose revision is another one than its store expected is made again with it; so is what builds on it.
    """
    found: list[Change | None] = []
    again: dict[int, Record] = {}
    for change in changes:
        event = change.event
        if (change.resource, event.key) in taken:
            found.append(None)
            continue
        newest += 1
        previous = event.previous and again.get(id(event.previous), event.previous)
        record = event.record
        if record.revision != newest:
            record = again[id(record)] = Record(record.key, newest, with_revision(record.data, newest))
        if record is not event.record or previous is not event.previous:
            moved = Event(event.type, record, previous)
            change = Change(change.resource, moved, change.time, change.author)
        found.append(change)
    return found

"""Give changes their revisions if another server may have written first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dra_apiserver.storage.records import Change, Event, Record, by_resource, with_revision


def give_revisions(changes: Iterable[Change], newest: int, before: Sequence[Change]) -> list[Change | None]:
    """Return the changes with the revisions after `newest`, in order, and None for those that are too late.

    A change is too late if `before` changed its object or objects that it counted, or if it builds on a
    change that is too late. A change that gets another revision than its store expected is encoded again with
    it, and so are those that build on it.
    """
    found: list[Change | None] = []
    again: dict[int, Record] = {}
    taken = {(change.resource, change.event.key) for change in before}
    others = by_resource(before)
    late: set[int] = set()
    for change in changes:
        event = change.event
        if (
            (change.resource, event.key) in taken
            or id(event.previous) in late
            or (before and change.miscounts(others))
        ):
            late.add(id(event.record))
            found.append(None)
            continue
        newest += 1
        previous = event.previous and again.get(id(event.previous), event.previous)
        record = event.record
        if record.revision != newest:
            record = again[id(record)] = Record(record.key, newest, with_revision(record.data, newest))
        if record is not event.record or previous is not event.previous:
            moved = Event(event.type, record, previous)
            change = Change(change.resource, moved, change.time, change.author, change.counted)
        found.append(change)
    return found

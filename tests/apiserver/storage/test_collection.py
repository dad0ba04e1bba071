"""Test the objects of a resource in memory."""

import pytest
from dra_apiserver.storage import collection as module
from dra_apiserver.storage.collection import Collection
from dra_apiserver.storage.records import ADDED, DELETED, MODIFIED, Event, Record


def event(kind: str, key: str, revision: int, previous: Record | None = None) -> Event:
    return Event(kind, Record(key, revision, b"{}"), previous)


def test_keys_are_sorted_and_a_range_has_only_keys_of_its_namespace() -> None:
    made = Collection(0)
    for revision, key in enumerate(["b/x", "a/z", "a-b/x", "a/a"], start=1):
        made.apply(event(ADDED, key, revision))
    assert made.range() == ["a-b/x", "a/a", "a/z", "b/x"]
    assert made.range("a/") == ["a/a", "a/z"]
    assert made.range("a/", after="a/a") == ["a/z"]
    made.apply(event(DELETED, "a/a", 5, made.records["a/a"]))
    assert made.range("a/") == ["a/z"]


def test_reading_events_older_than_the_ring_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RING_EVENTS", 8)
    made = Collection(10)
    for revision in range(11, 31):
        made.apply(event(MODIFIED, "a/a", revision, made.records.get("a/a")))
    assert made.floor > 10
    assert made.position_after(made.floor - 1) is None
    position = made.position_after(made.floor)
    assert position is not None
    found = made.events(position, 100)
    assert found is not None
    assert [one.revision for one in found] == list(range(made.floor + 1, 31))
    assert made.events(0, 100) is None
    assert made.position_after(30) == made.end


def test_undo_returns_the_records_at_an_earlier_revision() -> None:
    made = Collection(0)
    made.apply(event(ADDED, "a/a", 1))
    made.apply(event(ADDED, "a/b", 2))
    made.apply(event(MODIFIED, "a/a", 3, made.records["a/a"]))
    made.apply(event(DELETED, "a/b", 4, made.records["a/b"]))
    undone = made.undo(2)
    assert undone is not None
    assert {key: record and record.revision for key, record in undone.items()} == {"a/a": 1, "a/b": 2}


def test_the_size_of_encodings_kept_with_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 250)
    made = Collection(0)
    events = [event(ADDED, f"a/{revision}", revision) for revision in range(1, 6)]
    for one in events:
        made.apply(one)
        made.keep(one, "line", b"x" * 100)
    assert [bool(one.cache) for one in events] == [False, False, False, False, True]


def test_the_index_of_a_field_follows_changes() -> None:
    made = Collection(0)
    made.load([Record("a", 1, b"x"), Record("b", 2, b"y"), Record("c", 3, b"x")])
    read: list[bytes] = []

    def value_of(data: bytes) -> str:
        read.append(data)
        return data.decode()

    assert made.find_having("letter", "x", value_of) == ["a", "c"]
    assert made.find_having("letter", "z", value_of) == []
    assert len(read) == 3
    made.apply(Event(MODIFIED, Record("a", 4, b"y"), made.records["a"]))
    made.apply(Event(MODIFIED, Record("a", 5, b"z"), made.records["a"]))
    made.apply(Event(DELETED, Record("c", 6, b"x"), made.records["c"]))
    made.apply(Event(ADDED, Record("d", 7, b"x"), None))
    assert made.find_having("letter", "x", value_of) == ["d"]
    assert made.find_having("letter", "z", value_of) == ["a"]
    assert read[3:] in ([b"z", b"x"], [b"x", b"z"])
    made.reset([Record("e", 8, b"x")], 8)
    assert made.find_having("letter", "x", value_of) == ["e"]

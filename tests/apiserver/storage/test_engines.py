"""Test each engine of the catalogue against the store's requirements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Event, Record
from dra_apiserver.storage.catalog import ENGINES, Database, engine
from dra_apiserver.storage.engine import Engine, Revisions
from dra_apiserver.storage.records import Change

from tests.support import databases

PODS, NODES = ("", "pods"), ("", "nodes")
PLENTY = 1 << 20

Open = Callable[[], Engine]


@pytest.fixture(params=sorted(ENGINES))
def open_engine(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: Callable[[], str]
) -> Iterator[Open]:
    """Return a function that opens the database, and closes what it opened before."""
    running: list[Engine] = []
    url = databases.url(request.param, postgres)

    def start() -> Engine:
        for before in running:
            before.close()
        running[:] = [engine(Database(url, tmp_path, relaxed=True))]
        return running[0]

    yield start
    for before in running:
        before.close()


@pytest.fixture
def written_engine(open_engine: Open) -> Engine:
    """Create two pods and a node, change one pod, and delete the other."""
    made = open_engine()
    assert made.open() == Revisions(0, 0)
    first, second = _record("ns/a", 2), _record("ns/b", 3)
    made.write([_change(ADDED, first), _change(ADDED, second)])
    made.write([Change(NODES, Event(ADDED, _record("n", 4), None))])
    made.write([_change(MODIFIED, _record("ns/a", 5), first), _change(DELETED, _record("ns/b", 6), second)])
    return made


def _record(key: str, revision: int) -> Record:
    return Record(key, revision, b'{"revision":%d}' % revision)


def _change(type: str, record: Record, previous: Record | None = None) -> Change:
    return Change(PODS, Event(type, record, previous))


def _content(record: Record | None) -> tuple[str, int, bytes] | None:
    return None if record is None else (record.key, record.revision, record.data)


def _events(made: Engine, after: int, until: int, size: int = PLENTY) -> list[tuple[str, int, int | None]]:
    history = made.history(PODS, after, until, size)
    assert history.until == (until if size == PLENTY else history.events[-1].revision)
    return [
        (event.type, event.revision, None if event.previous is None else event.previous.revision)
        for event in history.events
    ]


def test_objects_survive_a_restart(written_engine: Engine, open_engine: Open) -> None:
    again = open_engine()
    assert again.open() == Revisions(6, 0)
    assert sorted((resource, _content(record)) for resource, record in again.objects()) == [
        (NODES, ("n", 4, b'{"revision":4}')),
        (PODS, ("ns/a", 5, b'{"revision":5}')),
    ]
    assert again.check() == []


def test_history_has_each_event_with_the_version_before(written_engine: Engine) -> None:
    assert _events(written_engine, 0, 6) == [
        (ADDED, 2, None),
        (ADDED, 3, None),
        (MODIFIED, 5, 2),
        (DELETED, 6, 3),
    ]
    assert _events(written_engine, 2, 5) == [(ADDED, 3, None), (MODIFIED, 5, 2)]
    assert _events(written_engine, 2, 6, size=1) == [(ADDED, 3, None)]
    assert _events(written_engine, 6, 6) == []


def test_the_keys_that_changed_have_their_revision_before(written_engine: Engine) -> None:
    assert written_engine.changed_keys(PODS, 0, 6) == {"ns/a": 0, "ns/b": 0}
    assert written_engine.changed_keys(PODS, 3, 6) == {"ns/a": 2, "ns/b": 3}
    assert written_engine.changed_keys(PODS, 5, 6) == {"ns/b": 3}


def test_versions_are_found_by_revision(written_engine: Engine) -> None:
    assert [_content(record) for record in written_engine.versions([2, 5], PLENTY)] == [
        ("ns/a", 2, b'{"revision":2}'),
        ("ns/a", 5, b'{"revision":5}'),
    ]
    assert len(written_engine.versions([2, 5], size=1)) == 1
    assert len(written_engine.versions([2, 99, 5], PLENTY)) == 1


def test_compaction_keeps_versions_that_later_events_refer_to(
    written_engine: Engine, open_engine: Open
) -> None:
    while written_engine.compact(5, 1):
        pass
    assert _events(written_engine, 5, 6) == [(DELETED, 6, 3)]
    assert written_engine.versions([2], PLENTY) == []
    again = open_engine()
    assert again.open() == Revisions(6, 5)
    assert [record.key for _, record in again.objects()] == ["n", "ns/a"]
    again.write([_change(MODIFIED, _record("ns/a", 7), _record("ns/a", 5))])
    assert _events(again, 6, 7) == [(MODIFIED, 7, 5)]

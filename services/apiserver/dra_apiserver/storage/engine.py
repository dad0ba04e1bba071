"""What a database has to do for the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dra_apiserver.storage.records import Change, Event, Record, Resource
from dra_apiserver.storage.sessions import Reading, Writing


@dataclass(frozen=True, slots=True)
class Revisions:
    """The newest revision that was ever used, and the one up to which history is compacted."""

    newest: int
    compacted: int


@dataclass(frozen=True, slots=True)
class History:
    """All events of a resource from some revision to `until`, oldest first."""

    events: Sequence[Event]
    until: int


@dataclass(frozen=True, slots=True)
class Changes:
    """A part of the log, oldest first; the revision at its end, and the one up to which it is compacted."""

    changes: Sequence[Change]
    newest: int
    compacted: int


@dataclass(frozen=True, slots=True)
class Commit:
    """What became of a batch in a shared database.

    Args:
        before: the other servers' changes that came first.
        written: for each change of the batch what was stored, or None where one of `before` is of its object, or of
            what it counted.
    """

    before: Sequence[Change]
    written: Sequence[Change | None]


class FarBehind(Exception):
    """The store has to follow the log before it writes."""


class DatabaseUnusable(OSError):
    """The database is damaged, or not this API server's."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"cannot use the database {name}: {problem}")


def reason(error: Exception) -> str:
    """What the database itself says of a failure, in one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


class Engine(Protocol):
    """A durable store of objects and history. Methods block; `write` and `compact` are called from one thread.

    When `write` has returned, its changes survive a crash; when it has raised, none of them happened.
    """

    @property
    def name(self) -> str:
        """The database as messages name it: without a password."""
        ...

    def open(self) -> Revisions:
        """Open or create the database and bring its tables up to date; until `close` it is for this process alone.

        Raises:
            OSError: it cannot be used, is damaged, or another process has it.
        """
        ...

    def objects(self) -> Iterator[tuple[Resource, Record]]:
        """Every stored object.

        Raises:
            OSError: the database is damaged.
        """
        ...

    def write(self, changes: Sequence[Change]) -> None:
        """Store changes, in one transaction."""
        ...

    def history(self, resource: Resource, after: int, until: int, size: int) -> History:
        """The events of a resource with `after` < revision <= `until`.

        It ends earlier where their objects are more than `size` bytes, but not before the first event.
        """
        ...

    def changes(self, after: int, limit: int) -> Changes:
        """Up to `limit` changes of all resources after a revision; without the versions before them."""
        ...

    def touched(self, resource: Resource, after: int, until: int) -> dict[str, int]:
        """The keys that changed with `after` < revision <= `until`, each with its revision before; 0 for none."""
        ...

    def versions(self, revisions: Sequence[int], size: int) -> list[Record]:
        """The versions of objects with these revisions, in their order.

        It ends earlier where they are more than `size` bytes, but not before the first, or where one is forgotten.
        """
        ...

    def compact(self, revision: int, limit: int) -> bool:
        """Forget events up to `revision`, about `limit` of them; whether any are left to forget."""
        ...

    def begin_reading(self) -> AbstractContextManager[Reading]:
        """Begin a session that reads the past, in any thread."""
        ...

    def begin_writing(self) -> AbstractContextManager[Writing]:
        """Begin a session that changes the archive, in the thread that writes."""
        ...

    def check(self) -> list[str]:
        """What an integrity check finds wrong."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


@runtime_checkable
class SharedEngine(Engine, Protocol):
    """A database of several API servers. Its methods are called in any thread, but for `listen`, which has its own."""

    @property
    def compacted(self) -> int:
        """Up to which revision history was compacted when it was last read."""
        ...

    def commit(self, changes: Sequence[Change], applied: int) -> Commit:
        """Store a batch that was made from what is known up to revision `applied`, in one transaction.

        All changes get the next revisions in their order, but those whose objects, or what they counted, others have
        changed since `applied`.

        Raises:
            FarBehind: so much has happened since that it must be followed first.
        """
        ...

    def reopen(self) -> Revisions:
        """Have `objects` give what there is now."""
        ...

    def listen(self, seconds: float) -> None:
        """Wait until other servers may have written something, at most that long."""
        ...

    def wake(self) -> None:
        """End `listen`, for good."""
        ...

    def hang_up(self) -> None:
        """End whatever still waits for the database with an error, and connect no more until it is opened again."""
        ...

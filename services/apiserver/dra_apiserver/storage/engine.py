"""The interface between the store and its database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dra_apiserver.storage.records import Change, Event, Record, Resource
from dra_apiserver.storage.sessions import Reading, Writing


@dataclass(frozen=True, slots=True)
class Revisions:
    """The newest revision that was ever used, and the revision up to which history is compacted."""

    newest: int
    compacted: int


@dataclass(frozen=True, slots=True)
class History:
    """All events of a resource from some revision to `until`, oldest first."""

    events: Sequence[Event]
    until: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Consecutive changes of the log, the last revision, and the revision up to which the log is compacted."""

    changes: Sequence[Change]
    newest: int
    compacted: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The result of a batch in a shared database.

    Args:
        before: the changes of other servers that came first.
        written: for each change of the batch the stored change, or None if `before` changed its object or
            objects that it counted.
    """

    before: Sequence[Change]
    written: Sequence[Change | None]


class FarBehind(Exception):
    """The store has too many changes of the log to read before it can write."""


class DatabaseUnusable(OSError):
    """The database is damaged, or it belongs to another program."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"cannot use the database {name}: {problem}")


def reason(error: Exception) -> str:
    """Return the database's own message about a failure, in one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


class Engine(Protocol):
    """A durable store of objects and history. Methods block; `write` and `compact` are called from one thread.

    When `write` has returned, its changes survive a crash; when it has raised, none of them happened.
    """

    @property
    def name(self) -> str:
        """The database's name in messages, without a password."""
        ...

    def open(self) -> Revisions:
        """Open or create the database and bring its tables up to date. Until `close` only this process may use it.

        Raises:
            OSError: the database cannot be used, is damaged, or another process has it.
        """
        ...

    def objects(self) -> Iterator[tuple[Resource, Record]]:
        """Yield every stored object.

        Raises:
            OSError: the database is damaged.
        """
        ...

    def write(self, changes: Sequence[Change]) -> None:
        """Store changes, in one transaction."""
        ...

    def history(self, resource: Resource, after: int, until: int, size: int) -> History:
        """Return the events of a resource with `after` < revision <= `until`.

        The result ends earlier if the objects are more than `size` bytes, but has at least one event.
        """
        ...

    def changed_keys(self, resource: Resource, after: int, until: int) -> dict[str, int]:
        """Return the keys that changed with `after` < revision <= `until`, each with its revision before, or 0."""
        ...

    def versions(self, revisions: Sequence[int], size: int) -> list[Record]:
        """Return the versions of objects with these revisions, in their order.

        The result ends earlier if they are more than `size` bytes, but not before the first, or before a
        version that is deleted.
        """
        ...

    def compact(self, revision: int, limit: int) -> bool:
        """Delete events up to `revision`, about `limit` of them. Return whether any are left."""
        ...

    def begin_reading(self) -> AbstractContextManager[Reading]:
        """Begin a session that reads the past, in any thread."""
        ...

    def begin_writing(self) -> AbstractContextManager[Writing]:
        """Begin a session that changes the archive, in the thread that writes."""
        ...

    def check(self) -> list[str]:
        """Return the findings of an integrity check."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


@runtime_checkable
class SharedEngine(Engine, Protocol):
    """A database of several API servers. Methods can be called in any thread, except `listen`, which has its own."""

    @property
    def compacted_revision(self) -> int:
        """The revision up to which history was compacted when it was last read."""
        ...

    def commit(self, changes: Sequence[Change], applied: int) -> Commit:
        """Store a batch that was made from the state at revision `applied`, in one transaction.

        The changes get the next revisions in their order, except those whose objects, or counted objects,
        other servers have changed since `applied`.

        Raises:
            FarBehind: there are so many newer changes that the store has to read them first.
        """
        ...

    def changes(self, after: int, limit: int) -> Changes:
        """Return up to `limit` changes of all resources after a revision, without the versions before them."""
        ...

    def reopen(self) -> Revisions:
        """Let `objects` return the current objects."""
        ...

    def listen(self, seconds: float) -> None:
        """Wait at most that long, until other servers may have written something."""
        ...

    def wake(self) -> None:
        """End `listen`, and all later calls of it."""
        ...

    def hang_up(self) -> None:
        """End every wait for the database with an error, and do not connect until the engine is opened again."""
        ...

"""What a database has to do for the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dra_apiserver.storage.records import Change, Event, Record, Resource


@dataclass(frozen=True, slots=True)
class Revisions:
    """The newest revision that was ever used, and the one up to which history is compacted."""

    newest: int
    compacted: int


class Engine(Protocol):
    """A durable store of objects and history. Methods block; `write` and `compact` are called from one thread.

    When `write` has returned, its changes survive a crash; when it has raised, none of them happened.
    """

    def open(self) -> Revisions:
        """Open or create the database and bring its tables up to date."""
        ...

    def objects(self) -> Iterator[tuple[Resource, Record]]:
        """Every stored object."""
        ...

    def write(self, changes: Sequence[Change]) -> None:
        """Store changes, in one transaction."""
        ...

    def history(self, resource: Resource, after: int, until: int, limit: int) -> list[Event]:
        """The events of a resource with `after` < revision <= `until`, oldest first, at most `limit`."""
        ...

    def compact(self, revision: int, limit: int) -> bool:
        """Forget events up to `revision`, about `limit` of them; whether any are left to forget."""
        ...

    def check(self) -> list[str]:
        """What an integrity check finds wrong."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...

"""What became of each field of an old object."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field


class Outcome(enum.StrEnum):
    """What became of a field; the value is how a report names it."""

    SAME = "same"
    MOVED = "moved"
    IMPLIED = "implied"
    LOST = "no successor"


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the report: a field of an object, and what became of it.

    ``path`` is empty where the note is about the whole object.
    """

    subject: str
    path: str
    outcome: Outcome
    text: str

    def __str__(self) -> str:
        where = f"{self.subject}: {self.path}" if self.path else self.subject
        return f"{where}: {self.outcome}: {self.text}"


@dataclass(slots=True)
class Notes:
    """The notes about one object, in the order in which they were made."""

    subject: str
    entries: list[Note] = field(default_factory=list)

    def add(self, path: str, outcome: Outcome, text: str) -> None:
        """Note what became of the field at ``path``."""
        self.entries.append(Note(self.subject, path, outcome, text))

    def same(self, path: str, text: str = "v1 has the same field") -> None:
        """The field stays as it is."""
        self.add(path, Outcome.SAME, text)

    def moved(self, path: str, text: str) -> None:
        """The field has a successor."""
        self.add(path, Outcome.MOVED, text)

    def implied(self, path: str, text: str) -> None:
        """v1 does this always, or by default."""
        self.add(path, Outcome.IMPLIED, text)

    def lost(self, path: str, text: str) -> None:
        """Nothing in v1 says this."""
        self.add(path, Outcome.LOST, text)


def lost(notes: Iterable[Note]) -> list[Note]:
    """Those that say that something had no successor."""
    return [note for note in notes if note.outcome is Outcome.LOST]

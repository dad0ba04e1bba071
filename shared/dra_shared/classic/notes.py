"""Notes about the conversion of each field of an old object."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field


class Outcome(enum.StrEnum):
    """The conversion's treatment of a field of the old object. The value is the word in reports."""

    SAME = "same"
    MOVED = "moved"
    IMPLIED = "implied"
    LOST = "no successor"


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the report: a field of an old object, and how the conversion treated it.

    ``path`` is empty if the note is about the whole object.
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
        """Note how the conversion treated the field at ``path``."""
        self.entries.append(Note(self.subject, path, outcome, text))

    def note_same(self, path: str, text: str = "v1 has the same field") -> None:
        """Note that the field is unchanged."""
        self.add(path, Outcome.SAME, text)

    def note_moved(self, path: str, text: str) -> None:
        """Note that the field has a successor."""
        self.add(path, Outcome.MOVED, text)

    def note_implied(self, path: str, text: str) -> None:
        """Note that v1 always does what the field requests, or does it by default."""
        self.add(path, Outcome.IMPLIED, text)

    def note_lost(self, path: str, text: str) -> None:
        """Note that v1 cannot express the field."""
        self.add(path, Outcome.LOST, text)


def find_lost(notes: Iterable[Note]) -> list[Note]:
    """Return the notes about fields without a successor."""
    return [note for note in notes if note.outcome is Outcome.LOST]

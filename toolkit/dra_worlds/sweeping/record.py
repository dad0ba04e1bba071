"""Outcomes as JSON lines, which a later run of the same sweep reads instead of trying again."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from dra_scheduler.plan.sweeping.trials import Outcome
from dra_shared.errors import UserError


class _Line(msgspec.Struct):
    sweep: str
    outcome: Outcome


class Record:
    """The outcomes of a file. ``fingerprint`` names the sweep: lines of others are skipped."""

    def __init__(self, path: Path | None, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint

    def read(self) -> Iterator[Outcome]:
        """Yield the recorded courses. Trials without one are tried again.

        Raises:
            UserError: the file cannot be read.
        """
        if self._path is None or not self._path.exists():
            return
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError as error:
            raise UserError(f"{self._path}: {error.strerror}") from error
        for line in lines:
            try:
                found = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError:
                # The last line of a run that was killed may be incomplete.
                continue
            if found.sweep == self._fingerprint and found.outcome.course is not None:
                yield found.outcome

    def add(self, outcome: Outcome) -> None:
        """Append an outcome.

        Raises:
            UserError: the file cannot be written.
        """
        if self._path is None or outcome.course is None:
            return
        line = msgspec.json.encode(_Line(self._fingerprint, outcome))
        try:
            with self._path.open("ab") as file:
                # An incomplete line may precede.
                file.write(b"\n" + line if _ends_within_line(self._path) else line)
                file.write(b"\n")
        except OSError as error:
            raise UserError(f"{self._path}: {error.strerror}") from error


def _ends_within_line(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return False
        file.seek(-1, 2)
        return file.read(1) != b"\n"

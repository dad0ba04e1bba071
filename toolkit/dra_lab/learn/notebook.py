"""The learner's working directory: a file for each lesson, the lesson's cluster, and which lessons are solved.

``.learn.json`` there has the current lesson and the progress. The cluster is in ``.dralab``, so that every
command of ``dralab`` uses it in that directory.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dra_kube.cluster import replace
from dra_shared.errors import UserError

from dra_lab.learn.lesson import Lesson, lesson, lessons

_STATE = ".learn.json"
_NAME = "dralab-learn"


@dataclass
class _State:
    current: int = 1
    solved: list[int] = field(default_factory=list)
    hints: dict[str, int] = field(default_factory=dict)
    """The number of hints shown, by lesson."""
    cluster: int = 0
    """The lesson whose cluster was started last."""
    submitted: str = ""
    """The digest of the manifests that were applied last."""


class Notebook:
    """A learner's progress, stored in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.data = self.folder / ".dralab"
        """The cluster's directory."""
        self._file = self.folder / _STATE
        self._state = self._read()

    @classmethod
    def here(cls) -> "Notebook":
        """Return the notebook in ``DRALAB_LEARN``, in the working folder, or in its folder ``dralab-learn``."""
        given = os.environ.get("DRALAB_LEARN")
        if given:
            return cls(Path(given))
        return cls(Path() if Path(_STATE).exists() else Path(_NAME))

    @property
    def current(self) -> Lesson:
        """The learner's current lesson."""
        return lesson(str(self._state.current))

    @property
    def lesson_to_resume(self) -> Lesson:
        """The lesson to continue with: the current one, or the next one if it is solved."""
        return (self.next if self._state.current in self.solved_lessons else None) or self.current

    @property
    def solved_lessons(self) -> set[int]:
        """The numbers of the solved lessons."""
        return set(self._state.solved)

    @property
    def next(self) -> Lesson | None:
        """The first lesson after the current one that is not solved, or the first at all; None after the last."""
        left = [one for one in lessons() if one.number not in self.solved_lessons]
        later = [one for one in left if one.number > self._state.current]
        return next(iter(later or left), None)

    def file(self, one: Lesson) -> Path:
        """Return the path of the learner's file."""
        return self.folder / one.file_name

    def choose(self, one: Lesson) -> None:
        """Make this lesson the current one, and create its file if it does not exist."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.file(one).exists():
            self.file(one).write_text(one.file)
        self._state.current = one.number
        self._write()

    def forget(self, one: Lesson) -> None:
        """Restore the lesson's file and its hints to their initial state."""
        self.file(one).write_text(one.file)
        self._state.hints.pop(str(one.number), None)
        self._write()

    def solve(self, one: Lesson) -> None:
        """Record that the lesson is solved."""
        self._state.solved = sorted(self.solved_lessons | {one.number})
        self._write()

    def hint(self, one: Lesson) -> int:
        """Return the index of the next hint. The last hint is repeated."""
        number = self._state.hints.get(str(one.number), 0)
        self._state.hints[str(one.number)] = min(number + 1, len(one.hints) - 1)
        self._write()
        return number

    @property
    def cluster(self) -> int:
        """The lesson that the cluster was started for; 0 for none."""
        return self._state.cluster

    @cluster.setter
    def cluster(self, number: int) -> None:
        self._state.cluster, self._state.submitted = number, ""
        self._write()

    def is_new(self, text: str) -> bool:
        """True if the manifests differ from those that were applied last."""
        return self._state.submitted != _digest(text)

    def record_submission(self, text: str | None) -> None:
        """Record that these manifests were applied; None if the cluster may have others."""
        self._state.submitted = "" if text is None else _digest(text)
        self._write()

    def _read(self) -> _State:
        try:
            return _State(**json.loads(self._file.read_bytes()))
        except FileNotFoundError:
            return _State()
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"cannot read {self._file}: {error}; to begin again, remove that file") from error

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        replace(self._file, json.dumps(asdict(self._state), indent=2).encode())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

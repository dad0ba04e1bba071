"""The parts of a lesson, read from its folder.

``lesson.md`` has the title, an introduction, and the sections Task and Solved. ``lesson.yaml`` has the
cluster, the goals, the hints and advice for likely mistakes. ``before.yaml`` has the objects that exist from
the start, ``task.yaml`` the manifests that the learner changes, and ``solution.yaml`` one solution. Other
files there are drivers. ``mistakes.yaml``, next to the folders, has mistakes that are recognised in every
lesson.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_shared.errors import UserError
from dra_shared.yamltext import load

_FOLDER = Path(__file__).with_name("lessons")
_PAGE = re.compile(
    r"# (?P<title>.+?)\n(?P<about>.+?)\n## Task\n(?P<task>.+?)\n## Solved\n(?P<solved>.+)", re.DOTALL
)


@dataclass(frozen=True)
class Goal:
    """A goal of a lesson: its description, and the CEL expression that is true once it is reached."""

    text: str
    expression: str


@dataclass(frozen=True)
class Mistake:
    """A CEL expression that recognizes a mistake, and the advice."""

    when: str
    say: str


@dataclass(frozen=True)
class Refusal:
    """A pattern for errors of the API server, and the advice for errors that match."""

    match: re.Pattern[str]
    say: str


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson; its texts are Markdown."""

    number: int
    name: str
    """The name for the lesson's files."""
    title: str
    about: str
    task: str
    solved: str
    goals: Sequence[Goal]
    hints: Sequence[str]
    mistakes: Sequence[Mistake]
    samples: Mapping[str, Any]
    """Changes of a device's attributes and capacity, by the name of the sample that they make."""
    nodes: int
    gpus: str
    drivers: Sequence[str]
    before: str
    """Manifests of the objects that exist when the lesson starts."""
    file: str
    """The manifests that the learner changes."""
    solution: str

    @property
    def file_name(self) -> str:
        """Return the name of the learner's file."""
        return f"{self.number:02}-{self.name}.yaml"

    def data(self) -> dict[str, Any]:
        """Return all data that is needed to show the lesson."""
        shown = ("number", "name", "title", "about", "task", "solved", "before", "file", "solution")
        return {
            **{name: getattr(self, name) for name in shown},
            "hints": list(self.hints),
            "goals": [goal.text for goal in self.goals],
            "cluster": {"nodes": self.nodes, "gpus": self.gpus, "drivers": list(self.drivers)},
        }


@functools.cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons in order."""
    return tuple(_read(folder) for folder in sorted(_FOLDER.iterdir()) if (folder / "lesson.md").exists())


@functools.cache
def common_mistakes() -> tuple[Mistake, ...]:
    """Return the mistakes that are recognised in every lesson.

    Their conditions are about one ``pod``. In their advice ``{pods}`` stands for the names of the pods that have them.
    """
    given = load((_FOLDER / "mistakes.yaml").read_bytes()).value
    return tuple(Mistake(one["when"], one["say"]) for one in given["mistakes"])


@functools.cache
def refusals() -> tuple[Refusal, ...]:
    """Return the errors of the API server for which every lesson has advice."""
    given = load((_FOLDER / "mistakes.yaml").read_bytes()).value
    return tuple(Refusal(re.compile(one["match"]), one["say"]) for one in given["refusals"])


def lesson(wanted: str) -> Lesson:
    """Return the lesson with a number or name.

    Raises:
        UserError: there is no such lesson.
    """
    for one in lessons():
        if wanted.lstrip("0") == str(one.number) or wanted == one.name:
            return one
    raise UserError(
        f"there is no lesson {wanted!r}: choose 1 to {len(lessons())}; see dralab learn --list", 2
    )


def _read(folder: Path) -> Lesson:
    number, _, name = folder.name.partition("-")
    page = _PAGE.fullmatch((folder / "lesson.md").read_text())
    assert page is not None, f"{folder}: lesson.md lacks a section"
    given = load((folder / "lesson.yaml").read_bytes()).value
    cluster = given.get("cluster", {})
    before = folder / "before.yaml"
    return Lesson(
        number=int(number),
        name=name,
        **{part: text.strip() for part, text in page.groupdict().items()},
        goals=[Goal(one["text"], one["expression"]) for one in given["goals"]],
        hints=given["hints"],
        mistakes=[Mistake(one["when"], one["say"]) for one in given.get("mistakes", ())],
        samples=given.get("samples", {}),
        nodes=cluster.get("nodes", 1),
        gpus=cluster.get("gpus", "2xA100-SXM4-40GB:whole"),
        drivers=[_driver(folder, driver) for driver in cluster.get("drivers", ["gpu.nvidia.com"])],
        before=before.read_text() if before.exists() else "",
        file=(folder / "task.yaml").read_text(),
        solution=(folder / "solution.yaml").read_text(),
    )


def _driver(folder: Path, driver: str) -> str:
    """Return a driver's name, or the path of its profile."""
    file = folder / driver
    return str(file) if file.is_file() else driver

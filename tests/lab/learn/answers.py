"""Answers that learners give, and their advice: ``tests/data/answers`` has a file for each lesson.

An answer is edits of a lesson's solution, or of its task.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

from dra_lab.learn.lesson import Lesson
from dra_shared.yamltext import load

_FOLDER = Path(__file__).parents[2] / "data/answers"


@dataclass(frozen=True)
class Answer:
    """A learner's answer, and a part of the advice that is shown for it. Right answers show no advice."""

    edits: tuple[tuple[str, str], ...]
    of: str
    shown: str

    def text(self, lesson: Lesson) -> str:
        """Return the manifests."""
        text = lesson.solution if self.of == "solution" else lesson.file
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text


def wrong_answers(lesson: Lesson) -> list[Answer]:
    """Return the answers that are not accepted."""
    return _read(lesson.number)["wrong"]


def right_answers(lesson: Lesson) -> list[Answer]:
    """Return other ways to solve the lesson."""
    return _read(lesson.number)["right"]


@functools.cache
def _read(number: int) -> dict[str, list[Answer]]:
    given = load((_FOLDER / f"{number:02}.yaml").read_bytes()).value
    return {
        verdict: [
            Answer(
                tuple((edit["old"], edit["new"]) for edit in one.get("edits", ())),
                one.get("of", "solution"),
                one.get("shown", ""),
            )
            for one in answers
        ]
        for verdict, answers in given.items()
    }

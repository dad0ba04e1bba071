"""Show lessons in a terminal: pages, goals, advice. Markdown is formatted on a terminal, and plain elsewhere."""

import re
import shutil
import textwrap
from collections.abc import Sequence

from dra_kube.tables import uses_colours

from dra_lab.learn.exercise import Verdict
from dra_lab.learn.lesson import Goal, Lesson

_WIDTH = 100
_BOLD, _CODE, _GOOD, _PLAIN = "\033[1m", "\033[36m", "\033[32m", "\033[0m"


def page(one: Lesson, total: int) -> str:
    """Format the lesson's text and task."""
    return _paint_markdown(f"# {one.number}/{total} {one.title}\n\n{one.about}\n\n## Task\n\n{one.task}")


def format_solved(one: Lesson) -> str:
    """Return the text to show after a lesson is solved."""
    return _paint_markdown(f"## Solved\n\n{one.solved}")


def contents(all_lessons: Sequence[Lesson], current: int, done: set[int]) -> str:
    """Format the list of lessons, a line for each."""
    return "\n".join(
        f"{'>' if one.number == current else ' '} {_mark(one.number in done)} {one.number:2} {one.name:26} {one.title}"
        for one in all_lessons
    )


def goals(reached: Sequence[tuple[Goal, bool]]) -> str:
    """Return a line for each goal, which says if it is reached."""
    return "\n".join(f"  {_mark(held)} {goal.text}" for goal, held in reached)


def verdict(one: Verdict) -> str:
    """Format the goals, and advice about the missing ones."""
    return "\n\n".join([goals(one.goals), *map(_paint_markdown, one.advice), *one.explanations])


def hint(one: Lesson, number: int) -> str:
    """Format a hint of the lesson."""
    return _paint_markdown(f"Hint {number + 1} of {len(one.hints)}: {one.hints[number].strip()}")


def _mark(held: bool) -> str:
    if not held:
        return "[ ]"
    return f"{_GOOD}[x]{_PLAIN}" if uses_colours() else "[x]"


def _paint_markdown(text: str) -> str:
    text = "\n\n".join(map(_wrap, text.split("\n\n")))
    if not uses_colours():
        return text
    text = re.sub(r"^#+ (.+)$", rf"{_BOLD}\1{_PLAIN}", text, flags=re.MULTILINE)
    text = re.sub(r"\*\*([^*]+)\*\*", rf"{_BOLD}\1{_PLAIN}", text)
    text = re.sub(r"^( {4}.+)$", rf"{_CODE}\1{_PLAIN}", text, flags=re.MULTILINE)
    return re.sub(r"`([^`\n]+)`", rf"{_CODE}\1{_PLAIN}", text)


def _wrap(block: str) -> str:
    """Wrap a block of Markdown to the terminal's width; commands and headings stay as they are."""
    width = min(shutil.get_terminal_size((_WIDTH, 0)).columns, _WIDTH)
    if block.startswith((" " * 4, "#")):
        return block
    items = re.split(r"^(?=\* )", block, flags=re.MULTILINE)
    return "\n".join(
        textwrap.fill(
            " ".join(item.split()),
            width,
            subsequent_indent="  " if item.startswith("* ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for item in items
        if item
    )

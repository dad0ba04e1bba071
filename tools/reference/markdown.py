"""Markdown for the pages of the reference."""

import re
from collections.abc import Iterable, Sequence

from dra_cli.documentation.pages import Page as Page


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; what stands in its cells is Markdown, on one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def code(text: str) -> str:
    """A word as code; an empty one stays empty."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", text)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()

"""Markdown for the pages of the reference."""

import re
from collections.abc import Iterable, Sequence

from dra_cli.documentation.pages import Page as Page


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Its cells are Markdown on one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def code(text: str) -> str:
    """Format a word as code. An empty word stays empty."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Return text that Markdown shows unchanged."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", text)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()

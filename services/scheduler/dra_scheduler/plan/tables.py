"""Answers as tables: HTML for notebooks, CSV for spreadsheets."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_MOST_ROWS = 200


@dataclass(frozen=True)
class Table:
    """A table of an answer: its caption, the names of its columns, and its rows.

    A cell is a text, a number, or a tuple of devices as ``driver/pool/device``.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]

    def csv(self) -> str:
        """Return the names of the columns and all rows as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.head)
        writer.writerows([_plain(cell) for cell in row] for row in self.rows)
        return text.getvalue()


def _plain(cell: object) -> object:
    return ", ".join(cell) if isinstance(cell, tuple) else cell


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table for a notebook with the first rows, up to a maximum."""
    found = list(rows)
    lines = [f"<table><caption>{escape(caption)}</caption><thead>{_row('th', head)}</thead><tbody>"]
    lines += [_row("td", row) for row in found[:_MOST_ROWS]]
    if len(found) > _MOST_ROWS:
        lines.append(f'<tr><td colspan="{len(head)}">and {len(found) - _MOST_ROWS} more</td></tr>')
    return "".join([*lines, "</tbody></table>"])


def _row(cell: str, values: Iterable[object]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(str(value))}</{cell}>" for value in values) + "</tr>"

"""Answers as HTML tables for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape

_MOST_ROWS = 200


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with the first rows, up to a maximum."""
    found = list(rows)
    lines = [f"<table><caption>{escape(caption)}</caption><thead>{_row('th', head)}</thead><tbody>"]
    lines += [_row("td", row) for row in found[:_MOST_ROWS]]
    if len(found) > _MOST_ROWS:
        lines.append(f'<tr><td colspan="{len(head)}">and {len(found) - _MOST_ROWS} more</td></tr>')
    return "".join([*lines, "</tbody></table>"])


def _row(cell: str, values: Iterable[object]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(str(value))}</{cell}>" for value in values) + "</tr>"

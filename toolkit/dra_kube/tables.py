"""Tables in a terminal: columns as wide as kubectl's, and states in colour."""

import os
import re
import sys
from collections.abc import Sequence

_GAP = "   "
# kubectl's columns have at least six characters, including the gap.
_NARROWEST = 3
_GOOD, _WAITS, _BAD, _PLAIN = "\033[32m", "\033[33m", "\033[31m", "\033[0m"
_COLOURED = {
    **dict.fromkeys(
        ("Running", "Ready", "Active", "Bound", "Succeeded", "Completed", "Complete", "Healthy"), _GOOD
    ),
    **dict.fromkeys(("True", "allocated"), _GOOD),
    **dict.fromkeys(
        ("Pending", "ContainerCreating", "Terminating", "NotReady", "pending", "Unknown"), _WAITS
    ),
    **dict.fromkeys(("Failed", "Error", "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull"), _BAD),
    **dict.fromkeys(("Evicted", "OOMKilled", "Unhealthy", "UnexpectedAdmissionError", "Warning"), _BAD),
}


def uses_colours() -> bool:
    """True if the output has colours: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str) -> str:
    """Return the text in the colour of the state that it names, if any."""
    colour = _COLOURED.get(text.partition(",")[0])
    return f"{colour}{text}{_PLAIN}" if colour else text


def natural_key(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key that puts node-2 before node-10."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", text))


class Table:
    """Rows below a header. Later rows keep the column widths of earlier ones, as in a watch."""

    def __init__(self, header: Sequence[str], *, headers: bool = True) -> None:
        self._header = list(header)
        self._headers = headers
        self._widths = [max(len(cell), _NARROWEST) if headers else _NARROWEST for cell in header]
        self._colours = uses_colours()

    def text(self, rows: Sequence[Sequence[str]]) -> str:
        """Format the rows, with the header if it was not shown yet."""
        shown = [self._header, *rows] if self._headers else list(rows)
        self._headers = False
        self._widths = [max([width, *(len(row[i]) for row in rows)]) for i, width in enumerate(self._widths)]
        return "\n".join(self._line(row, index or len(shown) == len(rows)) for index, row in enumerate(shown))

    def _line(self, row: Sequence[str], painted: object) -> str:
        cells = [
            (paint(cell) if painted and self._colours else cell) + " " * (width - len(cell))
            for cell, width in zip(row, self._widths, strict=True)
        ]
        return _GAP.join(cells).rstrip()

"""Plots as SVG, written by hand.

A plot is a few rectangles, lines and labels. Their colours are CSS classes of the page, so that one SVG fits the
light and the dark scheme and paper, without a script and without a plotting library in the scheduler's image.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 720
_LABEL = 220
_ROW = 30
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 44


@dataclass(frozen=True)
class Part:
    """A part of a bar: its CSS class, its value, and a title that is shown when the pointer is over it."""

    kind: str
    value: float
    title: str


@dataclass(frozen=True)
class Bar:
    """A bar of parts, with a label before and a note after it."""

    label: str
    parts: Sequence[Part]
    note: str = ""


@dataclass(frozen=True)
class Point:
    """A point of a scatter plot with a title, and a mark next to it.

    ``spread`` has the ends of the vertical confidence interval.
    """

    x: float
    y: float
    title: str
    mark: str = ""
    spread: tuple[float, float] | None = None


@dataclass(frozen=True)
class Line:
    """A named step line: each value holds until the next moment."""

    name: str
    steps: Sequence[tuple[float, float]]


def draw_bars(title: str, bars: Sequence[Bar], whole: float | None = None) -> str:
    """Return horizontal bars. All bars have the same scale. A bar of value ``whole`` takes the full width."""
    most = whole or max((sum(part.value for part in bar.parts) for bar in bars), default=0.0) or 1.0
    room = _WIDTH - _LABEL - 150
    rows = []
    for number, bar in enumerate(bars):
        top = number * _ROW
        rows.append(f'<text x="{_LABEL - 10}" y="{top + 19}" class="label">{_shorten(bar.label)}</text>')
        x = float(_LABEL)
        for part in bar.parts:
            width = part.value / most * room
            if width > 0:
                rows.append(_rectangle(x, top + 6, width, 18, part.kind, part.title))
            x += width
        rows.append(f'<text x="{x + 8:.1f}" y="{top + 19}" class="note">{escape(bar.note)}</text>')
    return _svg(title, max(len(bars) * _ROW, 1), rows)


def draw_scatter(title: str, points: Sequence[Point], axes: tuple[str, str], front: Iterable[Point]) -> str:
    """Return points with the names of both axes, and a line through the points of the front."""
    height = 340
    scale = _Scale([point.x for point in points], _values(points), height)
    rows = [*scale.grid(axes)]
    steps = sorted(front, key=lambda point: point.x)
    if len(steps) > 1:
        path = " ".join(f"{scale.x(point.x):.1f},{scale.y(point.y):.1f}" for point in steps)
        rows.append(f'<polyline points="{path}" class="front"/>')
    # Points with a mark are drawn last, so that they cover the others.
    for point in sorted(points, key=lambda point: bool(point.mark)):
        x, y = scale.x(point.x), scale.y(point.y)
        kind = "point best" if point.mark else "point"
        if point.spread is not None:
            low, high = (scale.y(value) for value in point.spread)
            rows.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" class="spread"/>')
        rows.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}">'
            f"<title>{escape(point.title)}</title></circle>"
            f'<text x="{x + 8:.1f}" y="{y - 8:.1f}" class="mark">{escape(point.mark)}</text>'
        )
    return _svg(title, height, rows)


def draw_steps(title: str, lines: Sequence[Line], axes: tuple[str, str]) -> str:
    """Return lines over time, each with its name at the end of a legend below the plot."""
    height = 240
    times = [time for line in lines for time, _ in line.steps]
    values = [value for line in lines for _, value in line.steps]
    scale = _Scale(times, [*values, 0.0], height)
    rows = [*scale.grid(axes)]
    for number, line in enumerate(lines):
        path, last = "", 0.0
        for time, value in line.steps:
            x, y = scale.x(time), scale.y(value)
            path += f"M{x:.1f} {y:.1f}" if not path else f"H{x:.1f}V{y:.1f}"
            last = time
        path += f"H{scale.x(max(times, default=last)):.1f}" if path else ""
        rows.append(f'<path d="{path}" class="line line-{number % 6}"/>')
    legend = "".join(
        f'<span class="key"><svg width="18" height="10" aria-hidden="true">'
        f'<path d="M0 5H18" class="line line-{n % 6}"/></svg>{escape(line.name)}</span>'
        for n, line in enumerate(lines)
    )
    return _svg(title, height, rows) + f'<p class="legend">{legend}</p>'


class _Scale:
    """Converts values to positions. The axes begin at zero and end at a round number."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], height: int) -> None:
        self._most_x, self._most_y = _round_up(max(xs, default=1.0)), _round_up(max(ys, default=1.0))
        self._height = height

    def x(self, value: float) -> float:
        return _LEFT + value / self._most_x * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self._height - _BOTTOM - value / self._most_y * (self._height - _TOP - _BOTTOM)

    def grid(self, axes: tuple[str, str]) -> Iterable[str]:
        bottom = self._height - _BOTTOM
        for step in range(5):
            x, y = self._most_x * step / 4, self._most_y * step / 4
            yield (
                f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{self.y(y):.1f}" y2="{self.y(y):.1f}" class="grid"/>'
                f'<text x="{_LEFT - 8}" y="{self.y(y) + 4:.1f}" class="tick" text-anchor="end">{y:g}</text>'
                f'<text x="{self.x(x):.1f}" y="{bottom + 18}" class="tick" text-anchor="middle">{x:g}</text>'
            )
        yield (
            f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 38}" class="axis" text-anchor="end">{escape(axes[0])}</text>'
            f'<text x="14" y="{_TOP}" class="axis" transform="rotate(-90 14 {_TOP})" text-anchor="end">'
            f"{escape(axes[1])}</text>"
        )


def _values(points: Sequence[Point]) -> list[float]:
    return [value for point in points for value in (point.y, *(point.spread or ()))]


def _round_up(value: float) -> float:
    """Return the next number that four steps divide into round numbers."""
    if value <= 0:
        return 1.0
    unit = 1.0
    while unit * 10 <= value:
        unit *= 10
    while unit > value:
        unit /= 10
    return next(
        unit * factor
        for factor in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 4.8, 6, 8, 10)
        if unit * factor >= value * 0.9999
    )


def _rectangle(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="{kind}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _shorten(text: str, most: int = 32) -> str:
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")


def _svg(title: str, height: int, rows: Iterable[str]) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(rows)}</svg>"
    )

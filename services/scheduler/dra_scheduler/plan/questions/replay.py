"""``plan replay``: the waiting times and device use of a recorded timeline of pods."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from dra_shared.api.meta import Struct
from dra_shared.jsontypes import JsonObject
from dra_shared.optiontypes import number
from dra_shared.plurals import count

from dra_scheduler.plan.charts import Line, draw_steps
from dra_scheduler.plan.questions.change import ChangeRequest
from dra_scheduler.plan.questions.question import Door, Question
from dra_scheduler.plan.questions.texts import INTERRUPTED, MOST_PODS, name_objects, uncertainty_lines
from dra_scheduler.plan.tables import Table

if TYPE_CHECKING:
    from dra_scheduler.plan.objects import Objects
    from dra_scheduler.plan.replaying.answer import Course, Replay, Use


_MOST_USES = 6
_FIGURES = ("utilisation", "starved", "preempted", "cost", "idle cost")


class ArrivalRequest(Struct):
    """``object`` is a pod that arrives at ``at`` seconds and stays for ``lasts`` seconds, or forever."""

    at: float
    object: JsonObject
    lasts: float | None = None


class ReplayRequest(Struct):
    """A timeline of pods. ``objects`` are all objects that these pods refer to. The ``changes`` are cumulative."""

    arrivals: tuple[ArrivalRequest, ...]
    objects: tuple[JsonObject, ...] = ()
    changes: tuple[ChangeRequest, ...] = ()
    starved_after: float = 600.0


def _ask(door: Door, asked: ReplayRequest) -> Replay:
    recorded = door.timeline(asked.arrivals, asked.objects)
    variants, unknown = door.apply_changes(asked.changes) if asked.changes else ((), ())
    left_out = [*recorded.left_out, *unknown]
    answer = door.planner.replay(
        recorded.timeline, variants, starved_after=asked.starved_after, left_out=left_out
    )
    return msgspec.structs.replace(answer, uncertain=(*answer.uncertain, *recorded.problems))


def _add_words(words: argparse.ArgumentParser) -> None:
    words.add_argument("file", help="the timeline: CSV of start, end and shape, a dump, or a recorded watch")
    words.add_argument("--shapes", metavar="FILE", help="manifests of the pods that a CSV names")
    words.add_argument(
        "--changes", type=Path, metavar="FILE", help="changes to try, each in addition to the previous ones"
    )
    words.add_argument(
        "--starved-after",
        type=number(0.0, None, float),
        default=600.0,
        metavar="SECONDS",
        help="seconds after which a waiting pod is listed as starved (600)",
    )


def _read_words(chosen: argparse.Namespace, objects: Objects) -> ReplayRequest:
    return ReplayRequest(
        arrivals=chosen.file,
        objects=chosen.shapes or (),
        changes=chosen.changes or (),
        starved_after=chosen.starved_after,
    )


def _text(answer: Replay) -> str:
    lines = []
    for course in answer.courses:
        waits = course.waits
        lines += [
            f"{course.name}: {course.placed} of {count(course.pods, 'pod')} placed, utilisation "
            f"{course.utilisation:.1%} in {course.span:g} s",
            f"  waits: mean {waits.mean:g} s, median {waits.median:g} s, 95th percentile {waits.p95:g} s, "
            f"longest {waits.longest:g} s",
        ]
        if course.cost:
            lines.append(f"  cost: {course.cost:.6g}, of which {course.idle_cost:.6g} for unused devices")
        for name, uses in (("model", course.models), ("namespace", course.namespaces)):
            if len(uses) > 1:
                parts = (f"{use.name} {use.utilisation:.1%}" for use in uses[:_MOST_USES])
                lines.append(f"  utilisation by {name}: {', '.join(parts)}")
        if course.preempted:
            lines.append(f"  {count(course.preempted, 'pod')} preempted, which started again")
        for pod in course.starved[:MOST_PODS]:
            why = f": {pod.message}" if pod.message else ""
            lines.append(f"  starved: {pod.pod}, which came at {pod.at:g} s, waited {pod.waited:g} s{why}")
        if len(course.starved) > MOST_PODS:
            lines.append(f"  and {len(course.starved) - MOST_PODS} more; -o json has all")
    if not answer.complete:
        lines.append(INTERRUPTED)
    return "\n".join([*lines, *uncertainty_lines(answer.uncertain)])


def _phrase(asked: ReplayRequest) -> str:
    given: Any = asked.arrivals
    name = name_objects(given) if isinstance(given, str | Path) else count(len(given), "arrival")
    changes = " with each change" if asked.changes else ""
    return f"How long would the pods of {name} wait{changes}?"


def _state_result(answer: Replay) -> str:
    if not answer.courses:
        return "Unknown: no course is complete."
    course = answer.courses[-1]
    name = "" if len(answer.courses) == 1 else f' with "{course.name}"'
    starved = f", and {count(len(course.starved), 'pod')} starved" if course.starved else ", and none starved"
    return (
        f"{course.placed} of {count(course.pods, 'pod')} got a place{name} after {course.waits.median:g} s in the"
        f" median and at most {course.waits.longest:g} s{starved}."
    )


def _tables(answer: Replay) -> Sequence[Table]:
    head = ("change", "pods", "placed", "mean", "median", "p90", "p95", "p99", "longest")
    rows = [
        (
            course.name,
            course.pods,
            course.placed,
            course.waits.mean,
            course.waits.median,
            course.waits.p90,
            course.waits.p95,
            course.waits.p99,
            course.waits.longest,
            round(course.utilisation, 4),
            len(course.starved),
            course.preempted,
            course.cost,
            course.idle_cost,
        )
        for course in answer.courses
    ]
    starved = [
        (course.name, pod.pod, pod.at, pod.waited, pod.message)
        for course in answer.courses
        for pod in course.starved
    ]
    found = [Table("Waiting times in seconds", (*head, *_FIGURES), rows)]
    found += [
        _tabulate_uses(f"Use by {name}", answer, uses)
        for name, uses in (
            ("model", lambda course: course.models),
            ("device class", lambda course: course.classes),
            ("namespace", lambda course: course.namespaces),
        )
    ]
    if starved:
        found.append(Table("Who starved", ("change", "pod", "at", "waited", "message"), starved))
    return found


def _tabulate_uses(caption: str, answer: Replay, uses: Callable[[Course], Sequence[Use]]) -> Table:
    rows = [
        (course.name, use.name, use.device_hours, round(use.utilisation, 4), use.cost)
        for course in answer.courses
        for use in uses(course)
    ]
    return Table(
        caption, ("change", caption.removeprefix("Use by "), "device hours", "utilisation", "cost"), rows
    )


def _plot(answer: Replay) -> Iterator[tuple[str, str]]:
    for course in answer.courses:
        lines = [
            Line(
                use.name,
                [(moment.at / 3600, 100 * moment.used.get(use.name, 0.0)) for moment in course.moments],
            )
            for use in course.models[:_MOST_USES]
        ]
        if course.moments:
            title = f"Utilisation over time: {course.name}"
            yield title, draw_steps(title, lines, ("hours", "% of the devices in use"))


QUESTION = Question(
    "replay",
    "how a recorded timeline of pods would go",
    ReplayRequest,
    _ask,
    _text,
    _add_words,
    _read_words,
    counted="arrived",
    phrase=_phrase,
    headline=_state_result,
    tables=_tables,
    sections=_plot,
    timeless=False,
)

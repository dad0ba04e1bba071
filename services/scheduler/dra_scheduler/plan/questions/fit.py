"""``plan fit``: whether pods fit, how many, where, and what would have to change."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from dra_shared.api.meta import Struct
from dra_shared.jsontypes import JsonObject
from dra_shared.optiontypes import number
from dra_shared.plurals import count

from dra_scheduler.explain.text import render
from dra_scheduler.plan.questions.question import Door, Holders, Question
from dra_scheduler.plan.questions.texts import (
    INTERRUPTED,
    add_namespace,
    name_objects,
    place_lines,
    tabulate_places,
    uncertainty_lines,
)
from dra_scheduler.plan.tables import Table

if TYPE_CHECKING:
    from dra_scheduler.plan.fit import Fit
    from dra_scheduler.plan.objects import Objects


class FitRequest(Struct):
    """Pods, with the claims, templates and groups that they refer to.

    ``count`` copies of the pods are tried, or with ``max`` as many as fit. With ``more``, further copies
    that would fit are counted. ``without`` names nodes to leave out.
    """

    objects: tuple[JsonObject, ...]
    count: int | None = None
    max: bool = False
    more: bool = False
    without: tuple[str, ...] = ()


def _ask(door: Door, asked: FitRequest) -> Fit:
    pods = door.pods(asked.objects, asked.count)
    return door.planner.fit(pods, asked.count, most=asked.max, more=asked.more, without=asked.without)


def _add_words(words: argparse.ArgumentParser) -> None:
    words.add_argument("file", help="manifests: a file, a folder, or - for standard input")
    many = words.add_mutually_exclusive_group()
    many.add_argument("--count", type=number(1), help="the number of copies of the pods in FILE")
    many.add_argument("--max", action="store_true", dest="most", help="find the number of copies that fit")
    add_namespace(words)


def _read_words(chosen: argparse.Namespace, objects: Objects) -> FitRequest:
    return FitRequest(objects=chosen.file, count=chosen.count, max=chosen.most, more=True)


def _text(fit: Fit) -> str:
    lines = [_headline(fit)]
    if not fit.complete:
        lines.append(INTERRUPTED)
    if fit.more:
        lines.append(f"{'at least ' if fit.more_at_least else ''}{fit.more} more like it would fit")
    lines += [f"  {place}" for place in place_lines(fit.pods)]
    for pod, text in fit.preempted.items():
        lines.append(f"preempted: {pod}: {text}")
    if fit.waiting:
        lines.append(f"tried first: {count(fit.waiting, 'pod')} of the cluster, waiting for a node")
    if fit.unplaced is not None:
        lines += ["", "the first that does not fit:", render(fit.unplaced).rstrip()]
    return "\n".join([*lines, *uncertainty_lines(fit.uncertain)])


def _headline(fit: Fit) -> str:
    if not fit.wanted:
        return f"{fit.copies} fit, {count(fit.fits, 'pod')}"
    if fit.fits == fit.wanted:
        known = ", as far as kinds are known" if fit.left_out else ""
        return f"fits{known}: {count(fit.fits, 'pod')}"
    return f"does not fit: {fit.fits} of {count(fit.wanted, 'pod')} fit"


def _phrase(asked: FitRequest) -> str:
    name = name_objects(asked.objects)
    without = f" without {', '.join(asked.without)}" if asked.without else ""
    if asked.max:
        return f"How many copies of the pods of {name} fit{without}?"
    if asked.count is not None:
        copies = "1 copy" if asked.count == 1 else f"{asked.count} copies"
        return f"{'Does' if asked.count == 1 else 'Do'} {copies} of the pods of {name} fit{without}?"
    return f"Do the pods of {name} fit{without}?"


def _state_result(fit: Fit) -> str:
    if not fit.wanted:
        return f"{fit.copies} {'copy fits' if fit.copies == 1 else 'copies fit'}: {count(fit.fits, 'pod')}."
    if fit.fits < fit.wanted:
        return f"No: {fit.fits} of {count(fit.wanted, 'pod')} fit."
    known = ", as far as kinds are known" if fit.left_out else ""
    fits = "it fits" if fit.wanted == 1 else f"all {fit.wanted} pods fit"
    more = f" {'At least ' if fit.more_at_least else ''}{fit.more} more like it would." if fit.more else ""
    return f"Yes{known}: {fits}.{more}"


def _tables(fit: Fit) -> Iterator[Table]:
    yield tabulate_places("Where the pods go", fit.pods)
    if fit.preempted:
        yield Table("Preempted pods", ("pod", "by"), list(fit.preempted.items()))


def _list_tables(fit: Fit) -> Sequence[Table]:
    return list(_tables(fit))


def _explain(fit: Fit) -> Iterator[tuple[str, str]]:
    if fit.unplaced is not None:
        yield f"Why {fit.unplaced.pod} does not fit", f"<pre>{escape(render(fit.unplaced).rstrip())}</pre>"


def _draw(fit: Fit, holders: Holders) -> None:
    holders.place(fit.pods)


QUESTION = Question(
    "fit",
    "whether pods fit, how many, where, and what would have to change",
    FitRequest,
    _ask,
    _text,
    _add_words,
    _read_words,
    _draw,
    counted="placed",
    phrase=_phrase,
    headline=_state_result,
    tables=_list_tables,
    sections=_explain,
)

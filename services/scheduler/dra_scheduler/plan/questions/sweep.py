"""``plan sweep``: many variants with the same arrivals, and which of them are worth their cost."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from dra_shared.api.meta import Struct
from dra_shared.jsontypes import JsonObject
from dra_shared.optiontypes import number
from dra_shared.plurals import count

from dra_scheduler.plan.charts import Point, draw_scatter
from dra_scheduler.plan.questions.change import ChangeRequest
from dra_scheduler.plan.questions.question import Door, Question
from dra_scheduler.plan.questions.replay import ArrivalRequest
from dra_scheduler.plan.questions.texts import INTERRUPTED, MOST_PODS, name_objects, uncertainty_lines
from dra_scheduler.plan.tables import Table

if TYPE_CHECKING:
    from dra_scheduler.plan.objects import Objects
    from dra_scheduler.plan.sweeping.answer import Estimate, Sweep, VariantResult


_ALPHABET = 26


class SweepRequest(Struct):
    """Variants, each of which is a named change of the world, and timelines, one for each seed.

    ``objects`` are what the pods of the timelines refer to.
    """

    variants: tuple[ChangeRequest, ...]
    draws: tuple[tuple[ArrivalRequest, ...], ...] = ()
    objects: tuple[JsonObject, ...] = ()
    starved_after: float = 600.0


@dataclass(frozen=True)
class SweepFile:
    """A sweep's file, which describes the variants, and options for running it.

    ``workers`` processes of this machine (0: one for each core) run the trials, or the cluster of ``engine``.
    ``resume`` is a file in which outcomes are saved, so that an interrupted sweep can be continued.
    """

    path: Path
    workers: int = 0
    engine: str = ""
    resume: Path | None = None


def _ask(door: Door, asked: SweepRequest) -> Sweep:
    from dra_scheduler.plan.sweeping.summary import summarize

    trials = door.trials(asked)
    answer = summarize(trials.outcomes, trials.total)
    uncertain = tuple(dict.fromkeys((*answer.uncertain, *trials.problems)))
    return msgspec.structs.replace(answer, uncertain=uncertain, left_out=tuple(trials.left_out))


def _add_words(words: argparse.ArgumentParser) -> None:
    words.add_argument("file", help="the sweep: pools, what varies, arrivals, and seeds; see docs/plan.md")
    words.add_argument(
        "--workers", type=number(1), default=0, help="processes of this machine (default: one for each core)"
    )
    words.add_argument(
        "--engine", default="", metavar="dask://HOST:PORT", help="run on this Dask cluster instead"
    )
    words.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep outcomes in FILE, and skip trials that it has"
    )
    words.add_argument(
        "--starved-after",
        type=number(0.0, None, float),
        default=600.0,
        metavar="SECONDS",
        help="seconds after which a waiting pod is listed as starved (600)",
    )
    # A sweep's file may describe all nodes.
    words.set_defaults(brings_nodes=True)


def _read_words(chosen: argparse.Namespace, objects: Objects) -> SweepRequest:
    file: Any = SweepFile(Path(chosen.file), chosen.workers, chosen.engine, chosen.resume)
    return SweepRequest(variants=file, starved_after=chosen.starved_after)


def _text(answer: Sweep) -> str:
    lines = [f"{answer.done} of {count(answer.trials, 'trial')} of {count(len(answer.variants), 'variant')}"]
    if not answer.complete:
        lines.append(INTERRUPTED)
    lines.append("on the Pareto front of cost against waiting time, the cheapest first:")
    lines += [f"  {_line(each)}" for each in _front(answer)]
    others = [each for each in answer.variants if not each.best]
    if others:
        lines.append("others:")
        lines += [f"  {_line(each)}" for each in others[:MOST_PODS]]
    if len(others) > MOST_PODS:
        lines.append(f"  and {len(others) - MOST_PODS} more; -o csv and -o json have all")
    lines += [
        f"failed: {each.variant}, seed {each.seed}: {each.message}" for each in answer.failures[:MOST_PODS]
    ]
    if len(answer.failures) > MOST_PODS:
        lines.append(f"  and {len(answer.failures) - MOST_PODS} more; -o json has all")
    return "\n".join([*lines, *uncertainty_lines(answer.uncertain)])


def _line(variant: VariantResult) -> str:
    unplaced = f", {variant.unplaced.mean:g} unplaced" if variant.unplaced.mean else ""
    return (
        f"{variant.name}: cost {variant.cost:g}, mean wait {_interval(variant.wait)} s, "
        f"utilisation {variant.utilisation.mean:.1%}{unplaced}"
    )


def _interval(value: Estimate) -> str:
    if value.low == value.high:
        return f"{value.mean:.4g}"
    return f"{value.mean:.4g} ({value.low:.4g} to {value.high:.4g})"


def _front(answer: Sweep) -> list[VariantResult]:
    by_name = {each.name: each for each in answer.variants}
    return [by_name[name] for name in answer.front]


def _phrase(asked: SweepRequest) -> str:
    given: Any = asked.variants
    name = name_objects(given.path) if isinstance(given, SweepFile) else count(len(given), "variant")
    return f"Which variants of {name} are worth their cost?"


def _state_result(answer: Sweep) -> str:
    front = _front(answer)
    if not front:
        return f"Unknown: {answer.done} of {count(answer.trials, 'trial')} have a result."
    cheapest, quickest = front[0], front[-1]
    variants = count(len(answer.variants), "variant")
    if len(front) == 1:
        return f"Of {variants}, one is best: {cheapest.name}, for {cheapest.cost:g} {_state_wait(cheapest)}."
    return (
        f"{len(front)} of {variants} are worth their cost: from {cheapest.cost:g} {_state_wait(cheapest)} "
        f"to {quickest.cost:g} {_state_wait(quickest)}."
    )


def _state_wait(variant: VariantResult) -> str:
    wait = variant.wait.mean
    if not wait:
        return "without any wait"
    return f"with a mean wait of {f'{wait / 60:.0f} min' if wait >= 600 else f'{wait:.2g} s'}"


def _tables(answer: Sweep) -> Sequence[Table]:
    names = list(dict.fromkeys(name for each in answer.variants for name in each.settings))
    shown = [name.removeprefix("pools.") for name in names]
    letters = _letters(answer)
    head = ("best", *(shown or ("variant",)), "cost", "mean wait", "low", "high", "p95 wait", "longest wait")
    rows = [
        (
            letters.get(each.name, ""),
            *([each.settings.get(name, "") for name in names] or [each.name]),
            each.cost,
            *map(_round, (each.wait.mean, each.wait.low, each.wait.high, each.p95.mean, each.longest.mean)),
            round(each.utilisation.mean, 4),
            each.unplaced.mean,
            each.starved.mean,
            each.seeds,
        )
        for each in sorted(answer.variants, key=lambda each: (not each.best, each.cost))
    ]
    found = [Table("Variants", (*head, "utilisation", "unplaced", "starved", "seeds"), rows)]
    if answer.failures:
        failed = [(each.variant, each.seed, each.message) for each in answer.failures]
        found.append(Table("Failed trials", ("variant", "seed", "message"), failed))
    return found


def _letters(answer: Sweep) -> dict[str, str]:
    """Return a letter for each variant on the front, the cheapest first."""
    return {
        name: chr(ord("A") + number) if number < _ALPHABET else str(number + 1)
        for number, name in enumerate(answer.front)
    }


def _round(value: float) -> float:
    return round(value, 1)


def _plot(answer: Sweep) -> Iterator[tuple[str, str]]:
    letters = _letters(answer)
    points = {
        each.name: Point(
            each.cost,
            each.wait.mean,
            f"{each.name}: {each.cost:g}, {_interval(each.wait)} s",
            letters.get(each.name, ""),
            (each.wait.low, each.wait.high),
        )
        for each in answer.variants
    }
    if points:
        axes = ("cost of the nodes", "mean wait in seconds")
        front = [points[name] for name in answer.front]
        plot = draw_scatter("Cost against waiting time", list(points.values()), axes, front)
        seeds = max(each.seeds for each in answer.variants)
        note = (
            f"{answer.done} of {count(answer.trials, 'trial')} of {count(len(points), 'variant')}. A bar is the 95% "
            f"confidence interval over {count(seeds, 'seed')}. The line is the Pareto front: no other variant costs "
            "less without a longer wait. A pod without a place waits until the end."
        )
        yield "Cost against waiting time", f'{plot}<p class="dim">{note}</p>'


QUESTION = Question(
    "sweep",
    "many variants with the same arrivals, and which are worth their cost",
    SweepRequest,
    _ask,
    _text,
    _add_words,
    _read_words,
    counted="trials have ended",
    phrase=_phrase,
    headline=_state_result,
    tables=_tables,
    sections=_plot,
    timeless=False,
)

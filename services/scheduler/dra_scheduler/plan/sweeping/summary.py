"""Summary of trials: estimates over seeds, and the Pareto front of cost against waiting time."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

import msgspec

from dra_scheduler.plan.replaying.answer import Course
from dra_scheduler.plan.sweeping.answer import Estimate, Failure, Sweep, VariantResult
from dra_scheduler.plan.sweeping.trials import INTERRUPTED, Outcome

# The 97.5% quantiles of Student's t for 1, 2, … degrees of freedom. Beyond, the normal distribution is close.
_QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL = 1.960


def summarize(outcomes: Iterable[Outcome], total: int) -> Sweep:
    """Return the answer for the outcomes of a sweep of so many trials."""
    found = sorted(outcomes, key=lambda outcome: outcome.seed)
    done: dict[str, list[Outcome]] = {}
    for outcome in found:
        if outcome.course is not None:
            done.setdefault(outcome.variant, []).append(outcome)
    variants = mark_best([_summarize_variant(name, each) for name, each in done.items()])
    failures = [
        Failure(variant=each.variant, seed=each.seed, message=each.message)
        for each in found
        if each.course is None and each.message != INTERRUPTED
    ]
    ended = sum(map(len, done.values()))
    return Sweep(
        variants=tuple(variants),
        front=tuple(each.name for each in sorted(variants, key=lambda each: each.cost) if each.best),
        trials=total,
        done=ended,
        failures=tuple(failures),
        complete=ended + len(failures) >= total,
        uncertain=tuple(dict.fromkeys(line for each in found for line in each.uncertain)),
    )


def _summarize_variant(name: str, outcomes: Sequence[Outcome]) -> VariantResult:
    courses = [outcome.course for outcome in outcomes if outcome.course is not None]
    return VariantResult(
        name=name,
        settings=outcomes[0].settings,
        seeds=len(courses),
        cost=outcomes[0].cost,
        wait=estimate([course.all_waits.mean for course in courses]),
        p95=estimate([course.all_waits.p95 for course in courses]),
        longest=estimate([course.all_waits.longest for course in courses]),
        utilisation=estimate([course.utilisation for course in courses]),
        unplaced=estimate([_count_unplaced(course) for course in courses]),
        starved=estimate([len(course.starved) for course in courses]),
    )


def _count_unplaced(course: Course) -> int:
    return course.pods - course.placed


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of non-negative values, and its confidence interval by Student's t."""
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean=round(mean, 6), low=round(mean, 6), high=round(mean, 6))
    quantile = _QUANTILES[len(values) - 2] if len(values) - 2 < len(_QUANTILES) else _NORMAL
    half = quantile * stdev(values) / math.sqrt(len(values))
    return Estimate(mean=round(mean, 6), low=round(max(0.0, mean - half), 6), high=round(mean + half, 6))


def mark_best(variants: Sequence[VariantResult]) -> list[VariantResult]:
    """Return the variants, with those marked that no other beats in cost and mean wait."""
    best: set[str] = set()
    shortest = math.inf
    for each in sorted(variants, key=lambda each: (each.cost, each.wait.mean)):
        if each.wait.mean < shortest:
            shortest = each.wait.mean
            best.add(each.name)
    return [msgspec.structs.replace(each, best=each.name in best) for each in variants]

"""Trials: the replay of one timeline in one variant of a world."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dra_shared.api.meta import Struct
from dra_shared.api.resources import NODES
from msgspec import field
from msgspec.structs import replace

from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.prices import price_of
from dra_scheduler.plan.replaying.answer import Course
from dra_scheduler.plan.replaying.replayer import Timeline


class Outcome(Struct):
    """The result of a trial: the ``course``, or in ``message`` the reason why there is none.

    ``cost`` is the sum of the prices of the variant's nodes. ``settings`` are the options that make the variant.
    """

    variant: str = ""
    seed: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    cost: float = 0.0
    course: Course | None = None
    message: str = ""
    uncertain: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trials:
    """The outcomes of ``total`` trials, each available when its trial ends. An interruption leaves some out."""

    total: int
    outcomes: Iterable[Outcome]
    left_out: Sequence[str] = ()
    problems: Sequence[str] = ()


def try_variant(planner: Planner, timeline: Timeline, starved_after: float) -> Outcome:
    """Replay the timeline in the planner's world. The outcome has no course if it was interrupted."""
    answer = planner.replay(timeline, starved_after=starved_after)
    # Drop the use over time: it is not needed for each of hundreds of trials, and would make the file large.
    course = replace(answer.courses[0], moments=()) if answer.courses else None
    return Outcome(
        cost=cost_of(planner),
        course=course,
        message="" if answer.courses else INTERRUPTED,
        uncertain=answer.uncertain,
    )


def cost_of(planner: Planner) -> float:
    """Return the sum of the prices of the world's nodes."""
    prices = (price_of(node) for node in planner.objects.of(NODES).values())
    return round(sum(price for price in prices if price is not None), 6)


INTERRUPTED = "interrupted"
"""The message of a trial that an interruption ended."""

"""Observe a cluster during a fault, and judge afterwards whether the guarantees of Kubernetes held."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from dra_shared.clock import Clock, wait_for
from dra_shared.faults.invariants import find_breaches
from dra_shared.faults.promises import Verdict, find_healing, judge
from dra_shared.faults.story import Sample, Story

#: Returns the current state of the cluster. Raises if it cannot be read now.
Look = Callable[[], Awaitable[Sample]]
#: Returns the number of requests, watches, calls or writes that a fault has affected, or None if they are not
#: counted.
Met = Callable[[], Awaitable[int | None]]

_EVERY = 0.25
# Pause longer between samples of a large cluster, so that reading it is not most of its load.
_SHARE = 20
#: The seconds for nodes, drivers and pods to recover after a fault.
_RECOVERY = 60.0
_SETTLING = 0.5
# A single calm sample may be a coincidence between two steps of ongoing work.
_CALM = 3


#: Returns the names of nodes, drivers and pods that have not recovered yet from ended faults.
Away = Callable[[], Awaitable[list[str]]]


async def none_away() -> list[str]:
    """Return an empty list, for faults that end no process."""
    return []


async def no_count() -> None:
    """Return None, for faults whose affected requests or calls are not counted."""


class Judge:
    """Observer of one fault.

    Args:
        errors: the exceptions that ``look`` may raise while the fault is active.
        away: returns the names of nodes, drivers and pods that have not recovered yet. The cluster counts as at
            rest only when there are none.
    """

    def __init__(
        self,
        story: Story,
        look: Look,
        clock: Clock,
        errors: tuple[type[Exception], ...] = (),
        away: Away = none_away,
    ) -> None:
        self._story = story
        self._look = look
        self._clock = clock
        self._errors = errors
        self._away = away

    async def before(self) -> None:
        """Read the cluster before the fault begins."""
        self._story.before = await self._look()

    async def verdict(self, over: asyncio.Event, met: Met = no_count) -> Verdict:
        """Observe the fault until ``over`` is set or its time has passed, then wait for the cluster to be at
        rest, and judge.
        """
        story, began = self._story, self._clock.monotonic()
        while not over.is_set() and (left := began + story.seconds - self._clock.monotonic()) > 0:
            looked = self._clock.monotonic()
            if (seen := await self._sample(looked - began)) is not None:
                story.during.append(seen)
            pause = max(_EVERY, _SHARE * (self._clock.monotonic() - looked))
            await wait_for(over.wait(), min(pause, left), self._clock)
        story.seconds = min(story.seconds, self._clock.monotonic() - began)
        story.met = await met()
        return await self._judge_at_rest(began)

    async def _judge_at_rest(self, began: float) -> Verdict:
        story, known = self._story, set(_breaches_at_rest(self._story.before))
        end, calm = self._clock.monotonic() + _RECOVERY, 0
        while True:
            seen = await self._sample(self._clock.monotonic() - began)
            verdict, restless = Verdict(broken=["the cluster cannot be read"]), True
            if seen is not None:
                story.after = seen
                others = [line for line in _breaches_at_rest(seen) if line not in known]
                verdict, restless = judge(story), bool(find_healing(story) or others)
                away = [f"{name} is not back" for name in await self._away()]
                restless = restless or bool(away)
                verdict.broken.extend(others + away)
            calm = 0 if restless else calm + 1
            if calm == _CALM or self._clock.monotonic() > end:
                return verdict
            await self._clock.sleep(_SETTLING)

    async def _sample(self, at: float) -> Sample | None:
        try:
            return replace(await self._look(), at=at)
        except self._errors:
            return None


def _breaches_at_rest(sample: Sample) -> list[str]:
    """Return one line for each violation of an invariant that holds in every cluster at rest."""
    return find_breaches(sample.pods.values(), sample.claims.values())

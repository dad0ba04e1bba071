"""Watches a cluster through a fault, and says afterwards what was kept of its promise."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from dra_shared.clock import Clock, wait_for
from dra_shared.faults.invariants import broken
from dra_shared.faults.promises import Verdict, healing, judge
from dra_shared.faults.story import Sample, Story

#: Gives the cluster as it is; raises where it cannot be read now.
Look = Callable[[], Awaitable[Sample]]
#: How many requests, watches, calls or writes a fault met so far; None where that is not counted.
Met = Callable[[], Awaitable[int | None]]

_EVERY = 0.25
# Looking at a large cluster must not become its work.
_SHARE = 20
#: Seconds that nodes, drivers and pods have to come back once a fault is over.
_RECOVERY = 60.0
_SETTLING = 0.5
# Once could be by chance, between two steps of what still goes on.
_CALM = 3


#: What is still to come back of what faults ended, by name.
Away = Callable[[], Awaitable[list[str]]]


async def none_away() -> list[str]:
    """What is away where faults end nothing."""
    return []


async def uncounted() -> None:
    """What a fault met that is not of requests or calls."""


class Judge:
    """One fault's observer.

    Args:
        errors: what ``look`` may raise while the fault is at work.
        away: the cluster is not at rest until all of it is back.
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
        """See the cluster before the fault begins."""
        self._story.before = await self._look()

    async def verdict(self, over: asyncio.Event, met: Met = uncounted) -> Verdict:
        """See it while the fault is at work, until ``over`` is set or its time has passed, and until it is at rest."""
        story, began = self._story, self._clock.monotonic()
        while not over.is_set() and (left := began + story.seconds - self._clock.monotonic()) > 0:
            looked = self._clock.monotonic()
            if (seen := await self._sample(looked - began)) is not None:
                story.during.append(seen)
            pause = max(_EVERY, _SHARE * (self._clock.monotonic() - looked))
            await wait_for(over.wait(), min(pause, left), self._clock)
        story.seconds = min(story.seconds, self._clock.monotonic() - began)
        story.met = await met()
        return await self._settled(began)

    async def _settled(self, began: float) -> Verdict:
        story, known = self._story, set(_resting(self._story.before))
        end, calm = self._clock.monotonic() + _RECOVERY, 0
        while True:
            seen = await self._sample(self._clock.monotonic() - began)
            verdict, restless = Verdict(broken=["the cluster cannot be read"]), True
            if seen is not None:
                story.after = seen
                others = [line for line in _resting(seen) if line not in known]
                verdict, restless = judge(story), bool(healing(story) or others)
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


def _resting(sample: Sample) -> list[str]:
    """What is broken of what holds in every cluster at rest."""
    return broken(sample.pods.values(), sample.claims.values())

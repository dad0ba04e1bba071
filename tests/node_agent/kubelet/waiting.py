"""Waiting for what another process, thread or socket does."""

import asyncio
from collections.abc import Callable

from dra_shared.clock import FakeClock


async def until(
    condition: Callable[[], object], seconds: float = 60.0, clock: FakeClock | None = None
) -> None:
    """Return as soon as ``condition`` holds; fails after ``seconds``.

    Time passes on ``clock`` meanwhile, for what retries after real I/O: when it begins to wait is not known.
    """
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
            if clock is not None:
                await clock.advance(1)

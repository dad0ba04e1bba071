"""Measure work in calls and memory, because times differ between machines."""

import gc
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import NamedTuple

_RUNS = 4
_GROWTH = 1.03
# The hash seed changes the order of sets, and with it what is compared and how dictionaries grow.
_NOISE = {"calls": 0, "builtins": 0, "kibibytes": 1}

Step = Callable[[int], Awaitable[object]]
"""A piece of work, for a number that no other run has."""


class Cost(NamedTuple):
    """The work of one step."""

    calls: int
    """Calls of functions of the project."""
    builtins: int
    """Calls of functions in C by functions of the project."""
    kibibytes: float
    """The most memory that the step held at one time."""


async def measure(step: Step, still: Step | None = None) -> Cost:
    """Return the smallest cost of several runs, because the first ones fill caches.

    ``still`` is a step of the same transport without the work. The memory that it holds is subtracted, such as the
    buffer that receives.
    """
    counted = [await _count(step, number) for number in range(_RUNS)]
    peak = min([await _peak(step, _RUNS + number) for number in range(_RUNS)])
    if still is not None:
        peak -= min([await _peak(still, number) for number in range(_RUNS)])
    return Cost(min(calls for calls, _ in counted), min(builtins for _, builtins in counted), peak / 1024)


def check(cost: Cost, recorded: Cost) -> None:
    """Fail if a step costs 3 % more than recorded.

    A commit that makes it dearer records the new cost and says why.
    """
    for name, now, before in zip(Cost._fields, cost, recorded, strict=True):
        assert now <= before * _GROWTH + _NOISE[name], f"{name} grew from {before} to {now:.1f}: {cost}"


async def _count(step: Step, number: int) -> tuple[int, int]:
    calls = builtins = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls, builtins
        if "/dra_" in frame.f_code.co_filename:
            calls += event == "call"
            builtins += event == "c_call"

    sys.setprofile(profile)
    try:
        await step(number)
    finally:
        sys.setprofile(None)
    return calls, builtins


async def _peak(step: Step, number: int) -> int:
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await step(number)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        gc.enable()

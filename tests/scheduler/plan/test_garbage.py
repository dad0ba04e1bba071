"""Garbage is collected rarely during a plan. Afterwards the old thresholds apply again."""

import gc
from contextlib import suppress

from dra_scheduler.plan.garbage import collect_rarely


def test_thresholds_of_the_garbage_collector_are_restored() -> None:
    before, within = gc.get_threshold(), (0, 0, 0)
    with suppress(ValueError), collect_rarely():
        within = gc.get_threshold()
        raise ValueError
    assert within[0] > before[0]
    assert gc.get_threshold() == before

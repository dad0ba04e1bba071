"""Garbage is collected rarely while a plan is made, and as before afterwards."""

import gc
from contextlib import suppress

from dra_scheduler.plan.garbage import collect_rarely


def test_thresholds_are_put_back() -> None:
    before, within = gc.get_threshold(), (0, 0, 0)
    with suppress(ValueError), collect_rarely():
        within = gc.get_threshold()
        raise ValueError
    assert within[0] > before[0]
    assert gc.get_threshold() == before

"""Garbage is collected rarely while a plan is made, and as before afterwards."""

import gc

import pytest
from dra_scheduler.plan.garbage import rarely_collected


def test_thresholds_are_put_back() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="x"), rarely_collected():
        assert gc.get_threshold()[0] > before[0]
        raise ValueError("x")
    assert gc.get_threshold() == before

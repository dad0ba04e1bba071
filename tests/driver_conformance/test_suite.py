"""Whole runs: a program that does not start, and a driver that somebody else starts."""

import sys

import pytest
from dralab.conformance import Options, Outcome, run
from dralab.conformance.catalog import select

pytestmark = pytest.mark.system


async def test_a_driver_that_ends_at_once_is_not_waited_for() -> None:
    """It was started anew for each check, half a minute each."""
    script = "import sys; sys.exit('no licence')"
    checks = select("registration.appears,registration.type,prepare.succeeds,process.alive")
    results = await run(Options([sys.executable, "-S", "-c", script], checks))
    found = {one.check.id: (one.outcome, one.message) for one in results}
    assert found["registration.appears"][0] is Outcome.BROKEN
    assert "the driver ended after" in found["registration.appears"][1]
    assert found["registration.appears"][1].endswith("its last line: no licence")
    assert found["registration.type"] == (Outcome.UNTRIED, "the driver is not registered")
    assert found["prepare.succeeds"][0] is Outcome.UNTRIED
    assert sum(one.seconds for one in results) < 10

"""The suite finds nothing wrong with a driver that keeps every promise."""

import pytest
from dralab.conformance import CHECKS, Outcome

from tests.driver_conformance.reference import Reference
from tests.driver_conformance.trial import bad, tried

pytestmark = pytest.mark.system

# What the reference driver does not have; everything else is tried.
_NOT_OFFERED = {
    "binding.failure-conditions",
    "binding.set",
    "metrics.bounded",
    "metrics.format",
    "status.accepted",
    "status.own-devices",
}


async def test_a_good_driver_keeps_every_promise() -> None:
    results = await tried(Reference)
    assert not bad(results)
    assert {one.check.id for one in results if one.outcome is Outcome.SKIPPED} == _NOT_OFFERED
    assert sorted(one.check.id for one in results) == sorted(check.id for check in CHECKS)

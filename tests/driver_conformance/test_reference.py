"""A correct driver passes every check of the suite."""

import pytest
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version
from dralab.conformance import CHECKS, Outcome

from tests.driver_conformance.reference import Reference
from tests.driver_conformance.trial import LONG, bad, run_suite
from tests.support.sampling import sample

pytestmark = pytest.mark.system

# Checks of features that the reference driver lacks. All other checks must run.
_NOT_OFFERED = {
    "binding.failure-conditions",
    "binding.set",
    "metrics.bounded",
    "metrics.format",
    "status.accepted",
    "status.others-kept",
    "status.own-devices",
}


@pytest.mark.parametrize(
    "version",
    sample(
        [
            pytest.param(V1_34, marks=pytest.mark.slow),
            pytest.param(V1_35, marks=pytest.mark.slow),
            V1_36,
            V1_37,
        ],
        1,
    ),
    ids=str,
)
async def test_the_reference_driver_passes_every_check(version: Version) -> None:
    results = await run_suite(Reference, version=version, pace=LONG)
    assert not bad(results)
    others = {check.id for check in CHECKS if check.absence(version)}
    assert {one.check.id for one in results if one.outcome is Outcome.SKIPPED} == _NOT_OFFERED | others | (
        {"allocatable.divisible"} if version < V1_36 else set()
    )
    assert sorted(one.check.id for one in results) == sorted(check.id for check in CHECKS)

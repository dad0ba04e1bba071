"""Every recorded case is run, or listed here with the reason why it cannot be."""

import pytest

from tests.conformance.kubelet_dra import test_claiminfo, test_health, test_manager, test_plugins
from tests.conformance.kubelet_dra.tables import CASES
from tests.support.cases import each_case

_LOCKS = "exercises Go's read and write locks; ours is one event loop"
_NOT_OURS = {
    "TestClaimInfoCacheWithLock": _LOCKS,
    "TestClaimInfoCacheWithRLock": _LOCKS,
    "TestWithLock": _LOCKS,
    "TestWithRLock": _LOCKS,
}


@each_case("test", sorted({case["test"] for case in CASES}))
def test_every_recorded_dra_manager_case_is_run_or_listed_with_a_reason(test: str) -> None:
    if test in _NOT_OURS:
        pytest.skip(_NOT_OURS[test])
    modules = (test_claiminfo, test_health, test_manager, test_plugins)
    assert any(test in module.CHECKS for module in modules)

"""Servers on one database, with some of the faults. ``make endure-servers`` tries all, and runs longer."""

import pytest

from tests.endurance import servers
from tests.support.sampling import sample


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_acknowledged_writes_survive_each_fault() -> None:
    faults = sample(servers.FAULTS, 2)
    run = await servers.endure(0, 1, faults=faults)
    assert run.broken == []
    assert set(run.faults) == set(faults)
    assert run.increments

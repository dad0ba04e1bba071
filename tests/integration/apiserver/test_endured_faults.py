"""Servers on one database, with each fault once. ``make endure-servers`` runs longer."""

import pytest

from tests.endurance import servers


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_acknowledged_writes_survive_each_fault() -> None:
    run = await servers.endure(0, 1, faults=servers.FAULTS)
    assert run.broken == []
    assert set(run.faults) == set(servers.FAULTS)
    assert run.increments

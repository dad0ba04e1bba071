"""Servers on one database, each fault once; ``make endure-servers`` has them for longer."""

import pytest

from tests.endurance import servers


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_what_was_answered_survives_each_fault() -> None:
    run = await servers.endure(0, 1, faults=servers.FAULTS)
    assert run.broken == []
    assert set(run.faults) == set(servers.FAULTS)
    assert run.increments

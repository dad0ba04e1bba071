"""Clusters that the tests of a module share."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.lab import Lab, Setup, lab


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Path]:
    setup: Setup = request.param
    # Below /tmp, because a unix socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        setup.start(Path(folder))
        yield Path(folder)
        setup.stop(Path(folder))


@pytest.fixture
async def house(cluster: Path) -> AsyncIterator[Lab]:
    async with lab(cluster) as house:
        yield house
        await house.clear()

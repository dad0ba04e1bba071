"""Fixtures of the controllers' tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controller.cluster import Cluster, api_server


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Run an API server without any controller."""
    async with api_server(tmp_path) as running:
        yield running

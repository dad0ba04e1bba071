"""An API server, and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """What the server is started with; a module that needs something else has a fixture of this name."""
    return Config(port=0, data=tmp_path, relaxed=True)


@pytest.fixture
async def server(config: Config) -> AsyncIterator[ApiServer]:
    async with ApiServer(config) as started:
        yield started


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as made:
        yield made

"""An API server, and a client of it."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer

from tests.support import postgres as servers
from tests.support.postgres import Postgres


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


@pytest.fixture(scope="session")
def running_postgres() -> Iterator[Postgres]:
    with servers.running() as started:
        yield started


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes a new database and gives its URL; the server is started when the first one is wanted."""

    def make() -> str:
        started: Postgres = request.getfixturevalue("running_postgres")
        return started.database()

    return make

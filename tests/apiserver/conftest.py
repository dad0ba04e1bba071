"""Fixtures: an API server, and a client of it."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY, Database, engine

from tests.support import postgres as servers
from tests.support.postgres import Postgres


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Config]:
    """Return the configuration of the test's API server. A test module overrides it with a fixture of the same name."""
    made = Config(port=0, data=tmp_path, database=IN_MEMORY)
    # An in-memory database is deleted with its last engine. Keep one open, because a test may restart the
    # server.
    kept = engine(Database(IN_MEMORY, made.directory))
    yield made
    kept.close()


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
    with servers.run_postgres() as started:
        yield started


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Return a function that creates a database and returns its URL. The first call starts the server."""

    def make() -> str:
        started: Postgres = request.getfixturevalue("running_postgres")
        return started.database()

    return make

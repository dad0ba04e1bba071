"""Two API server processes on one PostgreSQL: after one is killed, no acknowledged write is lost."""

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.storage.postgresql import PostgresqlEngine

from tests.support import postgres
from tests.support.postgres import Postgres
from tests.support.waiting import until

_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def database() -> Iterator[Postgres]:
    with postgres.run_postgres() as started:
        yield started


@contextlib.contextmanager
def _server(folder: Path, url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "dra_apiserver.main", "--port", "0", "--data", str(folder)]
    log = folder / "log"
    folder.mkdir()
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--database", url], stdout=output, stderr=subprocess.STDOUT, text=True
        )
    try:
        yield process, str(log)
    finally:
        process.kill()
        process.wait()


async def _address(log: str) -> str:
    def find() -> str | None:
        listening = [line for line in Path(log).read_text().splitlines() if "API server listens" in line]
        match = re.search(r"http://127\.0\.0\.1:\d+", listening[0]) if listening else None
        return match[0] if match else None

    found: str = await until(find)
    return found


@pytest.mark.slow
async def test_kill_9_of_one_server_loses_no_acknowledged_write(database: Postgres, tmp_path: Path) -> None:
    url = database.database()
    answered: dict[str, str] = {}

    async def writer(client: httpx.AsyncClient, name: str) -> None:
        for number in range(100_000):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-{number}"}}
            try:
                created = await client.post(_MAPS, json=body)
            except httpx.HTTPError:
                return
            if created.status_code != 201:
                return
            answered[f"{name}-{number}"] = created.json()["metadata"]["resourceVersion"]

    with _server(tmp_path / "a", url) as (killed, one), _server(tmp_path / "b", url) as (_, other):
        addresses = await _address(one), await _address(other)
        async with (
            httpx.AsyncClient(base_url=addresses[0], timeout=60) as doomed,
            httpx.AsyncClient(base_url=addresses[1], timeout=60) as left,
        ):
            writers = [
                asyncio.create_task(writer(client, f"{name}{number}"))
                for name, client in (("a", doomed), ("b", left))
                for number in range(8)
            ]
            await until(lambda: len(answered) > 40)
            killed.kill()
            before = len(answered)
            # The remaining server continues, even if the other one held the log's lock.
            await until(lambda: len(answered) > before + 20)
            for task in writers:
                task.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
            listed = (await left.get(_MAPS)).json()["items"]
            found = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed}
            assert answered.items() <= found.items()
            assert len(set(found.values())) == len(found)
    log = PostgresqlEngine(url)
    assert await asyncio.to_thread(log.check) == []
    log.close()

"""Acknowledged writes survive kill -9, revisions never decrease, and the database stays consistent."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from dra_apiserver.storage.sqlite import SqliteEngine
from dra_lab.ports import Port
from dra_shared.listening import ADDRESS_IN_USE

from tests.support.sampling import either, sample
from tests.support.waiting import until

BASE = "/api/v1/namespaces/default/configmaps"
ROUNDS = either(4, few=2)


@pytest.fixture
def port() -> Iterator[int]:
    with Port() as held:
        yield held.number


async def start(data: Path, port: int) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dra_apiserver.main",
        "--port",
        str(port),
        "--data",
        str(data),
        "--log-level",
        "error",
    )
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

        async def is_ready() -> bool:
            try:
                return (await client.get("/readyz")).status_code == 200
            except httpx.TransportError:
                assert process.returncode is None
                return False

        await until(is_ready, every=0.02)
    return process


class Writer:
    """Creates, updates and deletes its own objects, and remembers the responses."""

    def __init__(self, number: int) -> None:
        self._rng = random.Random(number)
        self._prefix = f"writer-{number}"
        self._count = 0
        self.known: dict[str, dict[str, Any] | None] = {}
        self.unsure: set[str] = set()
        self.newest = 0

    async def run(self, client: httpx.AsyncClient, answered: asyncio.Semaphore) -> None:
        while True:
            self._count += 1
            name = f"{self._prefix}-{self._rng.randrange(6)}"
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name},
                "data": {"count": str(self._count)},
            }
            self.unsure.add(name)
            try:
                if self.known.get(name) is None:
                    answer = await client.post(BASE, json=body)
                elif self._rng.random() < 0.3:
                    answer = await client.delete(f"{BASE}/{name}")
                else:
                    answer = await client.put(f"{BASE}/{name}", json=body)
            except httpx.TransportError:
                return
            assert answer.status_code < 300, answer.text
            answered.release()
            self.unsure.discard(name)
            document = answer.json()
            if document["kind"] == "Status":
                self.known[name] = None
            else:
                self.known[name] = document
                revision = int(document["metadata"]["resourceVersion"])
                assert revision > self.newest
                self.newest = revision

    def check(self, found: dict[str, dict[str, Any]]) -> None:
        """Compare the stored objects with the responses. A write without a response may or may not have happened."""
        for name, known in self.known.items():
            if name not in self.unsure:
                assert found.get(name) == known
        for name in self.unsure | self.known.keys():
            self.known[name] = found.get(name)
        self.unsure.clear()


async def test_kill_9_loses_no_acknowledged_write(tmp_path: Path, port: int) -> None:
    rng = random.Random(5)
    writers = [Writer(number) for number in range(6)]
    newest = 0
    for _ in range(ROUNDS):
        process = await start(tmp_path, port)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            listed = (await client.get(BASE)).json()
            assert int(listed["metadata"]["resourceVersion"]) >= newest
            items = {item["metadata"]["name"]: item for item in listed["items"]}
            for item in items.values():
                item.update(kind="ConfigMap", apiVersion="v1")
            for writer in writers:
                writer.check(items)
            answered = asyncio.Semaphore(0)
            tasks = [asyncio.create_task(writer.run(client, answered)) for writer in writers]
            for _ in range(rng.randint(3, 30)):
                await answered.acquire()
            process.send_signal(signal.SIGKILL)
            await process.wait()
            await asyncio.gather(*tasks)
            newest = max(newest, *(writer.newest for writer in writers))
        engine = SqliteEngine(tmp_path / "apiserver" / "dralab.sqlite3")
        revisions = engine.open()
        assert engine.check() == []
        assert revisions.newest >= newest
        engine.close()
    assert newest > 50


async def test_sigterm_ends_watches_and_exits_cleanly(tmp_path: Path, port: int) -> None:
    process = await start(tmp_path, port)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        begun = asyncio.Event()

        async def watch() -> list[bytes]:
            async with client.stream("GET", BASE, params={"watch": "1"}) as answer:
                begun.set()
                return [orjson.loads(line) async for line in answer.aiter_lines()]

        watching = asyncio.create_task(watch())
        await begun.wait()
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 60) == 0
        assert await watching == []


async def test_a_second_server_on_a_port_reports_that_it_is_in_use(tmp_path: Path, port: int) -> None:
    process = await start(tmp_path, port)
    try:
        second = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dra_apiserver.main", "--port", str(port), "--data", str(tmp_path / "other"),
            stderr=asyncio.subprocess.PIPE, env={**os.environ},
        )  # fmt: skip
        _, errors = await second.communicate()
        assert second.returncode == ADDRESS_IN_USE
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use".encode() in errors
        assert b"Traceback" not in errors
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize(
    "flag", sample([["--history", "soon"], ["--feature-gates", "NoSuch"], ["--runtime-config", "x=y=z"]], 1)
)
async def test_an_invalid_option_is_reported_without_a_traceback(flag: list[str], tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dra_apiserver.main", "--port", "0", "--data", str(tmp_path), *flag,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode not in {0, None}
    assert b"Traceback" not in errors

"""API servers on one PostgreSQL, behind a load balancer, with 64 writers: no acknowledged write is lost."""

import argparse
import asyncio
import contextlib
import functools
import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
from dra_apiserver.storage.postgresql import PostgresqlEngine
from dra_lab.ports import Port

from tests.endurance.relay import Gate, Relay, balancer
from tests.support import postgres
from tests.support.postgres import Postgres
from tests.support.waiting import until

WRITERS = 64
_MAPS = "/api/v1/namespaces/default/configmaps"
_COUNTER = f"{_MAPS}/counter"
_ROOT = Path(__file__).parents[2]
#: The longest duration of an interrupted connection, in seconds, and the time after it in which writes must
#: succeed again.
_CUT, _SETTLED = 4.0, 90.0
_ERRORS = (httpx.HTTPError, OSError, orjson.JSONDecodeError)


class Server:
    """One API server, which connects to the database through its own relay."""

    def __init__(self, folder: Path, port: int, source: Path | None) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.gate = Gate()
        self._folder = folder
        self._source = source
        self._process: subprocess.Popen[bytes] | None = None
        self._relay: Relay | None = None
        self._database = ""

    async def connect(self, database: Postgres, url: str) -> None:
        """Return the relay between the server and the database."""
        self._folder.mkdir()
        socket = ".s.PGSQL.5432"

        async def behind() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_unix_connection(database.folder / socket)

        self._relay = Relay(behind, self.gate)
        await self._relay.listen_at(self._folder / socket)
        self._database = url.replace(str(database.folder), str(self._folder))

    def start(self) -> None:
        """Start the server unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        environment = dict(os.environ)
        if self._source is not None:
            parts = (self._source / "shared", self._source / "services/apiserver")
            environment["PYTHONPATH"] = os.pathsep.join(map(str, parts))
        words = ("-m", "dra_apiserver.main", "--port", str(self.port), "--database", self._database)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *words, "--data", str(self._folder / "data")],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,
            )

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self.kill()
        if self._relay is not None:
            self._relay.close()

    async def ready(self) -> bool:
        try:
            async with httpx.AsyncClient(base_url=self.url, timeout=10) as client:
                return (await client.get("/readyz")).status_code == 200
        except _ERRORS:
            return False

    def log(self) -> str:
        """Return the end of the log."""
        return (self._folder / "log").read_text()[-2000:]


@dataclass
class Endurance:
    """One run. ``broken`` lists violations, and is empty at the end of a good run."""

    database: Postgres
    servers: Sequence[Server]
    rng: random.Random
    broken: list[str] = field(default_factory=list)
    answered: dict[str, int] = field(default_factory=dict)
    increments: int = 0
    unknown: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    seen: dict[str, dict[str, int]] = field(default_factory=dict)
    writing: bool = True

    async def run(self, seconds: float, faults: Sequence[str] = ()) -> None:
        """Write during faults: the named ones, each once, or random ones for a time."""
        relay = balancer([server.port for server in self.servers])
        url = f"http://127.0.0.1:{await relay.listen()}"
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            made = await client.post(_MAPS, json=_map("counter", count="0"))
            revision = made.json()["metadata"]["resourceVersion"]
        watches = [asyncio.create_task(self._watch(server, revision)) for server in self.servers]
        watches.append(asyncio.create_task(self._supervise()))
        writers = [asyncio.create_task(self._write(url, number)) for number in range(WRITERS)]
        try:
            until_then = time.monotonic() + seconds
            waiting = list(faults)
            while waiting or time.monotonic() < until_then:
                await self._progress(50)
                await self._strike(waiting.pop() if waiting else self.rng.choice(FAULTS))
            await self._progress(200)
            self.writing = False
            await asyncio.gather(*writers)
            await self._judge(url)
        finally:
            for task in (*writers, *watches):
                task.cancel()
            await asyncio.gather(*writers, *watches, return_exceptions=True)
            relay.close()

    async def _supervise(self) -> None:
        """Restart servers that have ended, such as those that connect to a database that is just starting."""
        while True:
            await asyncio.sleep(0.5)
            for server in self.servers:
                server.start()

    async def _progress(self, writes: int) -> None:
        """Wait until that many more writes are acknowledged."""
        wanted = len(self.answered) + writes
        try:
            await until(lambda: len(self.answered) >= wanted, _SETTLED, every=0.05)
        except TimeoutError:
            logs = "\n".join(server.log() for server in self.servers)
            self.broken.append(f"no writes in {_SETTLED} s after {dict(self.faults)}: {logs}")

    async def _strike(self, fault: str) -> None:
        self.faults[fault] += 1
        server = self.rng.choice(self.servers)
        match fault:
            case "kill":
                server.kill()
                await asyncio.sleep(self.rng.random())
                server.start()
            case "crash":
                await asyncio.to_thread(self.database.stop, "immediate")
                await asyncio.sleep(self.rng.random())
                await asyncio.to_thread(self.database.start)
            case "cut":
                server.gate.shut()
                await asyncio.sleep(_CUT * self.rng.random())
                server.gate.open()
            case "cut and kill":
                server.gate.shut()
                await asyncio.sleep(_CUT * self.rng.random())
                server.kill()
                server.gate.open()
                server.start()

    async def _write(self, url: str, number: int) -> None:
        made = 0
        while self.writing:
            # Some writes use their own connection, so that the balancer distributes them.
            with contextlib.suppress(*_ERRORS):
                async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                    for _ in range(8):
                        name, made = f"w{number}-{made}", made + 1
                        created = await client.post(_MAPS, json=_map(name))
                        if created.status_code == 201:
                            self.answered[name] = _revision(created.json())
                        await self._increment(client)
            await asyncio.sleep(0.01)

    async def _increment(self, client: httpx.AsyncClient) -> None:
        answer = await client.get(_COUNTER)
        if answer.status_code != 200:
            return
        found = answer.json()
        found["data"]["count"] = str(int(found["data"]["count"]) + 1)
        self.unknown += 1
        status = (await client.put(_COUNTER, json=found)).status_code
        if status in (200, 409):
            self.unknown -= 1
        self.increments += status == 200

    async def _watch(self, server: Server, revision: str) -> None:
        seen = self.seen.setdefault(server.url, {})
        while True:
            with contextlib.suppress(*_ERRORS):
                async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
                    options = {"watch": "1", "resourceVersion": revision, "allowWatchBookmarks": "true"}
                    async with client.stream("GET", _MAPS, params=options) as stream:
                        if stream.status_code == 200:
                            async for line in stream.aiter_lines():
                                revision = self._event(server, seen, orjson.loads(line), revision)
            await asyncio.sleep(0.1)

    def _event(self, server: Server, seen: dict[str, int], event: Any, after: str) -> str:
        if event["type"] == "ERROR":
            if event["object"].get("code") == 410:
                self.broken.append(f"{server.url}: 410 within the run")
            return after
        obj = event["object"]
        revision = _revision(obj)
        if event["type"] != "BOOKMARK":
            if revision <= int(after):
                self.broken.append(f"{server.url}: {revision} came after {after}")
            if event["type"] == "ADDED":
                seen[obj["metadata"]["name"]] = revision
        return str(revision)

    async def _judge(self, url: str) -> None:
        """Check every acknowledged write, through the balancer and in the watches."""
        for server in self.servers:
            await until(server.ready, _SETTLED, every=0.1)
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            items = (await client.get(_MAPS)).json()["items"]
        there = {item["metadata"]["name"]: item for item in items}
        for name, revision in self.answered.items():
            if name not in there or _revision(there[name]) != revision:
                self.broken.append(f"{name} was answered with {revision} and is not there")
        count = int(there["counter"]["data"]["count"])
        if not self.increments <= count <= self.increments + self.unknown:
            self.broken.append(f"{self.increments} increments, {self.unknown} unknown: the count is {count}")
        for server in self.servers:
            seen = self.seen[server.url]
            try:
                await until(functools.partial(self._is_watched, seen), _SETTLED, every=0.1)
            except TimeoutError:
                lost = len(self.answered.items() - seen.items())
                self.broken.append(f"{server.url}: its watch has not shown {lost} writes")
        self.broken += await asyncio.to_thread(_kubectl, url, len(there))

    def _is_watched(self, seen: dict[str, int]) -> bool:
        """True if a watch has received every acknowledged creation."""
        return self.answered.items() <= seen.items()


def _kubectl(url: str, maps: int) -> list[str]:
    """Return the differences that kubectl finds through the balancer. Empty without kubectl."""
    if shutil.which("kubectl") is None:
        return []
    words = ["kubectl", "--server", url, "get", "configmaps", "-o", "name"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    found = len(result.stdout.splitlines())
    return [] if found == maps else [f"kubectl lists {found} of {maps}: {result.stderr}"]


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _revision(obj: Any) -> int:
    return int(obj["metadata"]["resourceVersion"])


FAULTS = ("kill", "crash", "cut", "cut and kill")


async def endure(
    seconds: float, seed: int, *, faults: Sequence[str] = (), count: int = 2, old: Path | None = None
) -> Endurance:
    """Run the servers and faults once, and return the results.

    ``old`` is a folder with an older revision of dralab, from which the first server runs.
    """
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(postgres.run_postgres())
        url = database.database()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="e", dir="/tmp")))
        servers = [
            Server(folder / str(number), stack.enter_context(Port()).number, old if number == 0 else None)
            for number in range(count)
        ]
        run = Endurance(database, servers, random.Random(seed))
        for server in servers:
            stack.callback(server.close)
            await server.connect(database, url)
            server.start()
            await until(server.ready, every=0.1)
        await run.run(seconds, faults)
        log = PostgresqlEngine(url)
        run.broken += await asyncio.to_thread(log.check)
        log.close()
        return run


def _extract(revision: str, folder: Path) -> None:
    words = ["git", "archive", revision]
    archive = subprocess.run(words, cwd=_ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


async def _main(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as name:
        old = None
        if options.old:
            old = Path(name)
            await asyncio.to_thread(_extract, options.old, old)
        run = await endure(options.minutes * 60, options.seed, count=options.servers, old=old)
    sys.stdout.write(
        f"{len(run.answered)} creations and {run.increments} increments answered under {dict(run.faults)}\n"
    )
    for text, number in Counter(run.broken).items():
        sys.stdout.write(f"BROKEN ({number} times): {text}\n")
    return 1 if run.broken else 0


def main() -> int:
    """Run the command line. Return the exit code."""
    parser = argparse.ArgumentParser(prog="servers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument(
        "--old",
        default="",
        help="git revision of dralab to run the first server from (default: this checkout)",
    )
    return asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())

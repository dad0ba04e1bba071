"""Run services as separate processes with an empty database, and measure their CPU time, memory and open files."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from dra_kube.cluster import Record
from dra_lab.ports import Port
from dra_lab.starting import start_up, stop, wait_until_ready
from dra_shared.client.rest import Client

_SECONDS = 600.0
_STOP_TIMEOUT = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")
_SCHEMA = "dralab_bench"


@dataclass(frozen=True)
class Cost:
    """One process: CPU time in seconds, proportional set size in MiB, open files."""

    cpu: float
    memory: float
    files: int

    @classmethod
    def of(cls, pid: int) -> "Cost":
        """Return the cost of the process since its start."""
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        kibibytes = int(rollup.partition("\nPss:")[2].split()[0])
        return cls(
            (int(times[11]) + int(times[12])) / _TICKS, kibibytes / 1024, len(os.listdir(f"/proc/{pid}/fd"))
        )

    def __sub__(self, before: "Cost") -> "Cost":
        return Cost(self.cpu - before.cpu, self.memory - before.memory, self.files - before.files)


@asynccontextmanager
async def process(port: Port, module: str, *arguments: str) -> AsyncIterator[int]:
    """Yield the id of the process once it is ready."""
    words = (sys.executable, "-m", module, *arguments, "--log-level", "error")
    started = await asyncio.create_subprocess_exec(*words)
    try:
        async with Client(port.url) as client:
            began = time.monotonic()
            while not await _ready(client):
                if started.returncode is not None or time.monotonic() - began > _SECONDS:
                    raise SystemExit(f"{module} is not ready")
                await asyncio.sleep(0.5)
        yield started.pid
    finally:
        if started.returncode is None:
            started.terminate()
            await started.wait()


async def _ready(client: Client) -> bool:
    try:
        return (await client.raw("GET", "/readyz")).status_code == 200
    except (httpx.HTTPError, OSError, TimeoutError):
        return False


@contextmanager
def database(url: str) -> Iterator[tuple[str, ...]]:
    """Yield the API server's options for an empty database: a schema in PostgreSQL, or SQLite if the URL is empty."""
    if not url:
        yield ()
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE")
        connection.execute(f"CREATE SCHEMA {_SCHEMA}")
        mark = "&" if "?" in url else "?"
        try:
            yield ("--database", f"{url}{mark}options=-csearch_path%3D{_SCHEMA}")
        finally:
            connection.execute(f"DROP SCHEMA {_SCHEMA} CASCADE")


@asynccontextmanager
async def dralab_up(data: Path, *words: str) -> AsyncIterator[Record]:
    """Context manager: run ``dralab up`` with these options in the folder ``data``, and wait until it is ready."""
    log = data / "up.log"
    process = start_up(["up", "--data", str(data), "--port", "0", *words], log)
    try:
        yield await wait_until_ready(process, data, log)
    finally:
        await stop(process, _STOP_TIMEOUT)

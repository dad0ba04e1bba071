"""What nodes cost: CPU time, memory and open files of the API server and of the node agent, by their number.

Work is counted, and time is not: CPU time and memory are nearly the same on a busy machine. The last columns are the
upkeep of nodes on which nothing happens: leases, statuses and reports of devices' health.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
from dra_cli.ports import Port
from dra_shared.client.rest import Client

_SECONDS = 600.0
_TICKS = os.sysconf("SC_CLK_TCK")
# There is no controller to publish the certificates of pods' token volumes.
_WITHOUT = ("--disable-admission-plugins", "ServiceAccount")


@dataclass(frozen=True)
class Cost:
    """One process: CPU time in seconds, proportional set size in MiB, open files."""

    cpu: float
    memory: float
    files: int

    @classmethod
    def of(cls, pid: int) -> "Cost":
        """What the process has cost until now."""
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        kibibytes = int(rollup.partition("\nPss:")[2].split()[0])
        return cls(
            (int(times[11]) + int(times[12])) / _TICKS, kibibytes / 1024, len(os.listdir(f"/proc/{pid}/fd"))
        )


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one row for each process and number of nodes, or JSON."""
    parser = argparse.ArgumentParser(prog="bench scaling", description=__doc__)
    parser.add_argument("--nodes", default="100,400", help="numbers of nodes, separated by commas")
    parser.add_argument("--gpus", default="8xH100-SXM5-80GB", help="each node's GPUs")
    parser.add_argument("--database", default="", help="the API server's; default: SQLite")
    parser.add_argument("--idle", type=float, default=30, help="seconds for which upkeep is counted")
    parser.add_argument("--sockets", action="store_true", help="open all sockets of each node")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = [
        row for count in map(int, options.nodes.split(",")) for row in asyncio.run(_measure(count, options))
    ]
    if options.json:
        print(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return
    print("nodes  process     CPU s until ready  MiB after  open files  upkeep: CPU ms a second")
    for row in rows:
        print(
            f"{row['nodes']:5}  {row['process']:10}  {row['cpu_s']:17.1f}  {row['mib']:9.0f}  "
            f"{row['files']:10}  {row['upkeep_ms']:22.1f}"
        )


async def _measure(count: int, options: argparse.Namespace) -> list[dict[str, float | str]]:
    with tempfile.TemporaryDirectory(prefix="dralab") as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            server, agent = stack.enter_context(Port()), stack.enter_context(Port())
            database = ("--database", options.database) if options.database else ()
            processes = {
                "API server": await stack.enter_async_context(
                    _process(
                        server,
                        "dra_apiserver.main",
                        *("--port", str(server.number), "--data", str(folder), *_WITHOUT, *database),
                    )
                )
            }
            flags = [
                "--server",
                server.url,
                "--data",
                str(folder),
                "--nodes",
                str(count),
                "--gpus",
                options.gpus,
            ]
            if not options.sockets:
                flags.append("--no-node-sockets")
            processes["node agent"] = await stack.enter_async_context(
                _process(agent, "dra_node_agent.main", *flags, "--health-port", str(agent.number))
            )
            ready = {name: Cost.of(pid) for name, pid in processes.items()}
            await asyncio.sleep(options.idle)
            later = {name: Cost.of(pid) for name, pid in processes.items()}
    return [
        {
            "nodes": count,
            "process": name,
            "cpu_s": ready[name].cpu,
            "mib": later[name].memory,
            "files": later[name].files,
            "upkeep_ms": (later[name].cpu - ready[name].cpu) * 1000 / options.idle,
        }
        for name in processes
    ]


@asynccontextmanager
async def _process(port: Port, module: str, *arguments: str) -> AsyncIterator[int]:
    """The process's id, once it is ready."""
    words = (sys.executable, "-m", module, *arguments, "--log-level", "error")
    process = await asyncio.create_subprocess_exec(*words)
    try:
        async with Client(port.url) as client:
            began = time.monotonic()
            while not await _ready(client):
                if process.returncode is not None or time.monotonic() - began > _SECONDS:
                    raise SystemExit(f"{module} is not ready")
                await asyncio.sleep(0.5)
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def _ready(client: Client) -> bool:
    try:
        return (await client.raw("GET", "/readyz")).status_code == 200
    except (httpx.HTTPError, OSError, TimeoutError):
        return False


if __name__ == "__main__":
    main()

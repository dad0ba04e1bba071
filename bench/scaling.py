"""Measure the cost of one more node, device, pod, watcher and write for the API server and the node agent.

CPU time and memory are measured, because they are nearly the same on a busy machine. The first table has a row for each
number of nodes and each kind of GPU. Its last column is the upkeep of idle nodes, on which ``--pods`` pods run: leases,
statuses and reports of devices' health. The second table is about the API server alone.
"""

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import orjson
from dra_lab.ports import Port
from dra_shared.api.codec import convert
from dra_shared.api.resources import PODS
from dra_shared.client.rest import Client

from bench import _growth
from bench._processes import Cost, database, process

_SECONDS = 600.0
_NAMESPACE = "default"
# Pods mount no token, because no controller runs that would publish the CA certificates for token volumes.
_WITHOUT = ("--disable-admission-plugins", "ServiceAccount")


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one row for each process and size and one for each unit, or JSON."""
    options = _parser().parse_args(arguments)
    sizes = [(count, gpus) for count in map(int, options.nodes.split(",")) for gpus in options.gpus]
    rows = [row for count, gpus in sizes for row in asyncio.run(_measure(count, gpus, options))]
    units = asyncio.run(_units(options)) if options.units else []
    if options.json:
        print(orjson.dumps({"nodes": rows, "units": units}, option=orjson.OPT_INDENT_2).decode())
        return
    print(
        "nodes  GPUs               process     CPU s until ready  MiB after  open files  upkeep: CPU ms a second"
    )
    for row in rows:
        print(
            f"{row['nodes']:5}  {row['gpus']:17}  {row['process']:10}  {row['cpu_s']:17.2f}  "
            f"{row['mib']:9.1f}  {row['files']:10}  {row['upkeep_ms']:22.1f}"
        )
    print("one more            CPU us    KiB")
    for unit in units:
        print(f"{unit['unit']:18}  {unit['cpu_us']:6.0f}  {unit['kib']:5.1f}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench scaling", description=__doc__)
    parser.add_argument("--nodes", default="100,400", help="numbers of nodes, separated by commas")
    parser.add_argument("--gpus", nargs="+", default=["8xH100-SXM5-80GB"], help="each node's GPUs")
    parser.add_argument(
        "--pods", type=int, default=0, help="pods that run on the nodes before upkeep is counted"
    )
    parser.add_argument(
        "--units", type=int, default=2000, help="writes of each kind for the second table; 0 skips the table"
    )
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument(
        "--database", default="", help="the URL of the API server's database; default: SQLite"
    )
    parser.add_argument("--idle", type=float, default=30, help="seconds for which upkeep is counted")
    parser.add_argument("--sockets", action="store_true", help="open all sockets of each node")
    parser.add_argument("--json", action="store_true")
    return parser


@asynccontextmanager
async def _apiserver(folder: Path, url: str) -> AsyncIterator[tuple[Port, int]]:
    """Run an empty API server for the block, and yield its port and its process id."""
    with Port() as port, database(url) as kept:
        words = ("--port", str(port.number), "--data", str(folder), *_WITHOUT, *kept)
        async with process(port, "dra_apiserver.main", *words) as pid:
            yield port, pid


async def _units(options: argparse.Namespace) -> list[_growth.Row]:
    with tempfile.TemporaryDirectory(prefix="dralab") as name:
        async with _apiserver(Path(name), options.database) as (port, pid):
            return await _growth.measure(_growth.Server(pid, port.number), options.units, options.watchers)


async def _measure(count: int, gpus: str, options: argparse.Namespace) -> list[dict[str, float | str]]:
    with tempfile.TemporaryDirectory(prefix="dralab") as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            server, pid = await stack.enter_async_context(_apiserver(folder, options.database))
            agent = stack.enter_context(Port())
            flags = ["--server", server.url, "--data", str(folder), "--nodes", str(count), "--gpus", gpus]
            if not options.sockets:
                flags.append("--no-node-sockets")
            flags += ["--health-port", str(agent.number)]
            processes = {
                "API server": pid,
                "node agent": await stack.enter_async_context(process(agent, "dra_node_agent.main", *flags)),
            }
            ready = {name: Cost.of(pid) for name, pid in processes.items()}
            await _run_pods(server.url, options.pods, count)
            rested = {name: Cost.of(pid) for name, pid in processes.items()}
            await asyncio.sleep(options.idle)
            later = {name: Cost.of(pid) for name, pid in processes.items()}
    return [
        {
            "nodes": count,
            "gpus": gpus,
            "process": name,
            "cpu_s": ready[name].cpu,
            "mib": later[name].memory,
            "files": later[name].files,
            "upkeep_ms": (later[name].cpu - rested[name].cpu) * 1000 / options.idle,
        }
        for name in processes
    ]


async def _run_pods(url: str, pods: int, nodes: int) -> None:
    """Create pods, distributed evenly over the nodes, and wait until all are Running."""
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"]}
    async with Client(url) as client:
        for number in range(pods):
            pod = {
                "metadata": {"name": f"pod-{number}", "namespace": _NAMESPACE},
                "spec": {"nodeName": f"node-{number % nodes}", "containers": [container]},
            }
            await client.create(PODS, convert(PODS, pod))
        async with asyncio.timeout(_SECONDS):
            while await _has_waiting_pods(client):  # noqa: ASYNC110 - nothing announces the last pod
                await asyncio.sleep(0.5)


async def _has_waiting_pods(client: Client) -> bool:
    pods = (await client.list(PODS, _NAMESPACE)).items
    return any(pod.status.phase != "Running" for pod in pods)


if __name__ == "__main__":
    main()

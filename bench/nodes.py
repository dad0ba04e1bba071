"""Measure the node agent: preparing one claim, many nodes in one process, and many pods that start at once.

The API server runs in a separate process. The benchmark itself binds the pods, so that no scheduler is measured.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
from dra_lab.ports import Port
from dra_node_agent.agent import NodeAgent, NodeAgentConfig
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.client.rest import Client
from dra_shared.log import configure

_SCRIPT = "echo hello; trap 'exit 0' TERM; sleep 9999 & wait"


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one line a figure, or JSON."""
    parser = argparse.ArgumentParser(prog="bench nodes", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500, help="nodes in one process")
    parser.add_argument("--claims", type=int, default=100, help="claims to prepare, one after the other")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    configure("bench", "error")
    figures = asyncio.run(_measure(options.nodes, options.claims))
    if options.json:
        print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
        return
    prepare = figures["prepare_ms"]
    print(f"prepare of one claim: median {statistics.median(prepare):.1f} ms, max {max(prepare):.1f} ms")
    print(f"{options.nodes} nodes in one process: ready after {figures['ready_s']:.1f} s")
    print(f"memory of {options.nodes} nodes: {figures['memory_mib']:.0f} MiB")
    print(f"{options.nodes} pods at once, created and bound: all Running after {figures['running_s']:.1f} s")


async def _measure(nodes: int, claims: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="dralab") as name:
        folder = Path(name)
        async with _server(folder) as client:
            figures["prepare_ms"] = await _prepare(client, folder / "one", claims)
            started = time.monotonic()
            async with _agent(client.base_url, folder / "many", nodes) as process:
                figures["ready_s"] = time.monotonic() - started
                await _until(lambda: _have_published(client, nodes), 300)
                figures["memory_mib"] = _memory(process.pid)
                figures["running_s"] = await _start_pods(client, nodes)
    return figures


async def _prepare(client: Client, folder: Path, count: int) -> list[float]:
    times = []
    async with NodeAgent(NodeAgentConfig(data=folder, names=("bench",), gpus="8xH200"), client) as agent:
        await _until(lambda: _have_published(client, 1), 30)
        dra = agent.kubelets[0].dra
        for number in range(count):
            pod = await _pod_with_claim(client, f"claim-{number}", "bench", f"gpu-{4 + number % 4}")
            started = time.perf_counter()
            await dra.prepare(pod)
            times.append((time.perf_counter() - started) * 1000)
            await dra.unprepare(pod)
    return times


async def _pod_with_claim(client: Client, name: str, node: str, device: str) -> Pod:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
    meta = {"name": name, "namespace": "default"}
    claim = {"metadata": meta, "spec": {"devices": {"requests": requests}}}
    await client.create(RESOURCE_CLAIMS, convert(RESOURCE_CLAIMS, claim))
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": node, "device": device}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
    }
    await client.patch(RESOURCE_CLAIMS, name, {"status": status}, "default", subresource="status")
    claims = [{"name": "gpu", "resourceClaimName": name}]
    return convert(PODS, {"metadata": {**meta, "uid": name}, "spec": {"resourceClaims": claims}})


async def _start_pods(client: Client, count: int) -> float:
    started = time.monotonic()
    for number in range(count):
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", _SCRIPT]}
        pod = {
            "metadata": {"name": f"pod-{number}", "namespace": "default"},
            "spec": {"nodeName": f"node-{number}", "containers": [container]},
        }
        await client.create(PODS, convert(PODS, pod))

    async def all_running() -> bool:
        pods = (await client.list(PODS, "default")).items
        return sum(pod.status.phase == "Running" for pod in pods) == count

    await _until(all_running, 300)
    return time.monotonic() - started


async def _have_published(client: Client, nodes: int) -> bool:
    slices = (await client.list(RESOURCE_SLICES, limit=2 * nodes)).items
    return len({slice_.spec.node_name for slice_ in slices}) >= nodes


# Pods mount no token, because no controller runs that would publish the CA certificates for token volumes.
_WITHOUT = ("--disable-admission-plugins", "ServiceAccount")


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[Client]:
    with Port() as port:
        async with (
            _process("dra_apiserver.main", "--port", str(port.number), "--data", str(folder), *_WITHOUT),
            Client(port.url) as client,
        ):
            await _until(lambda: _ready(client), 30)
            yield client


async def _ready(client: Client) -> bool:
    try:
        return (await client.raw("GET", "/readyz")).status_code == 200
    except (httpx.HTTPError, OSError):
        return False


@asynccontextmanager
async def _agent(url: str, folder: Path, nodes: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Yield the process of an agent once all its nodes are ready."""
    options = ("--server", url, "--data", str(folder), "--nodes", str(nodes))
    with Port() as port:
        async with (
            _process("dra_node_agent.main", *options, "--health-port", str(port.number)) as process,
            Client(port.url) as health,
        ):
            await _until(lambda: _ready(health), 300)
            yield process


@asynccontextmanager
async def _process(module: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, "--log-level", "error"
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def _until(check: Any, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not await check():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.2)


def _memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()

"""Measure many pods created at once: how many become Running per second, and the CPU time of each service per pod.

All services run, with relaxed writes (no wait for the disk). Each pod gets a GPU by a claim from a template.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object, Struct
from dra_shared.api.resources import PODS, RESOURCE_CLAIM_TEMPLATES, Resource
from dra_shared.client.rest import Client, EventType
from msgspec import field

from bench._processes import Cost, dralab_up

_NAMESPACE = "default"
_PARALLEL = 32
_SECONDS = 600.0
_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}


class _Status(Struct):
    phase: str = ""


class _StartedPod(Object):
    """The fields of a pod that this benchmark reads."""

    status: _Status = field(default_factory=_Status)


_STARTED_PODS = Resource(PODS.group, PODS.version, PODS.plural, PODS.kind, _StartedPod)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one line, or JSON."""
    parser = argparse.ArgumentParser(prog="bench running", description=__doc__)
    parser.add_argument("--nodes", default="100:8xH100-SXM5-80GB", help="nodes and their GPUs")
    parser.add_argument("--pods", type=int, default=600, help="pods to start and measure")
    parser.add_argument("--warm-up", type=int, default=100, help="pods to start before the measured ones")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    figures = asyncio.run(_measure(options))
    if options.json:
        print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
        return
    cpu = figures["cpu_ms"]
    shares = ", ".join(f"{name} {value:.2f}" for name, value in cpu.items())
    print(
        f"{options.pods} pods on {options.nodes}: {figures['pods_per_second']:.0f} a second, "
        f"CPU ms a pod: {sum(cpu.values()):.2f} ({shares})"
    )


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="dralab-bench-") as folder:
        words = ("--relaxed", "--nodes", options.nodes)
        async with dralab_up(Path(folder), *words) as record:
            pids = {name: service.pid for name, service in record.services.items()}
            async with Client(record.server) as client:
                template = {
                    "metadata": {"name": "gpu", "namespace": _NAMESPACE},
                    "spec": {"spec": {"devices": {"requests": [_REQUEST]}}},
                }
                await client.create(RESOURCE_CLAIM_TEMPLATES, convert(RESOURCE_CLAIM_TEMPLATES, template))
                await _start(client, "warm", options.warm_up)
                before = {name: Cost.of(pid) for name, pid in pids.items()}
                seconds = await _start(client, "pod", options.pods)
                after = {name: Cost.of(pid) for name, pid in pids.items()}
    cpu = {name: (after[name].cpu - before[name].cpu) * 1000 / options.pods for name in pids}
    return {"seconds": seconds, "pods_per_second": options.pods / seconds, "cpu_ms": cpu}


async def _start(client: Client, prefix: str, count: int) -> float:
    """Create the pods, and return the seconds until all of them run."""
    waiting = {f"{prefix}-{number}" for number in range(count)}
    revision = (await client.list(_STARTED_PODS, _NAMESPACE)).resource_version
    names = iter(sorted(waiting))

    async def create() -> None:
        for name in names:
            await client.create(PODS, convert(PODS, _pod(name)), _NAMESPACE)

    began = time.monotonic()
    async with asyncio.timeout(_SECONDS), asyncio.TaskGroup() as creating:
        for _ in range(_PARALLEL):
            creating.create_task(create())
        creating.create_task(_all_run(client, revision, waiting))
    return time.monotonic() - began


async def _all_run(client: Client, revision: str, waiting: set[str]) -> None:
    if not waiting:
        return
    async for event in client.watch(_STARTED_PODS, _NAMESPACE, resource_version=revision):
        pod = event.object
        if event.type is EventType.MODIFIED and pod.status.phase == "Running":
            waiting.discard(pod.metadata.name)
            if not waiting:
                return


def _pod(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "any",
        "command": ["sleep", "infinity"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}


if __name__ == "__main__":
    main()

"""Measure a whole cluster: seconds until it is ready, memory of its processes, and the time until a pod is Running.

The services run as processes on the loopback address, with an empty data directory for each start.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
from dra_kube.cluster import Record
from dra_shared.api.codec import convert
from dra_shared.api.resources import NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES, Resource
from dra_shared.client.rest import Client

from bench._processes import dralab_up

_NAMESPACE = "bench"


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one line a figure, or JSON."""
    parser = argparse.ArgumentParser(prog="bench cluster", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="starts to measure")
    parser.add_argument("--pods", type=int, default=20, help="pods to time, one after the other")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    figures = asyncio.run(_measure(options.runs, options.pods))
    if options.json:
        print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
        return
    ready, latency = figures["ready_s"], figures["pod_running_ms"]
    print(f"up to ready, 2 nodes: median {statistics.median(ready):.2f} s of {len(ready)} starts")
    for name, mebibytes in figures["memory_mib"].items():
        print(f"memory of {name}: {mebibytes:.0f} MiB")
    print(f"memory of all: {sum(figures['memory_mib'].values()):.0f} MiB")
    print(
        f"pod created to Running, one GPU from a template: median {statistics.median(latency):.0f} ms, "
        f"max {max(latency):.0f} ms of {len(latency)}"
    )


async def _measure(runs: int, pods: int) -> dict[str, Any]:
    ready = []
    for run in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            async with dralab_up(Path(folder)) as record:
                ready.append(time.perf_counter() - began)
                if run == runs - 1:
                    memory = _memory(record)
                    async with Client(record.server) as client:
                        latencies = await _pods(client, pods)
    return {"ready_s": ready, "memory_mib": memory, "pod_running_ms": latencies}


def _memory(record: Record) -> dict[str, float]:
    """Return the resident set of each process, in MiB."""
    pids = {"up": record.pid, **{name: service.pid for name, service in record.services.items()}}
    memory = {}
    for name, pid in pids.items():
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                memory[name] = int(line.split()[1]) / 1024
    return memory


async def _create(client: Client, resource: Resource[Any], obj: dict[str, Any]) -> None:
    await client.create(resource, convert(resource, obj))


async def _pods(client: Client, count: int) -> list[float]:
    await _create(client, NAMESPACES, {"metadata": {"name": _NAMESPACE}})
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    template = {
        "metadata": {"name": "gpu", "namespace": _NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    await _create(client, RESOURCE_CLAIM_TEMPLATES, template)
    latencies = []
    for number in range(count):
        name = f"pod-{number}"
        pod = {
            "metadata": {"name": name, "namespace": _NAMESPACE},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "ubuntu:24.04",
                        "command": ["sleep", "infinity"],
                        "resources": {"claims": [{"name": "gpu"}]},
                    }
                ],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
                "terminationGracePeriodSeconds": 0,
            },
        }
        began = time.perf_counter()
        await _create(client, PODS, pod)
        await _until(client, name, "Running")
        latencies.append((time.perf_counter() - began) * 1000)
        await client.delete(PODS, name, _NAMESPACE, grace_period=0)
        await _until(client, name, None)
    return latencies


async def _until(client: Client, name: str, phase: str | None) -> None:
    """Watch the pod until it is in ``phase``, or gone."""
    selector = f"metadata.name={name}"
    listed = await client.list(PODS, _NAMESPACE, field_selector=selector)
    if [pod.status.phase for pod in listed.items] == ([phase] if phase else []):
        return
    events = client.watch(
        PODS,
        _NAMESPACE,
        resource_version=listed.resource_version,
        field_selector=selector,
        timeout_seconds=60,
    )
    async for event in events:
        gone = event.type.value == "DELETED"
        if gone == (phase is None) and (gone or event.object.status.phase == phase):
            await events.aclose()  # type: ignore[attr-defined]  # it is a generator
            return
    raise SystemExit(f"pod {name} was not {phase or 'gone'} within a minute")


if __name__ == "__main__":
    main()

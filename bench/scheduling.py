"""Measure how many pods with claims the whole control plane places per second.

API server, controller and scheduler run as separate processes. Nodes with devices are created, then ``--init-pods``
pods are placed, and then ``--pods`` pods are placed and timed. With ``--workload steady-state`` a pod is deleted
whenever one is created.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from dra_lab.ports import Port
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object, Struct
from dra_shared.api.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.client.rest import Client, EventType
from dra_shared.jsontypes import JsonObject
from msgspec import field

from bench._workloads import CLASS, WORKLOADS, Workload

_CONTROLLERS = "resourceclaim-controller,garbage-collector-controller,namespace-controller"
_PARALLEL = 32
_NAMESPACE = "default"


class _Place(Struct):
    node_name: str = ""


class _PlacedPod(Object):
    """The fields of a pod that this benchmark reads."""

    spec: _Place = field(default_factory=_Place)


_PLACED_PODS = Resource(PODS.group, PODS.version, PODS.plural, PODS.kind, _PlacedPod)


# As in upstream's scheduler_perf, because no kubelet runs that would report ready nodes or mount tokens.
_WITHOUT = ("--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")


@contextlib.asynccontextmanager
async def processes(
    directory: Path,
) -> AsyncIterator[tuple[str, dict[str, subprocess.Popen[bytes]]]]:
    """Start the services. Yield the API server's URL and the processes by name once all are ready."""
    running: dict[str, subprocess.Popen[bytes]] = {}

    def start(name: str, module: str, *arguments: str) -> None:
        with (directory / f"{name}.log").open("wb") as log:
            running[name] = subprocess.Popen(
                [sys.executable, "-m", module, "--log-level", "warning", *arguments], stdout=log, stderr=log
            )

    ports = contextlib.ExitStack()
    try:
        health = ports.enter_context(Port())
        server = ports.enter_context(Port())
        own = ["--port", str(server.number), "--data", str(directory)]
        start("apiserver", "dra_apiserver.main", *own, *_WITHOUT)
        async with Client(server.url) as client:
            await _until_ready(client)
        own = ["--controllers", _CONTROLLERS]
        start("controller", "dra_controller.main", "--server", server.url, *own)
        own = ["--health-port", str(health.number)]
        start("scheduler", "dra_scheduler.main", "--server", server.url, *own)
        async with Client(health.url) as client:
            await _until_ready(client)
        yield server.url, running
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait(timeout=20)
        ports.close()


async def _until_ready(client: Client) -> None:
    for _ in range(400):
        with contextlib.suppress(Exception):
            if (await client.raw("GET", "/readyz")).status_code == 200:
                return
        await asyncio.sleep(0.05)
    raise SystemExit("a service did not become ready")


class Cluster:
    """The cluster under test: creates objects, and records which pods have a node."""

    def __init__(self, client: Client, workload: Workload) -> None:
        self._client = client
        self._workload = workload
        self._created: dict[str, float] = {}
        self._placed: dict[str, float] = {}
        self._awaited: dict[str, asyncio.Future[None]] = {}

    async def fill(self, nodes: int, devices: int) -> None:
        """Create the nodes, their slices, the class and the template."""
        work = self._workload
        await self._create(DEVICE_CLASSES, _object(DEVICE_CLASSES, CLASS, work.device_class))
        if work.claim is not None:
            template = _object(RESOURCE_CLAIM_TEMPLATES, "bench", {"spec": work.claim})
            await self._create(RESOURCE_CLAIM_TEMPLATES, template)
        names = [f"node-{i:05}" for i in range(nodes)]
        await self._all(NODES, [_node(name) for name in names])
        await self._all(RESOURCE_SLICES, [piece for name in names for piece in work.slices(name, devices)])

    async def run(self, prefix: str, count: int) -> float:
        """Create ``count`` pods, wait until all have a node, and return the seconds since the first create."""
        started = time.monotonic()
        names = [f"{prefix}-{i:05}" for i in range(count)]
        for name in names:
            self._created[name] = started
        await self._all(PODS, [self._pod(name) for name in names])
        await self._until(names)
        return time.monotonic() - started

    async def replace(self, victims: list[str], prefix: str, count: int) -> float:
        """Delete a pod and create another, ``count`` times. Return the total seconds."""
        started = time.monotonic()

        async def one(index: int) -> None:
            await self._client.delete(PODS, victims[index], _NAMESPACE, grace_period=0)
            name = f"{prefix}-{index:05}"
            self._created[name] = time.monotonic()
            await self._create(PODS, self._pod(name))
            await self._until([name])

        await _gather_limited([one(index) for index in range(count)], 10)
        return time.monotonic() - started

    async def _until(self, names: list[str]) -> None:
        loop = asyncio.get_running_loop()
        wanted = [name for name in names if name not in self._placed]
        self._awaited |= {name: loop.create_future() for name in wanted}
        if wanted:
            await asyncio.wait([self._awaited[name] for name in wanted], timeout=600)
        missing = [name for name in wanted if name not in self._placed]
        if missing:
            raise SystemExit(f"{len(missing)} pods still have no node, such as {missing[:3]}")

    async def follow(self) -> None:
        """Watch pods, and record when they get their nodes."""
        async for event in self._client.watch(_PLACED_PODS, resource_version="0"):
            pod, name = event.object, event.object.metadata.name
            if event.type is not EventType.DELETED and pod.spec.node_name and name not in self._placed:
                self._placed[name] = time.monotonic()
                if name in self._awaited:
                    self._awaited.pop(name).set_result(None)

    def latencies(self, prefix: str) -> list[float]:
        """Return the milliseconds from creation to node of the pods whose names begin with the prefix."""
        names = [name for name in self._created if name.startswith(prefix)]
        return sorted((self._placed[name] - self._created[name]) * 1000 for name in names)

    def _pod(self, name: str) -> JsonObject:
        container: JsonObject = {"name": "main", "image": "bench"}
        spec: JsonObject = {"containers": [container]}
        if self._workload.claim is not None:
            spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": "bench"}]
            container["resources"] = {"claims": [{"name": "device"}]}
        if self._workload.pod_resources is not None:
            resources = self._workload.pod_resources
            container["resources"] = {"requests": resources, "limits": resources}
        return _object(PODS, name, spec)

    async def _all(self, resource: Resource[Any], objects: list[JsonObject]) -> None:
        await _gather_limited([self._create(resource, obj) for obj in objects], _PARALLEL)

    async def _create(self, resource: Resource[Any], obj: JsonObject) -> None:
        await self._client.create(resource, convert(resource, obj), _NAMESPACE)


async def _gather_limited(work: list[Any], parallel: int) -> None:
    gate = asyncio.Semaphore(parallel)

    async def one(item: Any) -> None:
        async with gate:
            await item

    await asyncio.gather(*(one(item) for item in work))


def _object(resource: Resource[Any], name: str, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _node(name: str) -> JsonObject:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    labels = {"kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def _cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _show_logs(directory: Path) -> None:
    for log in directory.glob("*.log"):
        print(log.name, log.read_text()[-2000:], file=sys.stderr)


async def measure(options: argparse.Namespace) -> JsonObject:
    """Run once with these options, and return the figures."""
    workload = WORKLOADS[options.workload]
    with tempfile.TemporaryDirectory(prefix="dralab-bench-") as directory:
        async with (
            processes(Path(directory)) as (server, running),
            Client(server) as client,
        ):
            cluster = Cluster(client, workload)
            await cluster.fill(options.nodes, options.devices_per_node)
            watching = asyncio.create_task(cluster.follow())
            try:
                filled = await cluster.run("init", options.init_pods) if options.init_pods else 0.0
                before = {name: _cpu_seconds(process) for name, process in running.items()}
                if workload.steady:
                    victims = [f"init-{i:05}" for i in range(options.init_pods)][: options.pods]
                    seconds = await cluster.replace(victims, "pod", len(victims))
                else:
                    seconds = await cluster.run("pod", options.pods)
                cpu = {name: _cpu_seconds(process) - before[name] for name, process in running.items()}
            finally:
                watching.cancel()
                if options.logs:
                    _show_logs(Path(directory))
            latencies = cluster.latencies("pod")
            return {
                "benchmark": "scheduling",
                "workload": options.workload,
                "nodes": options.nodes,
                "devicesPerNode": options.devices_per_node,
                "initPods": options.init_pods,
                "pods": len(latencies),
                "initSeconds": round(filled, 3),
                "seconds": round(seconds, 3),
                "podsPerSecond": round(len(latencies) / seconds, 1),
                "latencyMillisecondsMedian": round(statistics.median(latencies), 1),
                "cpuMillisecondsPerPod": {
                    name: round(value * 1000 / len(latencies), 2) for name, value in cpu.items()
                },
            }


class _Size(NamedTuple):
    """The default sizes of a workload."""

    nodes: int
    devices_per_node: int
    init_pods: int
    pods: int


# Similar to the sizes of upstream's benchmarks.
_SIZES = {
    "template": _Size(500, 10, 2500, 2500),
    "steady-state": _Size(100, 10, 1000, 1000),
    "extended-resource": _Size(200, 10, 1000, 1000),
    "taints": _Size(100, 20, 0, 2000),
    "first-available": _Size(100, 10, 0, 1000),
    "consumable-capacity": _Size(100, 10, 1000, 1000),
    "partitionable": _Size(100, 10, 500, 500),
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(prog="bench scheduling", description=__doc__)
    for size in _Size._fields:
        options.add_argument(f"--{size.replace('_', '-')}", type=int, help="default: the workload's own")
    options.add_argument("--workload", choices=sorted(WORKLOADS), default="template")
    options.add_argument("--json", action="store_true", help="one JSON object instead of a sentence")
    options.add_argument("--logs", action="store_true", help="show the end of the services' logs")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Run one workload and print its figures, or each workload in its default size if no options are given."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(limit, 8192), hard), hard))
    if arguments == []:
        for workload in _SIZES:
            _run(parser().parse_args(["--workload", workload]))
    else:
        _run(parser().parse_args(arguments))


def _run(options: argparse.Namespace) -> None:
    for name, value in _SIZES[options.workload]._asdict().items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    figures = uvloop.run(measure(options))
    if options.json:
        print(json.dumps(figures))
        return
    print(
        f"{figures['workload']}: {figures['pods']} pods on {figures['nodes']} nodes in {figures['seconds']} s: "
        f"{figures['podsPerSecond']} pods/s, CPU ms a pod {figures['cpuMillisecondsPerPod']}"
    )


if __name__ == "__main__":
    main()

"""Measure each stage of a pod's start: without a device, with a device plugin's device, and with a DRA driver's device.

One node has the device plugin and the other has the DRA driver, both of the profile ``gpu.example.com``. Pods of the
three kinds start in turns, one at a time. A stage is a revision of the pod or of its claim. Its figure is the
milliseconds from the request that creates the pod until a watcher gets that revision.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dra_shared.client.rest import Client

from bench._processes import dralab_up

_NAMESPACE = "default"
_WARM_UP = 2
_UP = ("--nodes", "2", "--driver", "gpu.example.com:device-plugin@0", "--driver", "gpu.example.com@1")
_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
# The stages of a start, in milliseconds since the pod was created.
Stages = dict[str, float]


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print a table for each kind of pod, or JSON."""
    parser = argparse.ArgumentParser(prog="bench podstart", description=__doc__)
    parser.add_argument("--pods", type=int, default=20, help="pods of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    figures = asyncio.run(_measure(options.pods))
    if options.json:
        print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
        return
    for kind, runs in figures.items():
        least = min(run["Running"] for run in runs)
        middle = _median(runs, "Running")
        print(f"{kind}: Running after {middle:.1f} ms, at best {least:.1f} ms, of {len(runs)} pods")
        names = {name for run in runs for name in run}
        for name in sorted(names, key=lambda name: _median(runs, name)):
            print(f"  {_median(runs, name):7.1f} ms  {name}")


def _median(runs: list[Stages], name: str) -> float:
    return statistics.median(run[name] for run in runs if name in run)


async def _measure(count: int) -> dict[str, list[Stages]]:
    figures: dict[str, list[Stages]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        async with dralab_up(Path(folder), *_UP) as record, Client(record.server) as client:
            template = {
                "metadata": {"name": "gpu", "namespace": _NAMESPACE},
                "spec": {"spec": {"devices": {"requests": [_REQUEST]}}},
            }
            await client.create(RESOURCE_CLAIM_TEMPLATES, convert(RESOURCE_CLAIM_TEMPLATES, template))
            for number in range(_WARM_UP + count):
                for kind, more in _KINDS.items():
                    stages = await _start(client, f"{kind}-{number}", more)
                    if number >= _WARM_UP:
                        figures[kind].append(stages)
    return figures


_KINDS: dict[str, dict[str, Any]] = {
    "no device": {},
    "device plugin": {
        "resources": {"limits": {"example.com/gpu": "1"}},
        "nodeSelector": {"kubernetes.io/hostname": "node-0"},
    },
    "DRA": {
        "resources": {"claims": [{"name": "gpu"}]},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    },
}


async def _start(client: Client, title: str, more: dict[str, Any]) -> Stages:
    name = title.lower().replace(" ", "-")
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"]}
    spec = {key: value for key, value in more.items() if key != "resources"}
    pod = {
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {
            "containers": [{**container, "resources": more.get("resources", {})}],
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }
    stages: Stages = {}
    began = time.perf_counter()

    def record_stage(stage: str) -> None:
        stages.setdefault(stage, (time.perf_counter() - began) * 1000)

    claims = asyncio.create_task(
        _follow_claims(client, await _revision(client, RESOURCE_CLAIMS), name, record_stage)
    )
    events = client.watch(
        PODS,
        _NAMESPACE,
        resource_version=await _revision(client, PODS),
        field_selector=f"metadata.name={name}",
        timeout_seconds=60,
    )
    began = time.perf_counter()
    creating = asyncio.create_task(client.create(PODS, convert(PODS, pod)))
    running = False
    async for event in events:
        if event.type.value == "DELETED":
            break
        if not running:
            record_stage(_stage_of(event.object))
            running = event.object.status.phase == "Running"
            if running:
                await creating
                await client.delete(PODS, name, _NAMESPACE, grace_period=0)
    await events.aclose()  # type: ignore[attr-defined]  # it is a generator
    claims.cancel()
    await asyncio.gather(claims, return_exceptions=True)
    return stages


async def _revision(client: Client, resource: Resource[Any]) -> str:
    return (await client.list(resource, _NAMESPACE)).resource_version


async def _follow_claims(client: Client, revision: str, pod: str, seen: Callable[[str], None]) -> None:
    events = client.watch(RESOURCE_CLAIMS, _NAMESPACE, resource_version=revision, timeout_seconds=60)
    async for event in events:
        if any(owner.name == pod for owner in event.object.metadata.owner_references):
            seen(_stage_of_claim(event.object))


def _stage_of(pod: Pod) -> str:
    status = pod.status
    if status.phase == "Running":
        return "Running"
    if any(container.state.waiting is not None for container in status.container_statuses):
        return "the kubelet has it"
    if pod.spec.node_name:
        return "bound"
    if status.nominated_node_name:
        return "node announced"
    return "claim named" if status.resource_claim_statuses else "created"


def _stage_of_claim(claim: ResourceClaim) -> str:
    if claim.status.allocation is not None:
        return "claim allocated"
    return "claim has the finalizer" if claim.metadata.finalizers else "claim created"


if __name__ == "__main__":
    main()

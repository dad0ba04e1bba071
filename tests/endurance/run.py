"""Kill the node agent and a device plugin at random, with SIGKILL, while pods start and end, and check the results."""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_kube.cluster import Cluster
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client

from tests.endurance.plugin import RESOURCE
from tests.integration.lab import Lab, dralab, lab
from tests.support.waiting import until

_UP = (
    *("up", "--detach", "--port", "0", "--relaxed", "--nodes", "3", "--gpus", "4xA100-SXM4-40GB"),
    *("--driver", "nvidia-device-plugin@0", "--driver", "gpu.nvidia.com@1", "--driver", "gpu.example.com@2"),
    *("--nvidia-gates", "NVMLDeviceHealthCheck=true"),
)
_NAMESPACE = "default"
_MOST_PODS = 8
# Seconds after a kill until health is known again, and until a node has its devices again.
_SETTLED = 25.0
_LAST_WAIT = 120.0

_SYSTEMS: dict[str, dict[str, Any]] = {
    "plugin": {"limits": {"nvidia.com/gpu": "1"}},
    "widget": {"limits": {RESOURCE: "1"}},
    "nvidia": {"class": "gpu.nvidia.com"},
    "profile": {"class": "gpu.example.com"},
}
_NODES = {"plugin": "node-0", "widget": "node-0", "nvidia": "node-1", "profile": "node-2"}


@dataclass
class Endurance:
    """One run. ``broken`` lists violations, and is empty at the end of a good run."""

    data: Path
    house: Lab
    rng: random.Random
    until: float
    killed: float = 0.0
    failed: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    held: dict[str, frozenset[str]] = field(default_factory=dict)
    plugin: asyncio.subprocess.Process | None = None

    @property
    def client(self) -> Client:
        return self.house.client

    @property
    def _over(self) -> bool:
        return time.monotonic() > self.until

    async def run(self) -> None:
        """Run all tasks concurrently, then the final checks."""
        await self._start_plugin()
        for name in ("gpu.nvidia.com", "gpu.example.com"):
            request = {"name": "one", "exactly": {"deviceClassName": name}}
            template = {
                "metadata": {"name": name, "namespace": _NAMESPACE},
                "spec": {"spec": _devices(request)},
            }
            await self.client.create(RESOURCE_CLAIM_TEMPLATES, convert(RESOURCE_CLAIM_TEMPLATES, template))
        for system in ("plugin", "nvidia", "profile"):
            await self._create(f"stays-{system}", system)
        await self.house.wait_for_running(_NAMESPACE, "stays-plugin", "stays-nvidia", "stays-profile")
        await asyncio.gather(self._kill(), self._churn(), self._watch(), self._fault())
        await self._settle()

    async def _repeat(self, least: float, most: float, step: Callable[[], Awaitable[None]]) -> None:
        while not self._over:
            await asyncio.sleep(self.rng.uniform(least, most))
            try:
                await step()
            except (ApiError, OSError) as problem:
                self.broken.append(f"{step.__name__}: {problem!r}")

    async def _kill(self) -> None:
        await self._repeat(1, 45, self._kill_one)

    async def _kill_one(self) -> None:
        self.killed = time.monotonic()
        if self.rng.random() < 0.5 and self.plugin is not None:
            self.plugin.send_signal(signal.SIGKILL)
            await self.plugin.wait()
            self.counts["plugin killed"] += 1
            await asyncio.sleep(self.rng.uniform(0, 4))
            await self._start_plugin()
        else:
            os.kill(Cluster(self.data).record().services["node-agent"].pid, signal.SIGKILL)
            self.counts["node agent killed"] += 1
        self.killed = time.monotonic()

    async def _start_plugin(self) -> None:
        folder = self.data / "nodes" / "node-0" / "kubelet" / "device-plugins"
        self.plugin = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.endurance.plugin", str(folder)
        )

    async def _churn(self) -> None:
        await self._repeat(0.1, 1.5, self._churn_one)

    async def _churn_one(self) -> None:
        names = sorted(name for name in await self.house.pods(_NAMESPACE) if not name.startswith("stays"))
        if len(names) < _MOST_PODS and self.rng.random() < 0.6:
            system = self.rng.choice([*_SYSTEMS])
            await self._create(f"{system}-{self.counts['pods created']}", system)
            self.counts["pods created"] += 1
        elif names:
            try:
                await self.client.delete(PODS, self.rng.choice(names), _NAMESPACE)
            except NotFound:
                return

    async def _create(self, name: str, system: str) -> None:
        wants = _SYSTEMS[system]
        container: dict[str, Any] = {"name": "main", "image": "any", "command": ["sleep", "infinity"]}
        spec: dict[str, Any] = {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": _NODES[system]},
        }
        if "class" in wants:
            container["resources"] = {"claims": [{"name": "one"}]}
            spec["resourceClaims"] = [{"name": "one", "resourceClaimTemplateName": wants["class"]}]
        else:
            container["resources"] = {"limits": wants["limits"]}
        pod = {"metadata": {"name": name, "namespace": _NAMESPACE}, "spec": spec}
        await self.client.create(PODS, convert(PODS, pod))

    async def _fault(self) -> None:
        """Half-way, break the GPU of the pod with the NVIDIA driver."""
        await asyncio.sleep((self.until - time.monotonic()) / 2)
        pod = (await self.house.pods(_NAMESPACE))["stays-nvidia"]
        (device,) = await self._claimed_devices(pod)
        number = int(device.rpartition("-")[2])
        while not self.failed:
            async with Client(Cluster(self.data).record().services["node-agent"].url) as agent:
                try:
                    path = f"/simulated/nodes/node-1/gpus/{number}/faults"
                    response = await agent.raw("POST", path, content=b'{"xid": 79}')
                    self.failed = response.status_code < 300
                except (ApiError, OSError):
                    # The process was just killed.
                    pass
            await asyncio.sleep(0.5)
        self.killed = time.monotonic()
        self.counts["XIDs"] += 1

    async def _claimed_devices(self, pod: Pod) -> list[str]:
        claim = await self.house.claim_of(pod, "one")
        assert claim.status.allocation is not None
        return [result.device for result in claim.status.allocation.devices.results]

    async def _watch(self) -> None:
        await self._repeat(0.5, 1.0, self._look)

    async def _look(self) -> None:
        self.counts["looks"] += 1
        pods = await self.house.pods(_NAMESPACE)
        holders: dict[str, str] = {}
        for pod in pods.values():
            if pod.status.phase in ("Succeeded", "Failed"):
                self.counts[f"refused: {pod.status.reason}"] += pod.metadata.uid not in self.held
                self.held.setdefault(pod.metadata.uid, frozenset())
                continue
            ids = _plugin_devices(pod)
            if ids and self.held.setdefault(pod.metadata.uid, ids) != ids:
                self.broken.append(
                    f"{pod.metadata.name}: {sorted(self.held[pod.metadata.uid])} became {sorted(ids)}"
                )
            for one in ids:
                if one in holders:
                    self.broken.append(f"{one}: {holders[one]} and {pod.metadata.name}")
                holders[one] = pod.metadata.name
        await self._look_at_claims()
        if time.monotonic() - self.killed > _SETTLED:
            self._look_at_health(pods)

    async def _look_at_claims(self) -> None:
        holders: dict[tuple[str, str], str] = {}
        for claim in (await self.client.list(RESOURCE_CLAIMS, _NAMESPACE)).items:
            if claim.status.allocation is None:
                continue
            for result in claim.status.allocation.devices.results:
                place = result.pool, result.device
                if place in holders:
                    self.broken.append(f"{place}: {holders[place]} and {claim.metadata.name}")
                holders[place] = claim.metadata.name

    def _look_at_health(self, pods: dict[str, Pod]) -> None:
        for name in ("stays-plugin", "stays-nvidia", "stays-profile"):
            if name not in pods:
                self.broken.append(f"{name} is gone")
                continue
            wanted = "Unhealthy" if name == "stays-nvidia" and self.failed else "Healthy"
            healths = _healths(pods[name])
            self.counts[f"{name} {','.join(healths) or 'no health'}"] += 1
            if healths != [wanted]:
                self.broken.append(f"{name}: {healths}, not {wanted}")

    async def _settle(self) -> None:
        async def is_settled() -> bool:
            pods = await self.house.pods(_NAMESPACE)
            waiting = [
                p for p in pods.values() if p.metadata.deletion_timestamp or p.status.phase == "Pending"
            ]
            # More pods request a device than there are devices. These pods wait.
            return all(not pod.spec.node_name and not pod.metadata.deletion_timestamp for pod in waiting)

        await self._within("pods settle", is_settled)
        for name in await self.house.pods(_NAMESPACE):
            await self.client.delete(PODS, name, _NAMESPACE)

        async def clean() -> bool:
            return not await self.house.leftovers()

        await self._within("nothing is left", clean)
        self.broken += await self.house.leftovers()
        assert self.plugin is not None
        self.plugin.kill()
        await self.plugin.wait()

    async def _within(self, what: str, check: Callable[[], Awaitable[bool]]) -> None:
        try:
            await until(check, _LAST_WAIT, every=0.5)
        except TimeoutError:
            self.broken.append(f"not within {_LAST_WAIT:.0f} s: {what}")


def _devices(request: dict[str, Any]) -> dict[str, Any]:
    return {"devices": {"requests": [request]}}


def _plugin_devices(pod: Pod) -> frozenset[str]:
    return frozenset(
        f"{pod.spec.node_name} {status.name} {health.resource_id}"
        for container in pod.status.container_statuses
        for status in container.allocated_resources_status
        if not status.name.startswith("claim:")
        for health in status.resources
    )


def _healths(pod: Pod) -> list[str]:
    return sorted(
        health.health
        for container in pod.status.container_statuses
        for status in container.allocated_resources_status
        for health in status.resources
    )


async def _main(minutes: float, seed: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="e", dir="/tmp") as name:
        data = Path(name)
        dralab(data, *_UP)
        try:
            async with lab(data) as house:
                run = Endurance(data, house, random.Random(seed), time.monotonic() + minutes * 60)
                await run.run()
        finally:
            dralab(data, "down")
    for what, number in sorted(run.counts.items()):
        sys.stdout.write(f"{what}: {number}\n")
    return run.broken


def main() -> int:
    """Run the command line. Return the exit code."""
    parser = argparse.ArgumentParser(prog="endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    broken = asyncio.run(_main(options.minutes, options.seed))
    for text, number in Counter(broken).items():
        sys.stdout.write(f"BROKEN ({number} times): {text}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

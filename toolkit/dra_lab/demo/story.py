"""The demo's story: six phases that start everything, and one that deletes it. Each is reported as it happens.

Every phase watches the cluster until each pod has reached the phase's state. If that takes too long, the
phase fails with the reason that the cluster reports.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
from dra_kube import manifests, objects
from dra_kube.cluster import Cluster
from dra_kube.discovery import Discovery
from dra_shared.api.pod import Pod
from dra_shared.client.errors import ApiError, from_response
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.plurals import count

from dra_lab import checkout
from dra_lab.clusteroptions import ClusterOptions
from dra_lab.demo import node_files
from dra_lab.demo.snapshot import Snapshot, warnings
from dra_lab.demo.stage import Pause, stopped_by_signals, temporary
from dra_lab.forkserver import ForkServer
from dra_lab.services import Reporter
from dra_lab.starting import run_services

# The timeout of a phase, in seconds.
_PHASE_TIMEOUT = float(os.environ.get("DRALAB_DEMO_PHASE_TIMEOUT", "60"))
_POLL = 0.03
_PODS_OF = {"Deployment", "ReplicaSet", "StatefulSet", "Job"}

# A phase reads the cluster, prints what has changed, and returns what it still waits for; an empty list ends it.
Look = Callable[[Snapshot], list[str]]


async def tell(
    data: Path | None, filenames: list[str] | None, port: int, step: bool, forks: Sequence[ForkServer]
) -> None:
    """Run the demo in ``data``, or in a temporary folder. ``forks`` start its services.

    Raises:
        UserError: a phase failed; the message says which one and why. The folder is kept.
    """
    loaded = manifests.load(filenames or [str(checkout.folder("examples", "quickstart"))])
    pause = Pause(step)
    with stopped_by_signals(), nullcontext(data) if data else temporary() as folder:
        await _tell(Cluster(folder), loaded, port, pause, forks)


async def _tell(
    cluster: Cluster,
    loaded: Sequence[dict[str, Any]],
    port: int,
    pause: Pause,
    forks: Sequence[ForkServer],
) -> None:
    began = time.monotonic()
    report = Reporter()
    report(f"Starting a control plane and 2 nodes of 8 simulated A100 GPUs in {cluster.data}")
    async with run_services(cluster, ClusterOptions(port=port), report, forks) as server:
        report(f"Ready in {time.monotonic() - began:.1f} s at {server}")
        async with cluster.client("dralab-demo") as client:
            await _Story(client, cluster, loaded, report, pause).run()
    report("\nEvery process is stopped. docs/architecture.md describes these steps and the code behind them.")


class _Story:
    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        loaded: Sequence[dict[str, Any]],
        report: Reporter,
        pause: Pause,
    ) -> None:
        self._pause = pause
        self._client = client
        self._cluster = cluster
        self._objects = loaded
        self._report = report
        self._told: set[str] = set()
        self._targets: list[objects.Target] = []
        self._expected = sum(_pod_count(obj) for obj in loaded)
        self._namespaces = sorted(
            {_namespace(obj) for obj in loaded}
            | {o["metadata"]["name"] for o in loaded if o["kind"] == "Namespace"}
        )

    async def run(self) -> None:
        await self._phase(1, "Devices: each node's driver publishes its ResourceSlices", self._slices)
        await self._look_around()
        discovery = await Discovery.read(self._client)
        for where, outcome in await objects.apply(self._client, discovery, self._objects, None):
            self._targets.append(where)
            self._tell(f"{where} {outcome}", where.namespace or "")
        await self._phase(2, "Class: what the requests ask for", self._classes)
        await self._look_around()
        await self._phase(3, "Claims: made from templates, or shared", self._check_claims)
        await self._look_around()
        await self._phase(4, "Scheduler: devices allocated, pods bound", self._check_bound)
        await self._look_around()
        await self._phase(5, "Kubelet and driver: claims prepared, CDI files written", self._check_prepared)
        await self._look_around()
        await self._phase(6, "Containers: running, with exactly their devices", self._check_running)
        snapshot = await Snapshot.take(self._client, self._namespaces)
        await self._show_logs(snapshot)
        await self._look_around()
        await self._clean_up()

    async def _phase(self, number: int, title: str, look: Look) -> None:
        self._report(f"\n{number}. {title}")
        deadline = time.monotonic() + _PHASE_TIMEOUT
        while True:
            try:
                missing = look(await Snapshot.take(self._client, self._namespaces))
            except (ApiError, httpx.HTTPError) as error:
                missing = [f"the API server: {error}"]
            if not missing:
                return
            if time.monotonic() > deadline:
                reasons = await warnings(self._client, self._namespaces)
                because = f" ({reasons[-1]})" if reasons else ""
                raise UserError(
                    f"phase {number} stopped: after {_PHASE_TIMEOUT:.0f} s still waiting for "
                    f"{'; '.join(missing[:5])}{because}; logs are in {self._cluster.logs}"
                )
            await asyncio.sleep(_POLL)

    async def _look_around(self) -> None:
        await self._pause(f"look around with `dralab get pods -A --data {self._cluster.data}`")

    def _tell(self, what: str, detail: str = "") -> None:
        """Print a line unless it was printed before."""
        line = f"   {what:60} {detail}".rstrip()
        if line not in self._told:
            self._told.add(line)
            self._report(line)

    def _slices(self, now: Snapshot) -> list[str]:
        missing = []
        for node in now.nodes:
            name = node.metadata.name
            pool = [item for item in now.slices if item.spec.node_name == name]
            complete = pool and len(pool) >= pool[0].spec.pool.resource_slice_count
            if not complete:
                missing.append(f"the ResourceSlices of {name}")
                continue
            devices = [device for item in pool for device in item.spec.devices]
            kinds: dict[str, int] = {}
            for device in devices:
                kind = device.attributes["type"].string if "type" in device.attributes else None
                kinds[kind or "device"] = kinds.get(kind or "device", 0) + 1
            listed = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
            self._tell(f"{name}: {pool[0].spec.driver}", f"{listed} in {count(len(pool), 'slice')}")
        return missing or ([] if now.nodes else ["nodes"])

    def _classes(self, now: Snapshot) -> list[str]:
        wanted = set(_class_names(self._objects))
        for name in sorted(wanted & now.classes.keys()):
            selectors = now.classes[name].spec.selectors
            self._tell(name, "; ".join(s.cel.expression for s in selectors if s.cel))
        return [f"DeviceClass {name}" for name in sorted(wanted - now.classes.keys())]

    def _check_claims(self, now: Snapshot) -> list[str]:
        missing = self._missing_pods(now)
        for pod in now.pods:
            for name, claim in now.claims_of(pod).items():
                if claim is None:
                    missing.append(f"claim {name!r} of pod {pod.key}")
                else:
                    self._tell(f"{claim.key}", f"for pod {pod.metadata.name}")
        return missing

    def _check_bound(self, now: Snapshot) -> list[str]:
        missing = self._missing_pods(now)
        for pod in now.pods:
            if not pod.spec.node_name:
                missing.append(f"pod {pod.key} to be scheduled{_pending_reason(pod)}")
                continue
            for claim in now.claims_of(pod).values():
                if claim is None or claim.status.allocation is None:
                    missing.append(f"the claims of pod {pod.key} to be allocated")
                    continue
                devices = ", ".join(result.device for result in claim.status.allocation.devices.results)
                self._tell(f"{pod.key} -> {pod.spec.node_name}", devices)
        return missing

    def _check_prepared(self, now: Snapshot) -> list[str]:
        missing = []
        for pod in now.pods:
            for claim in now.claims_of(pod).values():
                if claim is None:
                    continue
                path = node_files.cdi_file(self._cluster.data, pod.spec.node_name, claim.metadata.uid)
                if path is None:
                    missing.append(f"claim {claim.key} to be prepared on {pod.spec.node_name}")
                else:
                    self._tell(claim.key, str(path.relative_to(self._cluster.data)))
        return missing

    def _check_running(self, now: Snapshot) -> list[str]:
        missing = self._missing_pods(now)
        for pod in now.pods:
            if pod.status.phase not in ("Running", "Succeeded"):
                missing.append(f"pod {pod.key} to run ({pod.status.phase}{_waiting_reason(pod)})")
        return missing

    def _missing_pods(self, now: Snapshot) -> list[str]:
        return (
            [f"{count(self._expected, 'pod')} ({len(now.pods)} so far)"]
            if len(now.pods) < self._expected
            else []
        )

    async def _show_logs(self, now: Snapshot) -> None:
        for pod in now.pods:
            for container in pod.spec.containers:
                log = await self._log(pod, container.name)
                self._report(f"   {pod.key} [{container.name}] on {pod.spec.node_name}")
                for line in log.splitlines():
                    self._report(f"      {line}")
                listed = [line for line in log.splitlines() if "(UUID: " in line]
                if "nvidia-smi" in " ".join((*container.command, *container.args)):
                    self._check(now, pod, container.name, listed)

    def _check(self, now: Snapshot, pod: Pod, container_name: str, listed: list[str]) -> None:
        """Compare the output of ``nvidia-smi -L`` with the allocation: it must list exactly the container's
        devices.
        """
        container = next(c for c in pod.spec.containers if c.name == container_name)
        devices = now.devices_of(pod, container)
        gpus, parents, migs = set(), set(), []
        for device in devices:
            if now.attribute(device, "type") == "mig":
                parents.add(now.attribute(device, "parentUUID"))
                migs.append(now.attribute(device, "profile"))
            else:
                gpus.add(now.attribute(device, "uuid"))
        seen_gpus = {_uuid(line) for line in listed if line.startswith("GPU ")}
        seen_migs = [line.split()[1] for line in listed if line.lstrip().startswith("MIG ")]
        if seen_gpus != gpus | parents or sorted(seen_migs) != sorted(str(profile) for profile in migs):
            allocated = ", ".join(device.device for device in devices)
            raise UserError(
                f"phase 6 stopped: container {container_name} of pod {pod.key} was allocated {allocated} but sees "
                f"{'; '.join(line.strip() for line in listed) or 'no GPU'}"
            )

    async def _log(self, pod: Pod, container: str) -> str:
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/log"
        deadline = time.monotonic() + 5.0
        while True:
            response = await self._client.raw("GET", path, params={"container": container})
            if response.status_code != 200:
                raise from_response(response.status_code, response.content)
            if response.text or time.monotonic() > deadline:
                return response.text
            await asyncio.sleep(_POLL)

    async def _clean_up(self) -> None:
        self._report("\nCleaning up: deleting pods, claims, devices, CDI files and checkpoints")
        await objects.delete(self._client, list(reversed(self._targets)), missing_ok=True)
        deadline = time.monotonic() + _PHASE_TIMEOUT
        while True:
            now = await Snapshot.take(self._client, self._namespaces)
            left = [f"pod {pod.key}" for pod in now.pods] + [f"claim {key}" for key in now.claims]
            left += node_files.leftovers(self._cluster.data)
            if not left:
                break
            if time.monotonic() > deadline:
                raise UserError(f"clean-up stopped: still there: {'; '.join(left[:5])}")
            await asyncio.sleep(_POLL)
        self._tell("no pods, no claims, no device in use")
        self._tell("no CDI file of a claim, no claim in a checkpoint")


def _pod_count(obj: dict[str, Any]) -> int:
    if obj["kind"] == "Pod":
        return 1
    if obj["kind"] in _PODS_OF:
        spec = obj.get("spec") or {}
        count: int = spec.get("parallelism" if obj["kind"] == "Job" else "replicas", 1)
        return count
    return 0


def _namespace(obj: dict[str, Any]) -> str:
    namespace: str = obj["metadata"].get("namespace", "default")
    return namespace


def _class_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "deviceClassName" and isinstance(member, str):
                yield member
            else:
                yield from _class_names(member)
    elif isinstance(value, list):
        for member in value:
            yield from _class_names(member)


def _pending_reason(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return f" ({condition.reason}: {condition.message})"
    return ""


def _waiting_reason(pod: Pod) -> str:
    for status in pod.status.container_statuses:
        if status.state and status.state.waiting:
            return f", {status.state.waiting.reason} {status.state.waiting.message}".rstrip()
    return ""


def _uuid(line: str) -> str:
    return line.rsplit("(UUID: ", 1)[1].rstrip(") \n")

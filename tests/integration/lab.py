"""A running ``dralab up`` with a client, and helpers for tests of manifests."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from dra_kube import manifests, objects
from dra_kube.cluster import Cluster
from dra_kube.discovery import Discovery
from dra_shared.api.meta import Condition
from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim
from dra_shared.api.resources import DEVICE_TAINT_RULES, NAMESPACES, PODS, RESOURCE_CLAIMS
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client
from dra_shared.podgroups import pod_groups, scheduled_condition
from dra_shared.version import DEFAULT, Version

from tests.support.reference import REPOSITORY
from tests.support.waiting import until

T = TypeVar("T")

# The last folder has the parts of NVIDIA's driver for compute domains.
_BUILT_IN = ("default", "kube-node-lease", "kube-public", "kube-system", "dra-driver-nvidia-gpu")
_UID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_EXPORTED = re.compile(r'^declare -x ([A-Za-z0-9_]+)="(.*)"$', re.MULTILINE)


@dataclass(frozen=True)
class Setup:
    """Options of a cluster."""

    name: str
    drivers: tuple[str, ...]
    nodes: int = 1
    gates: str = ""
    version: str = ""
    gpus: str = ""
    options: tuple[str, ...] = ()

    def start(self, data: Path) -> None:
        """Run ``dralab up --detach`` in ``data``."""
        arguments = ["up", "--detach", "--port", "0", "--nodes", str(self.nodes), "--relaxed"]
        for driver in self.drivers:
            arguments += ["--driver", driver]
        if self.gpus:
            arguments += ["--gpus", self.gpus]
        if self.gates:
            arguments += ["--feature-gates", self.gates]
        if self.version:
            arguments += ["--kubernetes-version", self.version]
        dralab(data, *arguments, *self.options)

    @staticmethod
    def stop(data: Path) -> None:
        """Stop the cluster."""
        dralab(data, "down")


PARTITIONED = Setup("partitioned", ("gpu.example.com:partitioned",))
SHARED = Setup("shared", ("gpu.example.com:shared",))


def on(setup: Setup) -> pytest.MarkDecorator:
    """Run the test on a cluster with that setup. Tests with the same setup share the cluster."""
    return pytest.mark.parametrize("cluster", [setup], indirect=True, ids=[setup.name])


def dralab(data: Path, *arguments: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "dra_cli.main", *arguments, "--data", str(data)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@asynccontextmanager
async def lab(data: Path) -> AsyncIterator["Lab"]:
    """Connect to the cluster that runs in ``data``."""
    async with Cluster(data).client("dralab") as client:
        yield Lab(data, client, await Discovery.read(client))


class Lab:
    """Applies manifests as the command line does, and waits for the result."""

    def __init__(self, data: Path, client: Client, discovery: Discovery) -> None:
        self.client = client
        self._data = data
        self._discovery = discovery

    async def apply(self, *paths: Path) -> None:
        """Run ``dralab apply -f PATH…``."""
        await objects.apply(self.client, self._discovery, manifests.load([str(path) for path in paths]), None)

    async def delete(self, *paths: Path, missing_ok: bool = False, seconds: float = 60) -> None:
        """Run ``dralab delete -f PATH…``, which returns when the objects are gone."""
        loaded = manifests.load([str(path) for path in paths])
        targets = [objects.target(self._discovery, obj, None) for obj in reversed(loaded)]
        await objects.delete(self.client, targets, missing_ok=missing_ok, timeout=seconds)

    async def clear(self) -> None:
        """Delete everything that a failed test left."""
        for rule in (await self.client.list(DEVICE_TAINT_RULES)).items:
            await self.client.delete(DEVICE_TAINT_RULES, rule.metadata.name)
        for namespace in (await self.client.list(NAMESPACES)).items:
            if namespace.metadata.name not in _BUILT_IN:
                await self.client.delete(NAMESPACES, namespace.metadata.name)

    async def pods(self, namespace: str) -> dict[str, Pod]:
        """Return the pods of the namespace by name."""
        return {pod.metadata.name: pod for pod in (await self.client.list(PODS, namespace)).items}

    async def wait_for_running(self, namespace: str, *names: str) -> list[Pod]:
        """Wait until these pods run and are ready. Return them."""

        async def all_run() -> list[Pod] | None:
            pods = await self.pods(namespace)
            found = [pods[name] for name in names if name in pods]
            return found if len(found) == len(names) and all(map(_is_ready, found)) else None

        return await self.until(all_run, lambda: self._describe(namespace))

    async def unschedulable(self, namespace: str, name: str) -> str:
        """Wait until the scheduler rejects the pod. Return the reason."""

        async def rejection() -> str | None:
            pod = (await self.pods(namespace)).get(name)
            for condition in pod.status.conditions if pod else ():
                if condition.type == "PodScheduled" and condition.status == "False":
                    return condition.message
            return None

        return await self.until(rejection, lambda: self._describe(namespace))

    async def wait_until_gone(self, namespace: str, name: str) -> None:
        """Wait until the pod is gone."""

        async def absent() -> bool:
            return name not in await self.pods(namespace)

        await self.until(absent, lambda: self._describe(namespace))

    async def read_exports(self, namespace: str, pod: str, container: str = "ctr0") -> dict[str, str]:
        """Return the variables that the container's ``export`` printed."""

        return dict(_EXPORTED.findall(await self.log(namespace, pod, container)))

    async def log(
        self, namespace: str, pod: str, container: str, whole: Callable[[str], object] = bool
    ) -> str:
        """Return the container's log once ``whole`` is true for it, by default once it is not empty."""

        async def read_log() -> str | None:
            response = await self.client.raw(
                "GET",
                f"/api/v1/namespaces/{namespace}/pods/{pod}/log",
                params={"container": container},
            )
            return response.text if response.status_code == 200 and whole(response.text) else None

        return await self.until(read_log, lambda: self._describe(namespace))

    async def claims(self, namespace: str) -> list[ResourceClaim]:
        """Return the claims of the namespace."""
        return list((await self.client.list(RESOURCE_CLAIMS, namespace)).items)

    async def claim_of(self, pod: Pod, name: str) -> ResourceClaim:
        """Return the claim that the pod calls ``name``."""
        claim = next(entry for entry in pod.spec.resource_claims if entry.name == name).resource_claim_name
        if not claim:
            statuses = pod.status.resource_claim_statuses
            claim = next(entry for entry in statuses if entry.name == name).resource_claim_name
        assert claim
        return await self.client.get(RESOURCE_CLAIMS, claim, pod.metadata.namespace)

    async def nothing_left(self, *namespaces: str) -> None:
        """Wait until neither the API server nor any node has pods or claims of these namespaces."""

        async def clean() -> bool:
            for name in namespaces:
                try:
                    await self.client.get(NAMESPACES, name)
                except NotFound:
                    continue
                return False
            return not await self.leftovers()

        async def describe() -> str:
            return f"left: {await self.leftovers()}"

        await self.until(clean, describe)

    async def leftovers(self) -> list[str]:
        """Return pods, claims, prepared claims and CDI files that are left."""
        found = [f"pod {pod.metadata.name}" for pod in (await self.client.list(PODS)).items]
        found += [f"claim {claim.metadata.name}" for claim in (await self.client.list(RESOURCE_CLAIMS)).items]
        for node in sorted((self._data / "nodes").iterdir()):
            found += [str(file) for file in (node / "cdi").iterdir() if _UID.search(file.name)]
            found += [f"{node.name}: claim {claim}" for claim in _prepared_claims(node / "kubelet")]
        return found

    async def wait_for_pods(self, namespace: str, count: int) -> list[str]:
        """Wait until the namespace has that many pods that are not being deleted. Return their names."""

        async def enough() -> list[str] | None:
            pods = await self.pods(namespace)
            names = sorted(name for name, pod in pods.items() if not pod.metadata.deletion_timestamp)
            return names if len(names) == count else None

        async def describe() -> str:
            return f"pods: {sorted(await self.pods(namespace))}"

        return await self.until(enough, describe)

    async def eviction(self, rule: str, status: str, reason: str) -> None:
        """Wait until the taint rule's status reports this. The controller updates it from time to time."""

        async def conditions() -> Sequence[Condition]:
            return (await self.client.get(DEVICE_TAINT_RULES, rule)).status.conditions

        await self._condition(conditions, "EvictionInProgress", (status, reason))

    async def wait_for_group(
        self, namespace: str, group: str, status: str, reason: str, kubernetes: Version = DEFAULT
    ) -> None:
        """Wait for this condition of the pod group. The scheduler writes it after the pods were bound."""

        async def conditions() -> Sequence[Condition]:
            return (await self.client.get(pod_groups(kubernetes), group, namespace)).status.conditions

        await self._condition(conditions, scheduled_condition(kubernetes), (status, reason))

    async def _condition(
        self, read: Callable[[], Awaitable[Sequence[Condition]]], type_: str, wanted: tuple[str, str]
    ) -> None:
        async def read_condition() -> list[tuple[str, str]]:
            return [(one.status, one.reason) for one in await read() if one.type == type_]

        async def is_reached() -> bool:
            return await read_condition() == [wanted]

        async def describe() -> str:
            return f"{type_} is {await read_condition()}, not {wanted}"

        await self.until(is_reached, describe)

    async def until(
        self,
        check: Callable[[], Awaitable[T | None]],
        describe: Callable[[], Awaitable[str]],
        seconds: float = 60.0,
    ) -> T:
        """Return the first true result of ``check``, or fail with the text of ``describe``."""
        return await until(check, seconds, every=0.03, describe=describe)

    async def _describe(self, namespace: str) -> str:
        return "; ".join(
            f"{name} {pod.status.phase} {[c.message for c in pod.status.conditions if c.message]}"
            for name, pod in (await self.pods(namespace)).items()
        )


def results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    """Return the devices that are allocated to the claim."""
    assert claim.status is not None
    assert claim.status.allocation is not None
    return claim.status.allocation.devices.results


def _is_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def _prepared_claims(kubelet: Path) -> list[Any]:
    """Return the claims in the checkpoints of a node's kubelet and drivers."""
    state: dict[str, Any] = msgspec.json.decode(
        msgspec.json.decode((kubelet / "dra_manager_state").read_bytes())["Data"]
    )
    found = [entry["ClaimName"] for entry in state["ClaimInfoStateList"] or ()]
    for path in kubelet.glob("plugins/*/checkpoint.json"):
        checkpoint = msgspec.json.decode(path.read_bytes())
        # The NVIDIA driver's checkpoint holds one document for each version of its format.
        for document in (checkpoint, checkpoint.get("v1"), checkpoint.get("v2")):
            found += list((document or {}).get("preparedClaims") or ())
    return found

"""Every service has its own identity, with no more rights than upstream's roles."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from dra_kube.cluster import Cluster
from dra_lab.faults.striking import Striker
from dra_scheduler.plan.objects import RESOURCES as PLANNED
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, SERVICE_ACCOUNTS
from dra_shared.client.errors import Forbidden, Invalid
from dra_shared.client.kubeconfig import Access, load, users

from tests.integration.lab import dralab, lab
from tests.support.reference import REPOSITORY

pytestmark = pytest.mark.slow

_WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: busybox, command: [sleep, "999"]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: busybox, command: [sleep, "999"]}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: busybox, command: [sleep, "999"]}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: busybox, command: [echo, hi]}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
spec: {hard: {pods: "20"}}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("i")
    dralab(path, "up", "--detach", "--port", "0", "--nodes", "2", "--relaxed", "--tls")
    yield path
    dralab(path, "down")


def _refusals(data: Path) -> list[str]:
    lines = [line for log in (data / "logs").glob("*.log") for line in log.read_text().splitlines()]
    return [line for line in lines if "orbidden" in line or "nauthorized" in line]


async def test_workloads_run_with_the_rights_of_upstreams_roles(data: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "workloads.yaml"
    manifest.write_text(_WORKLOADS)
    async with lab(data) as house:
        # Nodes and drivers retry until their bindings exist.
        before = set(_refusals(data))
        await house.apply(manifest, REPOSITORY / "examples" / "quickstart" / "1-gpu-per-pod.yaml")
        await house.wait_for_running("gpu-per-pod", "alpha", "beta")

        async def done() -> bool:
            texts = {
                path: (await house.client.raw("GET", path)).content
                for path in (
                    "/apis/apps/v1/namespaces/default/deployments/web",
                    "/apis/apps/v1/namespaces/default/statefulsets/db",
                    "/apis/apps/v1/namespaces/default/daemonsets/agent",
                    "/apis/batch/v1/namespaces/default/jobs/once",
                    "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web",
                    "/api/v1/namespaces/default/resourcequotas/quota",
                )
            }
            web, db, agent, once, budget, quota = (orjson.loads(text)["status"] for text in texts.values())
            return bool(
                (web.get("availableReplicas"), db.get("readyReplicas"), agent.get("numberReady")) == (2, 1, 2)
                and once.get("succeeded") == 1
                and budget.get("disruptionsAllowed") == 1
                and quota.get("used", {}).get("pods") == "5"
            )

        async def describe() -> str:
            return "\n".join(sorted(set(_refusals(data)) - before)) or "not everything is done"

        await house.until(done, describe)
        await house.delete(manifest)
        assert set(_refusals(data)) - before == set()
        accounts = {
            one.metadata.name for one in (await house.client.list(SERVICE_ACCOUNTS, "kube-system")).items
        }
        assert {"deployment-controller", "node-controller", "resource-claim-controller"} <= accounts


async def test_services_have_the_identities_of_upstream_components(data: Path) -> None:
    known = {
        name: (access, groups)
        for file in ("scheduler", "controller", "node-agent")
        for name, access in users(data / "auth" / f"{file}.kubeconfig").items()
        for groups in [await _groups(access)]
    }
    assert {name: groups for name, (_, groups) in known.items()} == {
        "dralab:agent": ["system:authenticated"],
        "dralab:driver:node-0": ["dralab:drivers", "system:authenticated"],
        "dralab:driver:node-1": ["dralab:drivers", "system:authenticated"],
        "system:kube-scheduler": ["system:authenticated"],
        "system:kube-controller-manager": ["system:authenticated"],
        "system:node:node-0": ["system:nodes", "system:authenticated"],
        "system:node:node-1": ["system:nodes", "system:authenticated"],
    }
    async with known["system:kube-scheduler"][0].client("test") as scheduler:
        assert len((await scheduler.list(NODES)).items) == 2
        # Kinds that plans depend on and that upstream's scheduler may not list.
        for resource in PLANNED:
            assert (await scheduler.raw("GET", resource.path())).status_code in (200, 404)
        with pytest.raises(
            Forbidden, match='User "system:kube-scheduler" cannot delete resource "resourceslices"'
        ):
            await scheduler.delete(RESOURCE_SLICES, "any")


async def _groups(access: Access) -> list[str]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with access.client("test") as client:
        answer = await client.raw("POST", path, content=orjson.dumps(body))
    groups: list[str] = answer.json()["status"]["userInfo"]["groups"]
    return groups


async def test_services_respond_to_administrators_and_not_to_nodes(data: Path) -> None:
    agent = Cluster(data).record().services["node-agent"].url
    node = users(data / "auth" / "node-agent.kubeconfig")["system:node:node-0"]
    for access, expected in ((node, 403), (load(data / "kubeconfig"), 200)):
        async with replace(access, server=agent).client("test") as client:
            assert (await client.raw("GET", "/pods")).status_code == expected
            assert (await client.raw("GET", "/readyz")).status_code == 200
    async with lab(data) as house:
        listed = await house.client.raw("GET", "/api/v1/nodes/node-1/proxy/pods")
        assert listed.json()["kind"] == "PodList"
    dralab(data, "status")
    dralab(data, "free")


async def test_drivers_of_a_node_change_only_their_own_objects(data: Path) -> None:
    manifest = REPOSITORY / "examples" / "quickstart" / "1-gpu-per-pod.yaml"
    driver = users(data / "auth" / "node-agent.kubeconfig")["dralab:driver:node-0"]
    refused = "the drivers of node node-0 may not write the slices of node node-1"
    async with lab(data) as house, driver.client("test") as client:
        await house.apply(manifest)
        await house.wait_for_running("gpu-per-pod", "alpha", "beta")
        slices = (await client.list(RESOURCE_SLICES)).items
        ours, theirs = (
            next(one for one in slices if one.spec.node_name == node) for node in ("node-0", "node-1")
        )
        with pytest.raises(Invalid, match=refused):
            await client.delete(RESOURCE_SLICES, theirs.metadata.name)
        with pytest.raises(Invalid, match=refused):
            await client.update(RESOURCE_SLICES, theirs)
        metadata = msgspec.structs.replace(theirs.metadata, name="stolen", resource_version=None, uid=None)
        with pytest.raises(Invalid, match=refused):
            await client.create(RESOURCE_SLICES, msgspec.structs.replace(theirs, metadata=metadata))
        await client.update(RESOURCE_SLICES, ours)
        for claim in (await house.client.list(RESOURCE_CLAIMS, "gpu-per-pod")).items:
            assert claim.status is not None
            assert claim.status.allocation is not None
            answers = await client.raw(
                "PATCH",
                f"/apis/resource.k8s.io/v1/namespaces/gpu-per-pod/resourceclaims/{claim.metadata.name}/status",
                content=orjson.dumps({"status": {"devices": [_allocated_device(claim)]}}),
                content_type="application/merge-patch+json",
            )
            here = claim.status.allocation.devices.results[0].pool == "node-0"
            assert answers.status_code == (200 if here else 422), answers.text
        await house.delete(manifest)


@pytest.mark.parametrize(
    ("fault", "arguments"),
    [
        ("clock-ahead", {"node": "node-1", "seconds": 1}),
        ("stop", {"service": "scheduler", "seconds": 1}),
        ("two-schedulers", {"seconds": 1}),
    ],
)
async def test_faults_are_injected_into_nodes_and_processes(
    data: Path, fault: str, arguments: dict[str, Any]
) -> None:
    await Striker(Cluster(data)).strike(fault, arguments)
    await Striker(Cluster(data)).clear()
    async with lab(data) as house:
        begun = await house.client.raw("POST", "/faults", content=orjson.dumps({"fault": fault, **arguments}))
        assert begun.status_code == 201, begun.text
        await house.client.raw("DELETE", "/faults")


def _allocated_device(claim: ResourceClaim) -> dict[str, str]:
    assert claim.status is not None
    assert claim.status.allocation is not None
    result = claim.status.allocation.devices.results[0]
    return {"driver": result.driver, "pool": result.pool, "device": result.device}

"""Controllers reach the same end state whatever events they miss, and however many instances run."""

from typing import Any

import pytest

from tests.controller.cluster import CLAIM_SPEC, Cluster, controllers
from tests.controller.unreliable import UnreliableTransport
from tests.support.sampling import sample

_NAMES = (
    "deployment-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "garbage-collector-controller",
)
_POD = {
    "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}],
}
_DEPLOYMENT: dict[str, Any] = {
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": _POD},
    }
}


async def _start(cluster: Cluster) -> None:
    template: dict[str, Any] = {"spec": {"spec": CLAIM_SPEC}}
    await cluster.create("Deployment", "web", **_DEPLOYMENT)
    await cluster.create("ResourceClaimTemplate", "template", **template)


async def _is_settled(cluster: Cluster) -> bool:
    """True with four ready pods of one ReplicaSet, and one claim for each that its status names."""
    pods = await cluster.items("Pod")
    claims = await cluster.items("ResourceClaim")
    in_statuses = {
        (status.resource_claim_name, pod.metadata.uid)
        for pod in pods
        for status in pod.status.resource_claim_statuses
    }
    made = {(claim.metadata.name, claim.metadata.owner_references[0].uid) for claim in claims}
    (web,) = await cluster.items("Deployment")
    return (
        len(pods) == 4
        and all(pod.metadata.deletion_timestamp is None for pod in pods)
        and len(made) == 4
        and in_statuses == made
        and web.status.available_replicas == 4
        and len(await cluster.items("ReplicaSet")) == 1
    )


async def _empty(cluster: Cluster) -> bool:
    kinds = ("ReplicaSet", "Pod", "ResourceClaim")
    return not any([await cluster.items(kind) for kind in kinds])


@pytest.mark.parametrize("seed", sample(range(3), 1))
async def test_controllers_converge_on_a_bad_network(cluster: Cluster, seed: int) -> None:
    async with controllers(cluster, *_NAMES, transport=UnreliableTransport(seed), relist_seconds=1.0):
        await _start(cluster)
        await cluster.until(lambda: _is_settled(cluster), meanwhile=cluster.run_pods)
        await cluster.delete("Deployment", "web")
        await cluster.until(lambda: _empty(cluster), meanwhile=cluster.run_pods)


@pytest.mark.parametrize("seed", sample(range(2), 1))
async def test_job_completes_on_a_bad_network(cluster: Cluster, seed: int) -> None:
    """Each pod that succeeded is counted exactly once."""
    pod = {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}
    spec = {"completions": 6, "parallelism": 3, "template": {"spec": pod}}
    succeeded: set[str] = set()

    async def finish() -> None:
        for found in await cluster.items("Pod"):
            if found.status.phase in ("", "Pending") and found.metadata.deletion_timestamp is None:
                await cluster.set_status("Pod", found, phase="Succeeded")
                succeeded.add(found.metadata.uid)

    async def complete() -> bool:
        (job,) = await cluster.items("Job")
        return any(entry.type == "Complete" for entry in job.status.conditions)

    transport = UnreliableTransport(seed)
    async with controllers(cluster, "job-controller", transport=transport, relist_seconds=1.0):
        await cluster.create("Job", "work", spec=spec)
        await cluster.until(complete, meanwhile=finish)
    (job,) = await cluster.items("Job")
    # A surplus pod that is deleted may succeed at the same time. It counts, although it is gone.
    assert job.status.succeeded == 6 <= len(succeeded)
    assert not job.status.failed


async def test_controllers_converge_if_each_of_them_runs_twice(cluster: Cluster) -> None:
    async with controllers(cluster, *_NAMES), controllers(cluster, *_NAMES):
        await _start(cluster)
        await cluster.until(lambda: _is_settled(cluster), meanwhile=cluster.run_pods)
        await cluster.delete("Deployment", "web")
        await cluster.until(lambda: _empty(cluster), meanwhile=cluster.run_pods)


@pytest.mark.parametrize("writes", sample([1, 2, 3, 5, 8, 13], 1))
async def test_controllers_converge_if_they_crash_after_any_write(cluster: Cluster, writes: int) -> None:
    """Each controller crashes after some number of writes, and the next one starts from the stored state."""
    await _start(cluster)
    for _ in range(40):
        transport = _Mortal(writes)
        async with controllers(cluster, *_NAMES, transport=transport):
            done = False

            async def dead_or_settled(transport: "_Mortal" = transport) -> bool:
                nonlocal done
                done = await _is_settled(cluster)
                return done or transport.left <= 0

            await cluster.until(dead_or_settled, meanwhile=cluster.run_pods)
        if done:
            return
    pytest.fail("the controllers did not converge within forty restarts")


class _Mortal(UnreliableTransport):
    """Passes a number of writes on. Any further write, and all later requests of its client, get no response."""

    def __init__(self, writes: int) -> None:
        super().__init__(0)
        self.left = writes

    async def handle_async_request(self, request: Any) -> Any:
        if request.method != "GET":
            if self.left <= 0:
                raise ConnectionResetError("dead")
            self.left -= 1
        return await self._inner.handle_async_request(request)

"""The claim controller against a real API server."""

from typing import Any

from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.claims import FINALIZER, POD_CLAIM_ANNOTATION
from msgspec.structs import replace

from tests.controller.cluster import CLAIM_SPEC, Cluster, controllers

_NAME = "resourceclaim-controller"
_TEMPLATE: dict[str, Any] = {"spec": {"spec": CLAIM_SPEC, "metadata": {"labels": {"from": "template"}}}}
_ALLOCATION = {
    "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]}
}


def _pod_spec(**claim: str) -> dict[str, Any]:
    return {
        "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", **claim}],
    }


_FROM_TEMPLATE = _pod_spec(resourceClaimTemplateName="template")


async def _name_in_status(cluster: Cluster, pod: str) -> str | None:
    found = await cluster.get("Pod", pod)
    assert found is not None
    statuses = found.status.resource_claim_statuses
    return statuses[0].resource_claim_name if statuses else None


async def _has_claim(cluster: Cluster, pod: str) -> bool:
    return await _name_in_status(cluster, pod) is not None


async def _allocate(cluster: Cluster, name: str, pod: Any) -> None:
    claim = await cluster.client.get(RESOURCE_CLAIMS, name, "default")
    meta = replace(claim.metadata, finalizers=(FINALIZER,))
    await cluster.client.update(RESOURCE_CLAIMS, replace(claim, metadata=meta))
    consumer = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
    await cluster.set_status("ResourceClaim", claim, allocation=_ALLOCATION, reservedFor=[consumer])


async def test_a_claim_is_created_from_the_template(cluster: Cluster) -> None:
    await cluster.create("ResourceClaimTemplate", "template", **_TEMPLATE)
    pod = await cluster.create("Pod", "pod", spec=_FROM_TEMPLATE)
    async with controllers(cluster, _NAME):
        await cluster.until(lambda: _has_claim(cluster, "pod"))
    (claim,) = await cluster.items("ResourceClaim")
    assert claim.metadata.name == await _name_in_status(cluster, "pod")
    assert claim.metadata.name.startswith("pod-gpu-")
    assert claim.metadata.annotations == {POD_CLAIM_ANNOTATION: "gpu"}
    assert claim.metadata.labels == {"from": "template"}
    (owner,) = claim.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", pod.metadata.uid, True)
    live = (await cluster.client.raw("GET", PODS.path("default", "pod"))).json()
    managers = {entry["manager"] for entry in live["metadata"]["managedFields"]}
    assert "ResourceClaimController" in managers


async def test_a_claim_is_created_when_its_template_appears(cluster: Cluster) -> None:
    await cluster.create("Pod", "pod", spec=_FROM_TEMPLATE)
    async with controllers(cluster, _NAME):
        await cluster.create("ResourceClaimTemplate", "template", **_TEMPLATE)
        await cluster.until(lambda: _has_claim(cluster, "pod"))
    assert len(await cluster.items("ResourceClaim")) == 1


async def test_a_deleted_claim_is_created_again(cluster: Cluster) -> None:
    await cluster.create("ResourceClaimTemplate", "template", **_TEMPLATE)
    await cluster.create("Pod", "pod", spec=_FROM_TEMPLATE)
    async with controllers(cluster, _NAME):
        await cluster.until(lambda: _has_claim(cluster, "pod"))
        first = await _name_in_status(cluster, "pod")
        assert first is not None
        await cluster.delete("ResourceClaim", first)

        async def another() -> bool:
            name = await _name_in_status(cluster, "pod")
            return name != first and await cluster.get("ResourceClaim", str(name)) is not None

        await cluster.until(another)


async def test_a_generated_claim_is_deleted_when_its_pod_finishes(cluster: Cluster) -> None:
    await cluster.create("ResourceClaimTemplate", "template", **_TEMPLATE)
    pod = await cluster.create("Pod", "pod", spec=_FROM_TEMPLATE)
    async with controllers(cluster, _NAME):
        await cluster.until(lambda: _has_claim(cluster, "pod"))
        name = str(await _name_in_status(cluster, "pod"))
        await _allocate(cluster, name, pod)
        await cluster.set_status("Pod", pod, phase="Succeeded")

        async def is_gone() -> bool:
            return await cluster.get("ResourceClaim", name) is None

        await cluster.until(is_gone)
        # The claim of another pod comes after everything that was created for the first pod because its claim
        # was deleted.
        await cluster.create("Pod", "later", spec=_FROM_TEMPLATE)
        await cluster.until(lambda: _has_claim(cluster, "later"))
        assert [claim.metadata.name for claim in await cluster.items("ResourceClaim")] == [
            await _name_in_status(cluster, "later")
        ]
        assert await _name_in_status(cluster, "pod") == name


async def test_a_shared_claim_is_deallocated_after_its_last_consumer(cluster: Cluster) -> None:
    await cluster.create("ResourceClaim", "shared", spec=CLAIM_SPEC)
    pod = await cluster.create("Pod", "pod", spec=_pod_spec(resourceClaimName="shared"))
    await _allocate(cluster, "shared", pod)
    async with controllers(cluster, _NAME):
        await cluster.set_status("Pod", pod, phase="Failed")

        async def free() -> bool:
            claim = await cluster.get("ResourceClaim", "shared")
            assert claim is not None
            return (
                claim.status.allocation is None
                and not claim.status.reserved_for
                and FINALIZER not in claim.metadata.finalizers
            )

        await cluster.until(free)


async def test_a_claim_is_reserved_for_a_pod_with_a_node_name(cluster: Cluster) -> None:
    await cluster.create("ResourceClaim", "shared", spec=CLAIM_SPEC)
    first = await cluster.create("Pod", "first", spec=_pod_spec(resourceClaimName="shared"))
    await _allocate(cluster, "shared", first)
    await cluster.create("Pod", "second", spec={**_pod_spec(resourceClaimName="shared"), "nodeName": "n1"})
    async with controllers(cluster, _NAME):

        async def is_reserved_for_both() -> bool:
            claim = await cluster.get("ResourceClaim", "shared")
            assert claim is not None
            return {consumer.name for consumer in claim.status.reserved_for} == {"first", "second"}

        await cluster.until(is_reserved_for_both)


async def test_the_status_keeps_both_claim_names_when_one_claim_is_recreated(cluster: Cluster) -> None:
    """The apply request for one entry must not remove the other entry."""
    await cluster.create("ResourceClaimTemplate", "template", **_TEMPLATE)
    spec = {
        "containers": [{"name": "c", "image": "busybox"}],
        "resourceClaims": [
            {"name": "a", "resourceClaimTemplateName": "template"},
            {"name": "b", "resourceClaimTemplateName": "template"},
        ],
    }
    await cluster.create("Pod", "pod", spec=spec)

    async def names() -> list[str | None]:
        pod = await cluster.get("Pod", "pod")
        assert pod is not None
        return [status.resource_claim_name for status in pod.status.resource_claim_statuses]

    async with controllers(cluster, _NAME):

        async def both() -> bool:
            return len(await names()) == 2

        await cluster.until(both)
        first, second = await names()
        await cluster.delete("ResourceClaim", str(first))

        async def is_recreated() -> bool:
            now = await names()
            return len(now) == 2 and now[0] != first and now[1] == second

        await cluster.until(is_recreated)


async def test_two_controllers_create_one_claim(cluster: Cluster) -> None:
    await cluster.create("ResourceClaimTemplate", "template", **_TEMPLATE)
    async with controllers(cluster, _NAME), controllers(cluster, _NAME):
        for number in range(10):
            await cluster.create("Pod", f"pod-{number}", spec=_FROM_TEMPLATE)

        async def has_one_claim_for_each_pod() -> bool:
            names = {await _name_in_status(cluster, f"pod-{number}") for number in range(10)}
            claims = {claim.metadata.name for claim in await cluster.items("ResourceClaim")}
            return None not in names and names == claims

        await cluster.until(has_one_claim_for_each_pod)

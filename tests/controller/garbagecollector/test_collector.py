"""Garbage collection against a real API server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest
from dra_controller.garbagecollector import GarbageCollector
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.client.transport import HttpTransport

from tests.controller.cluster import CLAIM_SPEC, POD_SPEC, Cluster, controllers

_NAME = "garbage-collector-controller"


def _owned_by(
    owner: Any, kind: str = "Pod", *, api_version: str = "v1", blocks: bool = False
) -> dict[str, Any]:
    return {
        "ownerReferences": [
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
                "blockOwnerDeletion": blocks,
            }
        ]
    }


async def _family(cluster: Cluster, *, blocks: bool = False) -> Any:
    owner = await cluster.create("Pod", "owner", spec=POD_SPEC)
    await cluster.create("ResourceClaim", "child", spec=CLAIM_SPEC, metadata=_owned_by(owner, blocks=blocks))
    return owner


async def test_dependents_are_deleted_after_their_owner(cluster: Cluster) -> None:
    await _family(cluster)
    async with controllers(cluster, _NAME):
        await cluster.delete("Pod", "owner", grace_period=0)
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "child"))


async def test_dependents_of_an_owner_that_was_deleted_before_the_start_are_deleted(cluster: Cluster) -> None:
    await _family(cluster)
    await cluster.delete("Pod", "owner", grace_period=0)
    async with controllers(cluster, _NAME):
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "child"))


async def test_dependents_of_dependents_are_deleted(cluster: Cluster) -> None:
    await _family(cluster)
    child = await cluster.get("ResourceClaim", "child")
    reference = _owned_by(child, "ResourceClaim", api_version="resource.k8s.io/v1")
    await cluster.create("ResourceClaim", "grandchild", spec=CLAIM_SPEC, metadata=reference)
    async with controllers(cluster, _NAME):
        await cluster.delete("Pod", "owner", grace_period=0)
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "grandchild"))


async def test_foreground_deletion_waits_for_blocking_dependents(cluster: Cluster) -> None:
    await _family(cluster, blocks=True)
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    await cluster.client.patch(RESOURCE_CLAIMS, "child", held, "default")
    async with controllers(cluster, _NAME):
        await cluster.delete("Pod", "owner", grace_period=0, propagation="Foreground")

        async def child_is_leaving() -> bool:
            child = await cluster.get("ResourceClaim", "child")
            return child is not None and child.metadata.deletion_timestamp is not None

        await cluster.until(child_is_leaving)
        owner = await cluster.get("Pod", "owner")
        assert owner is not None
        assert "foregroundDeletion" in owner.metadata.finalizers
        await cluster.client.patch(RESOURCE_CLAIMS, "child", {"metadata": {"finalizers": None}}, "default")
        await cluster.until(lambda: _is_gone(cluster, "Pod", "owner"))
        assert await cluster.get("ResourceClaim", "child") is None


async def test_orphaned_dependents_are_kept(cluster: Cluster) -> None:
    await _family(cluster)
    async with controllers(cluster, _NAME):
        await cluster.delete("Pod", "owner", grace_period=0, propagation="Orphan")
        await cluster.until(lambda: _is_gone(cluster, "Pod", "owner"))
        child = await cluster.get("ResourceClaim", "child")
        assert child is not None
        assert child.metadata.owner_references == ()


async def test_a_dependent_is_kept_as_long_as_one_of_its_two_owners_exists(cluster: Cluster) -> None:
    first = await cluster.create("Pod", "first", spec=POD_SPEC)
    second = await cluster.create("Pod", "second", spec=POD_SPEC)
    both = {"ownerReferences": [*_owned_by(first)["ownerReferences"], *_owned_by(second)["ownerReferences"]]}
    await cluster.create("ResourceClaim", "child", spec=CLAIM_SPEC, metadata=both)
    async with controllers(cluster, _NAME):
        await cluster.delete("Pod", "first", grace_period=0)

        async def only_second() -> bool:
            child = await cluster.get("ResourceClaim", "child")
            assert child is not None
            return [owner.name for owner in child.metadata.owner_references] == ["second"]

        await cluster.until(only_second)


async def test_an_owner_in_another_namespace_does_not_keep_a_dependent(cluster: Cluster) -> None:
    await cluster.create("Namespace", "other")
    owner = await cluster.create("Pod", "owner", "other", spec=POD_SPEC)
    await cluster.create("ResourceClaim", "child", spec=CLAIM_SPEC, metadata=_owned_by(owner))
    await cluster.create("ResourceClaim", "proper", "other", spec=CLAIM_SPEC, metadata=_owned_by(owner))
    async with controllers(cluster, _NAME):
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "child"))
        assert await cluster.get("ResourceClaim", "proper", "other") is not None


@pytest.mark.parametrize("uid", ["00000000-0000-0000-0000-000000000000"])
async def test_an_owner_with_another_uid_does_not_keep_a_dependent(cluster: Cluster, uid: str) -> None:
    await cluster.create("Pod", "owner", spec=POD_SPEC)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": uid}
    await cluster.create("ResourceClaim", "child", spec=CLAIM_SPEC, metadata={"ownerReferences": [reference]})
    async with controllers(cluster, _NAME):
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "child"))


async def test_dependents_are_collected_once_the_kind_of_their_owner_is_served(cluster: Cluster) -> None:
    """Dependents are processed as soon as the collector discovers the kind of their owner."""
    group = "gizmos.example.com"
    names = {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gizmos.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    absent = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "name": "absent", "uid": "absent"}
    async with controllers(cluster, _NAME) as manager:
        await cluster.create(
            "ResourceClaim", "child", spec=CLAIM_SPEC, metadata={"ownerReferences": [absent]}
        )
        collector = manager.controllers[_NAME]
        assert isinstance(collector, GarbageCollector)

        async def has_retried() -> bool:
            return len(collector._unserved) == 1 and collector._delete_queue.count_requeues("absent") > 8

        await cluster.until(has_retried)
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        made = await cluster.client.raw("POST", path, content=orjson.dumps(definition))
        assert made.status_code == 201

        async def is_served() -> bool:
            answer = await cluster.client.raw("GET", f"/apis/{group}/v1/gizmos")
            return answer.status_code == 200

        await cluster.until(is_served)
        async with asyncio.TaskGroup() as tasks:
            await collector._resync(tasks)
            await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "child"))
            for _, monitor in collector._monitors.values():
                if monitor is not None:
                    monitor.cancel()


async def _is_gone(cluster: Cluster, kind: str, name: str) -> bool:
    return await cluster.get(kind, name) is None


class _Deaf(httpx.AsyncBaseTransport):
    """Drops the events of the watch of pods, and counts requests for the pod ``owner``."""

    def __init__(self) -> None:
        self._inner = HttpTransport()
        self.asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if request.url.path.endswith("/pods/owner"):
            self.asked += 1
        if request.url.path.endswith("/pods") and request.url.params.get("watch") == "true":
            silent = _Silent(response)
            return httpx.Response(200, headers=response.headers, stream=silent, request=request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Silent(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for _ in self._response.aiter_bytes():
            yield b""

    async def aclose(self) -> None:
        await self._response.aclose()


async def test_an_owner_that_its_informer_never_observed_is_looked_up_until_it_is_gone(
    cluster: Cluster,
) -> None:
    """Only a live request shows that the owner exists."""
    transport = _Deaf()
    async with controllers(cluster, _NAME, transport=transport):
        # Nothing is collected before all kinds are listed. After that no list can add the pod.
        absent = {"apiVersion": "v1", "kind": "Pod", "name": "absent", "uid": "absent"}
        canary = {"ownerReferences": [absent]}
        await cluster.create("ResourceClaim", "canary", spec=CLAIM_SPEC, metadata=canary)
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "canary"))
        await _family(cluster)

        async def seen_alive() -> bool:
            return transport.asked > 1

        await cluster.until(seen_alive)
        await cluster.delete("Pod", "owner", grace_period=0)
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "child"))


class _Busy(httpx.AsyncBaseTransport):
    """Updates the claim ``child`` just before its first deletion arrives, and counts its deletions."""

    def __init__(self, cluster: Cluster) -> None:
        self._inner = HttpTransport()
        self._cluster = cluster
        self.deletions: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        deleting = request.method == "DELETE" and request.url.path.endswith("/resourceclaims/child")
        if deleting and not self.deletions:
            change = {"metadata": {"labels": {"changed": "meanwhile"}}}
            await self._cluster.client.patch(RESOURCE_CLAIMS, "child", change, "default")
        response = await self._inner.handle_async_request(request)
        if deleting:
            self.deletions.append(response.status_code)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_a_dependent_that_changes_meanwhile_is_deleted_in_the_same_attempt(cluster: Cluster) -> None:
    await _family(cluster)
    transport = _Busy(cluster)
    async with controllers(cluster, _NAME, transport=transport):
        await cluster.delete("Pod", "owner", grace_period=0)
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "child"))
    assert transport.deletions == [409, 200]


async def test_kinds_that_other_controllers_watch_are_not_watched_a_second_time(cluster: Cluster) -> None:
    transport = _Watches()
    await _family(cluster)
    async with controllers(cluster, _NAME, "resourceclaim-controller", transport=transport):
        await cluster.delete("Pod", "owner", grace_period=0)
        await cluster.until(lambda: _is_gone(cluster, "ResourceClaim", "child"))
    assert transport.paths.count("/api/v1/pods") == 1
    assert transport.paths.count("/apis/resource.k8s.io/v1/resourceclaims") == 1
    assert transport.paths.count("/api/v1/configmaps") == 1


class _Watches(httpx.AsyncBaseTransport):
    """Records the paths of the watches that are opened."""

    def __init__(self) -> None:
        self._inner = HttpTransport()
        self.paths: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.params.get("watch") == "true":
            self.paths.append(request.url.path)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

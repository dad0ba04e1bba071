"""Quotas: the API server refuses what exceeds them, the controller says what is used."""

import asyncio
from typing import Any

import pytest
from dra_shared.client.errors import Forbidden

from tests.controller.cluster import POD_SPEC, Cluster, controllers

_DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"


def _claim(count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu.example.com", "count": count}
    return {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


def _pod(**requests: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}}


async def test_devices_are_limited_by_class(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "few", spec={"hard": {_DEVICES: "3"}})
    await cluster.create("ResourceClaim", "one", **_claim(2))
    with pytest.raises(Forbidden) as refused:
        await cluster.create("ResourceClaim", "two", **_claim(2))
    assert str(refused.value) == (
        'resourceclaims.resource.k8s.io "two" is forbidden: exceeded quota: few, '
        f"requested: {_DEVICES}=2, used: {_DEVICES}=2, limited: {_DEVICES}=3"
    )
    await cluster.delete("ResourceClaim", "one")
    await cluster.create("ResourceClaim", "two", **_claim(3))


async def test_concurrent_requests_do_not_get_past_a_quota(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "few", spec={"hard": {"pods": "3", "count/configmaps": "2"}})
    pods = [cluster.create("Pod", f"p{number}", spec=POD_SPEC) for number in range(8)]
    maps = [cluster.create("ConfigMap", f"m{number}") for number in range(8)]
    outcomes = await asyncio.gather(*pods, *maps, return_exceptions=True)
    refused = [isinstance(outcome, Forbidden) for outcome in outcomes]
    assert (refused[:8].count(True), refused[8:].count(True)) == (5, 6)
    assert len(await cluster.items("Pod")) == 3


async def test_a_pod_must_name_what_is_limited(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "cpu", spec={"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}})
    with pytest.raises(Forbidden, match=r"failed quota: cpu: must specify limits\.memory for: c$"):
        await cluster.create("Pod", "p", **_pod(cpu="500m"))


async def test_a_pod_that_ended_makes_room(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "cpu", spec={"hard": {"requests.cpu": "1"}})
    pod = await cluster.create("Pod", "first", **_pod(cpu="700m"))
    with pytest.raises(Forbidden, match=r"requested: requests.cpu=500m, used: requests.cpu=700m, limited: "):
        await cluster.create("Pod", "second", **_pod(cpu="500m"))
    await cluster.set_status("Pod", pod, phase="Succeeded")
    await cluster.create("Pod", "second", **_pod(cpu="500m"))


async def test_the_status_follows(cluster: Cluster) -> None:
    async with controllers(cluster, "resourcequota-controller"):
        await cluster.create("ResourceQuota", "q", spec={"hard": {"pods": "2", _DEVICES: "8"}})
        await cluster.create("Pod", "p", spec=POD_SPEC)
        await cluster.create("ResourceClaim", "c", **_claim(5))

        async def reported() -> bool:
            quota = await cluster.get("ResourceQuota", "q")
            return quota is not None and quota.status.used == {"pods": "1", _DEVICES: "5"}

        await cluster.until(reported)
        await cluster.delete("Pod", "p", grace_period=0)

        async def freed() -> bool:
            quota = await cluster.get("ResourceQuota", "q")
            return quota is not None and quota.status.used == {"pods": "0", _DEVICES: "5"}

        await cluster.until(freed)


async def test_only_pods_count_for_a_quota_with_scopes(cluster: Cluster) -> None:
    hard = {"pods": "2", _DEVICES: "8", "count/configmaps": "3"}
    async with controllers(cluster, "resourcequota-controller"):
        await cluster.create("ConfigMap", "m")
        await cluster.create("ResourceClaim", "c", **_claim(5))
        await cluster.create("Pod", "p", spec=POD_SPEC)
        await cluster.create("ResourceQuota", "q", spec={"hard": hard, "scopes": ["NotTerminating"]})

        async def reported() -> bool:
            quota = await cluster.get("ResourceQuota", "q")
            expected = {"pods": "1", _DEVICES: "0", "count/configmaps": "0"}
            return quota is not None and quota.status.used == expected

        await cluster.until(reported)

"""Requests for the state of pools, against a real API server."""

from typing import Any

from dra_shared.api.codec import convert
from dra_shared.api.poolstatus import ResourcePoolStatusRequestStatus
from dra_shared.api.resources import RESOURCE_POOL_STATUS_REQUESTS
from dra_shared.features import FeatureGates

from tests.controller.cluster import Cluster, controllers

_NAME = "resourcepoolstatusrequest-controller"
_GATES = FeatureGates(DRAResourcePoolStatus=True)


async def _ask(cluster: Cluster, name: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"driver": "d.example.com", **spec}}
    await cluster.client.create(RESOURCE_POOL_STATUS_REQUESTS, convert(RESOURCE_POOL_STATUS_REQUESTS, body))


async def _answer(cluster: Cluster, name: str) -> ResourcePoolStatusRequestStatus | None:
    return (await cluster.client.get(RESOURCE_POOL_STATUS_REQUESTS, name)).status


async def _publish(cluster: Cluster, name: str, slices: int) -> None:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": slices}
    spec = {"driver": "d.example.com", "pool": pool, "allNodes": True, "devices": [{"name": name}]}
    await cluster.create("ResourceSlice", name, spec=spec)


async def test_no_pools_are_an_answer(cluster: Cluster) -> None:
    async with controllers(cluster, _NAME, gates=_GATES):
        await _ask(cluster, "none")

        async def answered() -> bool:
            return await _answer(cluster, "none") is not None

        await cluster.until(answered)
    status = await _answer(cluster, "none")
    assert status is not None
    assert (status.pool_count, status.pools) == (0, ())
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "Complete", "True", "CalculationComplete", "Calculated status for 0 pools",
    )  # fmt: skip


async def test_there_is_no_answer_before_the_pool_is_complete(cluster: Cluster) -> None:
    await _publish(cluster, "first", 2)
    async with controllers(cluster, _NAME, gates=_GATES) as manager:
        await _ask(cluster, "early")
        queue = manager.controllers[_NAME].queue  # type: ignore[attr-defined]  # of this controller alone

        async def tried() -> bool:
            return bool(queue.requeues("early") > 6)

        await cluster.until(tried)
        assert await _answer(cluster, "early") is None
        await _publish(cluster, "second", 2)

        async def answered() -> bool:
            return await _answer(cluster, "early") is not None

        await cluster.until(answered)
    status = await _answer(cluster, "early")
    assert status is not None
    assert [(pool.pool_name, pool.total_devices) for pool in status.pools] == [("pool", 2)]

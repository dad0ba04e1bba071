"""ResourcePoolStatusRequests against a real API server."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from dra_controller.manager import ControllerManager
from dra_controller.resourcepoolstatusrequest import ResourcePoolStatusRequestController
from dra_shared.api.codec import convert
from dra_shared.api.poolstatus import ResourcePoolStatusRequestStatus
from dra_shared.api.resources import RESOURCE_POOL_STATUS_REQUESTS
from dra_shared.client.workqueue import WorkQueue
from dra_shared.clock import FakeClock
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


async def test_a_pool_status_request_that_matches_no_pool_is_answered(cluster: Cluster) -> None:
    async with controllers(cluster, _NAME, gates=_GATES):
        await _ask(cluster, "none")

        async def is_answered() -> bool:
            return await _answer(cluster, "none") is not None

        await cluster.until(is_answered)
    status = await _answer(cluster, "none")
    assert status is not None
    assert (status.pool_count, status.pools) == (0, ())
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "Complete", "True", "CalculationComplete", "Calculated status for 0 pools",
    )  # fmt: skip


async def test_a_pool_status_request_is_answered_at_a_retry_once_its_pool_is_complete(
    cluster: Cluster,
) -> None:
    await _publish(cluster, "first", 2)
    clock = FakeClock()
    async with controllers(cluster, _NAME, gates=_GATES, clock=clock) as manager:
        await _ask(cluster, "early")
        await cluster.until(_retries(manager, "early", 1))
        assert await _answer(cluster, "early") is None
        await _publish(cluster, "second", 2)
        await clock.advance(0.005)

        async def is_answered() -> bool:
            return await _answer(cluster, "early") is not None

        await cluster.until(is_answered)
    status = await _answer(cluster, "early")
    assert status is not None
    assert [(pool.pool_name, pool.total_devices) for pool in status.pools] == [("pool", 2)]


async def test_a_pool_status_request_for_an_incomplete_pool_is_dropped_after_five_retries(
    cluster: Cluster,
) -> None:
    await _publish(cluster, "first", 2)
    clock = FakeClock()
    async with controllers(cluster, _NAME, gates=_GATES, clock=clock) as manager:
        await _ask(cluster, "early")
        for retry in range(1, 6):
            await cluster.until(_retries(manager, "early", retry))
            await clock.advance(0.005 * 2 ** (retry - 1))
        await cluster.until(_retries(manager, "early", 0))
        await _publish(cluster, "second", 2)
        await clock.advance(1)
        assert _queue(manager).idle
        assert await _answer(cluster, "early") is None

        # Every change of the request queues it again.
        change = {"metadata": {"labels": {"a": "b"}}}
        await cluster.client.patch(RESOURCE_POOL_STATUS_REQUESTS, "early", change)

        async def is_answered() -> bool:
            return await _answer(cluster, "early") is not None

        await cluster.until(is_answered, meanwhile=lambda: clock.advance(1))


async def test_failed_lists_of_slices_are_not_counted_as_retries(cluster: Cluster) -> None:
    clock = FakeClock()
    transport = _NoSlices()
    async with controllers(cluster, _NAME, gates=_GATES, clock=clock, transport=transport) as manager:
        await _ask(cluster, "patient")

        async def is_rejected_often() -> bool:
            return transport.refused > 6

        await cluster.until(is_rejected_often, meanwhile=lambda: clock.advance(1))
        assert _queue(manager).count_requeues("patient") == 0
        transport.fails = False

        async def is_answered() -> bool:
            return await _answer(cluster, "patient") is not None

        await cluster.until(is_answered, meanwhile=lambda: clock.advance(1))


class _NoSlices(httpx.AsyncHTTPTransport):
    """Fails lists of slices while ``fails`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.fails, self.refused = True, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.fails and "resourceslices" in request.url.path:
            self.refused += 1
            raise httpx.ConnectError("no route")
        return await super().handle_async_request(request)


def _queue(manager: ControllerManager) -> WorkQueue[str]:
    controller = manager.controllers[_NAME]
    assert isinstance(controller, ResourcePoolStatusRequestController)
    return controller.queue


def _retries(manager: ControllerManager, name: str, wanted: int) -> Callable[[], Awaitable[bool]]:
    async def has_retried() -> bool:
        queue = _queue(manager)
        return queue.idle and queue.count_requeues(name) == wanted

    return has_retried

"""Answers ResourcePoolStatusRequests: how many devices of a driver's pools there are, and how many are taken.

Mirrors pkg/controller/resourcepoolstatusrequest/controller.go.
"""

import asyncio
from collections import Counter as Tally
from collections.abc import Iterable
from datetime import datetime, timedelta

import httpx
from dra_shared.api.meta import Condition
from dra_shared.api.poolstatus import (
    PoolStatus,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestStatus,
)
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.workqueue import Retry
from dra_shared.clock import parse_rfc3339, rfc3339
from dra_shared.log import logger
from msgspec.structs import replace
from prometheus_client import Counter, Histogram

from dra_controller.framework import Context, QueueController

_COMPLETED_TTL = timedelta(hours=1)
_PENDING_TTL = timedelta(hours=24)
_CLEANUP_SECONDS = 600.0
_DEFAULT_LIMIT = 100
_MAX_ERROR = 256

_log = logger(__name__)


class ResourcePoolStatusRequestController(QueueController):
    """kube-controller-manager's resourcepoolstatusrequest-controller."""

    name = "resourcepoolstatusrequest-controller"
    queue_name = "resourcepoolstatusrequest"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        requests = self.watch(RESOURCE_POOL_STATUS_REQUESTS)
        self._requests = requests.store
        slices = self.watch(RESOURCE_SLICES)
        self._slices = slices.store
        self._claims = self.watch(RESOURCE_CLAIMS).store
        requests.add_handler(self._changed, lambda _, new: self._changed(new))
        slices.add_handler(self._slice_changed, lambda _, new: self._slice_changed(new), self._slice_changed)
        self._processed = Counter(
            "resourcepoolstatusrequest_controller_requests_processed_total",
            "Requests processed",
            ["driver_name"],
            registry=context.registry,
        )
        self._errors = Counter(
            "resourcepoolstatusrequest_controller_request_processing_errors_total",
            "Requests whose status could not be written",
            ["driver_name"],
            registry=context.registry,
        )
        self._duration = Histogram(
            "resourcepoolstatusrequest_controller_request_processing_duration_seconds",
            "Seconds that the processing of a request took",
            ["driver_name"],
            registry=context.registry,
        )

    @classmethod
    def wanted(cls, context: Context) -> bool:
        return context.features.enabled("DRAResourcePoolStatus")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            while True:
                await self._clock.sleep(_CLEANUP_SECONDS)
                await self._clean_up()

    def _changed(self, request: ResourcePoolStatusRequest) -> None:
        if request.status is None:
            self.queue.add(request.key)

    def _slice_changed(self, piece: ResourceSlice) -> None:
        for request in self._requests.list():
            if request.spec.driver == piece.spec.driver:
                self._changed(request)

    async def reconcile(self, key: str) -> None:
        request = self._requests.get(key)
        if request is None or request.status is not None:
            return
        started = self._clock.monotonic()
        status = pool_status(request, self._slices.list(), self._claims.list(), self._clock.now())
        incomplete = [pool.validation_error for pool in status.pools if pool.validation_error]
        if incomplete:
            # As upstream: no answer before the driver has published all slices. The next slice brings us back.
            raise Retry("; ".join(incomplete))
        driver = request.spec.driver
        try:
            await self._client.update(
                RESOURCE_POOL_STATUS_REQUESTS, replace(request, status=status), subresource="status"
            )
        except ApiError:
            self._errors.labels(driver).inc()
            raise
        finally:
            self._processed.labels(driver).inc()
            self._duration.labels(driver).observe(self._clock.monotonic() - started)

    async def _clean_up(self) -> None:
        now = self._clock.now()
        for request in self._requests.list():
            if not is_expired(request, now):
                continue
            try:
                await self._client.delete(
                    RESOURCE_POOL_STATUS_REQUESTS, request.metadata.name, uid=request.metadata.uid
                )
            except NotFound:
                continue
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.warning("expired request not deleted", request=request.key, error=str(error))


def pool_status(
    request: ResourcePoolStatusRequest,
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    now: datetime,
) -> ResourcePoolStatusRequestStatus:
    """The answer to the request at this moment."""
    members: dict[str, list[ResourceSlice]] = {}
    for piece in slices:
        wanted = request.spec.pool_name in (None, "", piece.spec.pool.name)
        if piece.spec.driver == request.spec.driver and wanted:
            members.setdefault(piece.spec.pool.name, []).append(piece)
    taken = Tally(
        result.pool
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if result.driver == request.spec.driver
    )
    pools = [_pool(request.spec.driver, name, members[name], taken[name]) for name in sorted(members)]
    shown = pools[: request.spec.limit or _DEFAULT_LIMIT]
    incomplete = sum(pool.validation_error is not None for pool in shown)
    suffix = f" ({incomplete} incomplete)" if incomplete else ""
    return ResourcePoolStatusRequestStatus(
        pool_count=len(pools),
        pools=tuple(shown),
        conditions=(
            Condition(
                type="Complete",
                status="True",
                reason="CalculationComplete",
                message=f"Calculated status for {len(shown)} pools{suffix}",
                last_transition_time=rfc3339(now),
            ),
        ),
    )


def _pool(driver: str, name: str, slices: list[ResourceSlice], taken: int) -> PoolStatus:
    generation = max(piece.spec.pool.generation for piece in slices)
    current = [piece for piece in slices if piece.spec.pool.generation == generation]
    nodes = {piece.spec.node_name for piece in current}
    pool = PoolStatus(
        driver=driver,
        pool_name=name,
        generation=generation,
        node_name=nodes.pop() if len(nodes) == 1 else None,
    )
    expected = current[0].spec.pool.resource_slice_count
    if len(current) < expected:
        where = f"observed {len(current)}/{expected} slices at generation {generation}"
        return replace(pool, validation_error=f"pool {driver}/{name} is incomplete: {where}"[:_MAX_ERROR])
    total = sum(len(piece.spec.devices) for piece in current)
    return replace(
        pool,
        resource_slice_count=len(current),
        total_devices=total,
        allocated_devices=taken,
        available_devices=max(0, total - taken),
        # Upstream counts no device as unavailable either.
        unavailable_devices=0,
    )


def is_expired(request: ResourcePoolStatusRequest, now: datetime) -> bool:
    """Whether the request has expired, so that no client reads its status any more."""
    since, ttl = request.metadata.creation_timestamp, _PENDING_TTL
    if request.status is not None:
        ttl = _COMPLETED_TTL
        for entry in request.status.conditions:
            if entry.type in ("Complete", "Failed"):
                since = entry.last_transition_time
                break
    return since is not None and now - parse_rfc3339(since) > ttl

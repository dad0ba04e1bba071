"""Answers ResourcePoolStatusRequests: how many devices a driver's pools have, and how many are taken.

Mirrors pkg/controller/resourcepoolstatusrequest/controller.go.
"""

import asyncio
from datetime import datetime, timedelta

import httpx
from dra_shared.api.poolstatus import ResourcePoolStatusRequest
from dra_shared.api.resources import RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.workqueue import Retry
from dra_shared.clock import parse_rfc3339
from dra_shared.log import logger
from dra_shared.taintrules import taint_rules
from dra_shared.version import V1_37
from msgspec.structs import replace
from prometheus_client import Counter, Histogram

from dra_controller.framework import Context, QueueController
from dra_controller.poolstatus import pool_status

_COMPLETED_TTL = timedelta(hours=1)
_PENDING_TTL = timedelta(hours=24)
_CLEANUP_SECONDS = 600.0
_LIST_AGAIN_SECONDS = 1.0

_log = logger(__name__)


class ResourcePoolStatusRequestController(QueueController):
    """The resourcepoolstatusrequest-controller of kube-controller-manager."""

    name = "resourcepoolstatusrequest-controller"
    queue_name = "resourcepoolstatusrequest"
    max_retries = 5

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        requests = self.watch(RESOURCE_POOL_STATUS_REQUESTS)
        self._requests = requests.store
        self._claims = self.watch(RESOURCE_CLAIMS).store
        rules = taint_rules(context.features) if context.features.version >= V1_37 else None
        self._rules = self.watch(rules).store if rules is not None else None
        self._features = context.features
        requests.add_handler(self._enqueue_unanswered, lambda _, new: self._enqueue_unanswered(new))
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
    def is_wanted(cls, context: Context) -> bool:
        return context.features.enabled("DRAResourcePoolStatus")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            while True:
                await self._clock.sleep(_CLEANUP_SECONDS)
                await self._clean_up()

    def _enqueue_unanswered(self, request: ResourcePoolStatusRequest) -> None:
        if request.status is None:
            self.queue.add(request.key)

    async def reconcile(self, key: str) -> None:
        request = self._requests.get(key)
        if request is None or request.status is not None:
            return
        started = self._clock.monotonic()
        rules = self._rules.list() if self._rules is not None else ()
        selector = f"spec.driver={request.spec.driver}"
        try:
            # The slices of the informer have no attributes, which summaries need. Requests are rare.
            slices = (await self._client.list(RESOURCE_SLICES, field_selector=selector)).items
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            # A failed read must not count as a retry, because upstream reads from an informer, which cannot
            # fail.
            _log.info("slices not listed, trying again", request=key, error=str(error))
            self.queue.add_after(key, _LIST_AGAIN_SECONDS)
            return
        status = pool_status(request, slices, self._claims.list(), rules, self._clock.now(), self._features)
        incomplete = [pool.validation_error or "" for pool in status.pools if pool.total_devices is None]
        if incomplete:
            # As upstream: retry later. If slices are still missing at the last retry, the request gets no
            # answer.
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


def is_expired(request: ResourcePoolStatusRequest, now: datetime) -> bool:
    """Return True if the request has expired, so that no client reads its status any more."""
    since, ttl = request.metadata.creation_timestamp, _PENDING_TTL
    if request.status is not None:
        ttl = _COMPLETED_TTL
        for entry in request.status.conditions:
            if entry.type in ("Complete", "Failed"):
                since = entry.last_transition_time
                break
    return since is not None and now - parse_rfc3339(since) > ttl

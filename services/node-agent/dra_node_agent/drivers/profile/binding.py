"""Sets the binding conditions of devices on a node, like a vendor's controller."""

import asyncio
from collections.abc import Collection

import msgspec
from dra_shared.api.meta import Condition
from dra_shared.api.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.client.errors import ApiError, Conflict, NotFound
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_node_agent.drivers.profile.model import BindingConditions

_log = logger(__name__)


class BindingConditionSetter:
    """Watches claims, and sets the binding (or failure) conditions of devices in the given pools to true."""

    def __init__(
        self, client: Client, clock: Clock, driver: str, pools: Collection[str], rules: BindingConditions
    ) -> None:
        self._client = client
        self._clock = clock
        self._driver = driver
        self._pools = pools
        self._rules = rules
        self._queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._informer = Informer(client, RESOURCE_CLAIMS, clock=clock)

    async def run(self) -> None:
        """Run until cancelled."""
        self._informer.add_handler(
            on_add=self._handle_claim, on_update=lambda _, new: self._handle_claim(new)
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            while True:
                namespace, name = await self._queue.get()
                if self._rules.after_seconds:
                    await self._clock.sleep(self._rules.after_seconds)
                try:
                    await self._satisfy(namespace, name)
                except (ApiError, OSError, TimeoutError) as error:
                    _log.warning(
                        "cannot set binding conditions", claim=f"{namespace}/{name}", error=str(error)
                    )

    def _handle_claim(self, claim: ResourceClaim) -> None:
        if self._missing_conditions(claim):
            self._queue.put_nowait((claim.metadata.namespace, claim.metadata.name))

    def _missing_conditions(self, claim: ResourceClaim) -> list[tuple[DeviceRequestAllocationResult, str]]:
        allocation = claim.status.allocation
        if allocation is None:
            return []
        missing = []
        for result in allocation.devices.results:
            if result.driver != self._driver or result.pool not in self._pools:
                continue
            wanted = result.binding_failure_conditions if self._rules.fail else result.binding_conditions
            known = next((s for s in claim.status.devices if _same(s, result)), None)
            true = {c.type for c in known.conditions if c.status == "True"} if known else set()
            missing += [(result, condition) for condition in wanted if condition not in true]
        return missing

    async def _satisfy(self, namespace: str, name: str) -> None:
        while True:
            try:
                claim = await self._client.get(RESOURCE_CLAIMS, name, namespace)
            except NotFound:
                return
            missing = self._missing_conditions(claim)
            if not missing:
                return
            statuses = list(claim.status.devices)
            for result, condition in missing:
                self._set(statuses, result, condition)
            status = msgspec.structs.replace(claim.status, devices=tuple(statuses))
            try:
                await self._client.update(
                    RESOURCE_CLAIMS, msgspec.structs.replace(claim, status=status), subresource="status"
                )
                return
            except Conflict:
                continue

    def _set(
        self, statuses: list[AllocatedDeviceStatus], result: DeviceRequestAllocationResult, type_: str
    ) -> None:
        failed = self._rules.fail
        condition = Condition(
            type=type_,
            status="True",
            reason="Failed" if failed else "Ready",
            message="Device failed" if failed else "Device is ready",
            last_transition_time=self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        for place, status in enumerate(statuses):
            if _same(status, result):
                others = tuple(c for c in status.conditions if c.type != type_)
                statuses[place] = msgspec.structs.replace(status, conditions=(*others, condition))
                return
        statuses.append(
            AllocatedDeviceStatus(
                driver=result.driver,
                pool=result.pool,
                device=result.device,
                share_id=result.share_id,
                conditions=(condition,),
            )
        )


def _same(status: AllocatedDeviceStatus, result: DeviceRequestAllocationResult) -> bool:
    return (status.driver, status.pool, status.device, status.share_id) == (
        result.driver,
        result.pool,
        result.device,
        result.share_id,
    )

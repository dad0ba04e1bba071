"""The status of allocated devices in a claim's ``status.devices``, as its driver reports it."""

import dataclasses
from collections.abc import Sequence
from datetime import datetime

import msgspec
from dra_shared.api.meta import Condition
from dra_shared.api.resource import AllocatedDeviceStatus, ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.client.errors import Conflict
from dra_shared.client.rest import Client
from dra_shared.clock import Clock

_ATTEMPTS = 5


@dataclasses.dataclass(frozen=True)
class _Key:
    driver: str
    pool: str
    device: str
    share_id: str | None


async def report_device_status(
    client: Client, clock: Clock, claim: ResourceClaim, statuses: Sequence[AllocatedDeviceStatus]
) -> None:
    """Write the status of devices into their claim. The entries of other drivers and devices stay.

    Conditions of the same type are replaced. Their ``lastTransitionTime`` is kept if the condition's status is the
    same, and else becomes the current time. ``data`` and ``networkData`` stay as they are if they are None here.

    Raises:
        ApiError: the API server refuses the status, or the claim changes each time.
        OSError, TimeoutError: the API server cannot be reached.
    """
    for left in reversed(range(_ATTEMPTS)):
        devices = merge_device_status(claim.status.devices, statuses, clock.now())
        status = msgspec.structs.replace(claim.status, devices=devices)
        try:
            await client.update(
                RESOURCE_CLAIMS, msgspec.structs.replace(claim, status=status), subresource="status"
            )
            return
        except Conflict:
            if not left:
                raise
            claim = await client.get(RESOURCE_CLAIMS, claim.metadata.name, claim.metadata.namespace)


def merge_device_status(
    known: Sequence[AllocatedDeviceStatus], reported: Sequence[AllocatedDeviceStatus], now: datetime
) -> tuple[AllocatedDeviceStatus, ...]:
    """Return the known entries with the reported ones in their place, or after them if they are new."""
    merged = {_key(status): status for status in known}
    for status in reported:
        before = merged.get(_key(status), AllocatedDeviceStatus())
        merged[_key(status)] = msgspec.structs.replace(
            status,
            conditions=_merge_conditions(before.conditions, status.conditions, now),
            data=before.data if status.data is None else status.data,
            network_data=status.network_data or before.network_data,
        )
    return tuple(merged.values())


def _key(status: AllocatedDeviceStatus) -> _Key:
    return _Key(status.driver, status.pool, status.device, status.share_id)


def _merge_conditions(
    known: Sequence[Condition], reported: Sequence[Condition], now: datetime
) -> tuple[Condition, ...]:
    merged = {condition.type: condition for condition in known}
    for condition in reported:
        before = merged.get(condition.type)
        same = before is not None and before.status == condition.status
        changed = before.last_transition_time if same and before else now.strftime("%Y-%m-%dT%H:%M:%SZ")
        merged[condition.type] = msgspec.structs.replace(condition, last_transition_time=changed)
    return tuple(merged.values())

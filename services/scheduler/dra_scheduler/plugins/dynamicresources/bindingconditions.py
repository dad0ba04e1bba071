"""Binding conditions: conditions of allocated devices that must be true before a pod is bound.

Mirrors ``isPodReadyForBinding`` in upstream's
``pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go``.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from dra_shared.api.meta import Condition
from dra_shared.api.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from dra_shared.clock import parse_rfc3339


class BindingFailed(Exception):
    """A failure condition is true."""


class BindingTimeout(Exception):
    """The conditions did not become true in time."""


def has_conditions(claims: Iterable[ResourceClaim]) -> bool:
    """True if any allocated device has binding conditions."""
    return bool(drivers_with_conditions(claims))


def drivers_with_conditions(claims: Iterable[ResourceClaim]) -> set[str]:
    """Return the drivers of allocated devices that have binding conditions."""
    return {
        result.driver
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if result.binding_conditions
    }


def is_ready(claim: ResourceClaim) -> bool:
    """True if the claim is allocated and all binding conditions of its devices are true.

    Raises:
        BindingFailed: a failure condition of one of the devices is true.
    """
    if claim.status.allocation is None:
        return False
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _device_status(claim, result)
        if status is None:
            return False
        for name in result.binding_failure_conditions:
            condition = _find(status.conditions, name)
            if condition is not None and condition.status == "True":
                raise BindingFailed(
                    f"device binding failed: claim={claim.metadata.name}, reason={condition.reason}, "
                    f'message="{condition.message}"'
                )
        for name in result.binding_conditions:
            condition = _find(status.conditions, name)
            if condition is None or condition.status != "True":
                return False
    return True


def has_timed_out(claim: ResourceClaim, now: datetime, timeout: float) -> bool:
    """True if the claim has binding conditions and was allocated more than ``timeout`` seconds ago."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_conditions((claim,)):
        return False
    return parse_rfc3339(allocation.allocation_timestamp) + timedelta(seconds=timeout) < now


def _device_status(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device):
            return status
    return None


def _find(conditions: Iterable[Condition], name: str) -> Condition | None:
    for condition in conditions:
        if condition.type == name:
            return condition
    return None

"""The answer to a ResourcePoolStatusRequest: how many devices a driver's pools have, and how many are left.

Pure. Mirrors calculatePoolStatus in pkg/controller/resourcepoolstatusrequest/controller.go. Since 1.37, a
device counts only once even if several claims hold it, devices with taints are unavailable, and pools have
summaries.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dra_shared.api.meta import Condition
from dra_shared.api.poolstatus import (
    PartitionTypeStatus,
    PoolStatus,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestStatus,
    ShareableSummaryStatus,
)
from dra_shared.api.resource import Device, ResourceClaim, ResourceSlice
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.clock import rfc3339
from dra_shared.features import FeatureGates
from dra_shared.poolviews import PoolUse, ViewError, partition_summary, shareable_summary
from dra_shared.quantity import Quantity
from dra_shared.version import V1_37, Version
from msgspec.structs import replace

_DEFAULT_LIMIT = 100
_MAX_ERROR = 256
_UNAVAILABLE = ("NoSchedule", "NoExecute")


@dataclass
class _Use:
    """The use of one pool by claims: number of results, devices without admin access, and consumed capacity."""

    results: int = 0
    devices: set[str] = field(default_factory=set)
    consumed: dict[str, Quantity] = field(default_factory=dict)


def pool_status(
    request: ResourcePoolStatusRequest,
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    rules: Collection[DeviceTaintRule],
    now: datetime,
    features: FeatureGates,
) -> ResourcePoolStatusRequestStatus:
    """Return the answer at this moment. Pools that are not complete have no numbers, but a validation error."""
    driver = request.spec.driver
    members: dict[str, list[ResourceSlice]] = {}
    for piece in slices:
        wanted = request.spec.pool_name in (None, "", piece.spec.pool.name)
        if piece.spec.driver == driver and wanted:
            members.setdefault(piece.spec.pool.name, []).append(piece)
    uses = _uses(driver, claims)
    pools = [
        _pool(request, members[name], uses.get(name, _Use()), rules, features) for name in sorted(members)
    ]
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


def _uses(driver: str, claims: Iterable[ResourceClaim]) -> dict[str, _Use]:
    """Return the use of the driver's devices by claims, by pool."""
    uses: dict[str, _Use] = {}
    for claim in claims:
        if claim.status.allocation is None:
            continue
        for result in claim.status.allocation.devices.results:
            if result.driver != driver:
                continue
            use = uses.setdefault(result.pool, _Use())
            use.results += 1
            if result.admin_access:
                continue
            use.devices.add(result.device)
            for name, amount in result.consumed_capacity.items():
                use.consumed[name] = use.consumed.get(name, Quantity(0)).add(Quantity.parse(amount))
    return uses


def _pool(
    request: ResourcePoolStatusRequest,
    slices: list[ResourceSlice],
    use: _Use,
    rules: Collection[DeviceTaintRule],
    features: FeatureGates,
) -> PoolStatus:
    """Return the status of one pool. Slices of older generations do not count."""
    generation = max(piece.spec.pool.generation for piece in slices)
    current = [piece for piece in slices if piece.spec.pool.generation == generation]
    spec = current[0].spec
    nodes = {piece.spec.node_name for piece in current}
    pool = PoolStatus(
        driver=spec.driver,
        pool_name=spec.pool.name,
        generation=generation,
        node_name=nodes.pop() if len(nodes) == 1 else None,
    )
    expected = spec.pool.resource_slice_count
    if len(current) < expected:
        observed = f"observed {len(current)}/{expected} slices at generation {generation}"
        text = f"pool {spec.driver}/{spec.pool.name} is incomplete: {observed}"
        return replace(pool, validation_error=_shorten(_incomplete(text, features.version)))
    devices = [device for piece in current for device in piece.spec.devices]
    if features.version < V1_37:
        return _with_counts(pool, current, len(devices), use.results, 0)
    unavailable = sum(_is_unavailable(device, pool, rules) for device in devices)
    pool = _with_counts(pool, current, len(devices), len(use.devices), unavailable)
    return _with_summaries(
        pool,
        PoolUse(spec.driver, spec.pool.name, current, use.devices, use.consumed),
        request.spec.default_partition_type_attribute,
        features,
    )


def _incomplete(text: str, kubernetes: Version) -> str:
    return f"PoolIncomplete: {text}" if kubernetes >= V1_37 else text


def _shorten(text: str) -> str:
    return text.encode()[:_MAX_ERROR].decode(errors="ignore")


def _with_counts(
    pool: PoolStatus, slices: Sequence[ResourceSlice], total: int, allocated: int, unavailable: int
) -> PoolStatus:
    return replace(
        pool,
        resource_slice_count=len(slices),
        total_devices=total,
        allocated_devices=allocated,
        available_devices=max(0, total - allocated - unavailable),
        unavailable_devices=unavailable,
    )


def _is_unavailable(device: Device, pool: PoolStatus, rules: Iterable[DeviceTaintRule]) -> bool:
    """Return True if a taint of the device, or one of a rule, keeps pods away from it."""
    return any(taint.effect in _UNAVAILABLE for taint in device.taints) or any(
        rule.spec.taint.effect in _UNAVAILABLE and _selects(rule, pool, device) for rule in rules
    )


def _selects(rule: DeviceTaintRule, pool: PoolStatus, device: Device) -> bool:
    """Return True if the rule selects the device. A rule without a selector selects none."""
    selector = rule.spec.device_selector
    return (
        selector is not None
        and selector.driver in (None, pool.driver)
        and selector.pool in (None, pool.pool_name)
        and selector.device in (None, device.name)
    )


def _with_summaries(
    pool: PoolStatus, use: PoolUse, default: str | None, features: FeatureGates
) -> PoolStatus:
    """Return the pool with its summaries. Only the first error is kept, and with an error there are no partitions."""
    partitions: tuple[PartitionTypeStatus, ...] = ()
    shareable: ShareableSummaryStatus | None = None
    errors = []
    try:
        if features.enabled("DRAPartitionableDevicesType"):
            partitions = partition_summary(use, default)
    except ViewError as error:
        errors.append(str(error))
    try:
        shareable = shareable_summary(use)
    except ViewError as error:
        errors.append(str(error))
    return replace(
        pool,
        partition_summary=() if errors else partitions,
        shareable_summary=shareable,
        validation_error=_shorten(errors[0]) if errors else None,
    )

"""Offers: the devices of a class that could be allocated on a node, and why others could not (``dralab free``)."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from dra_shared.api.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from dra_shared.taints import find_untolerated

from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.picks import Picks
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.reasons import CounterShort, Reason, Tainted
from dra_scheduler.allocator.requests import Request
from dra_scheduler.allocator.selectors import Candidate, Rejection
from dra_scheduler.allocator.state import AllocatedState

Group = Callable[[PoolDevice], Hashable]


@dataclass(frozen=True, slots=True)
class Instead:
    """The device is only available in place of another device of its group, because both need the same counters."""


Refusal = Reason | Rejection | Instead


@dataclass(frozen=True, slots=True)
class Offer:
    """A device of the class. ``refusal`` is the reason why it cannot be allocated, or None if it can."""

    device: PoolDevice
    refusal: Refusal | None


class _Refusals:
    """Remembers why the last device was rejected."""

    def __init__(self) -> None:
        self.last: Reason | None = None

    def turned_away(self, request: Request, pool: Pool, device: PoolDevice, reason: Reason) -> None:
        self.last = reason


def claim_for(class_name: str) -> ResourceClaim:
    """Return a claim for one device of the class."""
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode="ExactCount", count=1)
    devices = DeviceClaim(requests=(DeviceRequest(name="device", exactly=exactly),))
    return ResourceClaim(spec=ResourceClaimSpec(devices=devices))


def offers(
    features: Features,
    state: AllocatedState,
    request: Request,
    candidates: Iterable[Candidate],
    group: Group,
) -> Sequence[Offer]:
    """Return an offer for each candidate, in order.

    Each group of devices is tried as if no other group were requested.
    """
    refusals = _Refusals()
    picks: dict[Hashable, Picks] = {}

    def try_to_give(mine: Picks, device: PoolDevice, pool: Pool) -> bool:
        return (
            mine.free(request, pool, device)
            and mine.fits_capacity(request, pool, device)
            and mine.take(request, pool, device, 0)
        )

    def refusal(device: PoolDevice, pool: Pool, failing: Rejection | None) -> Refusal | None:
        if failing is not None:
            return failing
        if features.device_taints and device.spec.taints:
            # Check the taint first. Otherwise the search would keep the device's counters reserved for the
            # rest of the attempt.
            taint = find_untolerated(
                device.spec.taints, request.tolerations, any_effect=features.any_taint_prevents
            )
            if taint is not None:
                return Tainted(taint)
        key = group(device)
        mine = picks.get(key)
        if mine is None:
            mine = picks[key] = Picks(features, state, (request.claim,), refusals)
        if try_to_give(mine, device, pool):
            return None
        reason = refusals.last
        if isinstance(reason, CounterShort) and try_to_give(
            Picks(features, state, (request.claim,), None), device, pool
        ):
            return Instead()
        return reason

    return [Offer(device, refusal(device, pool, failing)) for device, pool, failing in candidates]

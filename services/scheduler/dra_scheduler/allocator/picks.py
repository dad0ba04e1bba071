"""The devices that the current attempt has picked, and whether another can join them.

Mirrors ``allocateDevice`` in upstream's ``structured/internal/*/allocator_*.go``. The order of checks (counters,
taints, constraints, capacity) is part of the answer: what an earlier check has reserved stays reserved when a later
one fails.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

from dra_shared.api.resource import ResourceClaim
from dra_shared.taints import untolerated

from dra_scheduler.allocator.capacity import NOTHING, Shortage, consumption, shortage
from dra_scheduler.allocator.constraints import Constraint, new_constraint
from dra_scheduler.allocator.counters import Counters
from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.reasons import (
    CapacityShort,
    ConstraintUnmet,
    CountersUnsupported,
    InUse,
    Picked,
    Reason,
    Tainted,
)
from dra_scheduler.allocator.requests import Request
from dra_scheduler.allocator.state import AllocatedState


class Recorder(Protocol):
    """Records why devices were rejected; a Trace."""

    def turned_away(self, request: Request, pool: Pool, device: PoolDevice, reason: Reason) -> None:
        """The device was looked at for the request, and not taken."""


class Pick:
    """One picked device."""

    __slots__ = ("consumed", "consumed_texts", "device", "had_capacity", "pool", "request", "shared")

    def __init__(self, request: Request, pool: Pool, device: PoolDevice, shared: bool) -> None:
        self.request = request
        self.pool = pool
        self.device = device
        self.shared = shared
        # For shared devices: what is consumed, and whether the attempt had consumed any of the device before.
        self.consumed: Mapping[str, int] = NOTHING
        self.consumed_texts: Mapping[str, str] = {}
        self.had_capacity = False


class Picks:
    """What the attempt holds. ``leaks`` counts the times that taking back left something behind, as upstream does."""

    def __init__(
        self,
        features: Features,
        state: AllocatedState,
        claims: Sequence[ResourceClaim],
        recorder: Recorder | None,
    ) -> None:
        self._features = features
        self._state = state
        self._claims = claims
        self._recorder = recorder
        self._constraints: list[list[Constraint]] = [
            [
                constraint
                for spec in claim.spec.devices.constraints
                if (constraint := new_constraint(spec, features)) is not None
            ]
            if claim.spec.devices.constraints
            else []
            for claim in claims
        ]
        # For each device that isn't shared, the claims that picked it, as bits.
        self._holders: dict[PoolDevice, int] = {}
        self._capacity: dict[PoolDevice, dict[str, int]] = {}
        self.counters = Counters(state, features)
        self.of_claim: list[list[Pick]] = [[] for _ in claims]
        self.leaks = 0

    def free(self, request: Request, pool: Pool, device: PoolDevice) -> bool:
        """Whether no other claim holds the device; with admin access, whether the claim itself does not hold it yet."""
        holders = self._holders.get(device, 0)
        if request.admin_access:
            if not holders >> request.claim_index & 1:
                return True
        elif not holders and device.id not in self._state.dedicated:
            return True
        if self._recorder is not None:
            self._recorder.turned_away(request, pool, device, self._why_not_free(device, holders))
        return False

    def _why_not_free(self, device: PoolDevice, holders: int) -> Reason:
        if holders:
            return Picked(tuple(claim.key for i, claim in enumerate(self._claims) if holders >> i & 1))
        return InUse(self._state.dedicated[device.id])

    def capacity_shortage(self, request: Request, device: PoolDevice) -> Shortage | None:
        """What the device lacks of the capacity that the request takes."""
        capacities = device.spec.capacity
        if not capacities and not request.capacity:
            return None
        used = self._state.consumed.get(device.id, NOTHING)
        return shortage(capacities, request.capacity, used, self._capacity.get(device, NOTHING))

    def fits_capacity(self, request: Request, pool: Pool, device: PoolDevice) -> bool:
        """Whether the device has the capacity that the request takes."""
        if not self._features.consumable_capacity:
            return True
        short = self.capacity_shortage(request, device)
        if short is not None and self._recorder is not None:
            self._recorder.turned_away(request, pool, device, CapacityShort(short))
        return short is None

    def take(self, request: Request, pool: Pool, device: PoolDevice, index: int) -> bool:
        """Picks a device that is free, and fits if not all devices are wanted, if everything else allows it.

        It is the request's device number ``index``, counted from 0.

        Raises:
            AllocationError: the request is for all devices, and a constraint keeps them from going together.
        """
        shared = self._features.consumable_capacity and device.allow_multiple
        counted = False
        if device.spec.consumes_counters:
            if not self._features.partitionable_devices:
                self._record(request, pool, device, CountersUnsupported())
                return False
            again = self._features.shares_consume_counters_again
            if again or not (shared and self._partly_consumed(device)):
                if not self.counters.take(pool, device):
                    if self._recorder is not None:
                        self._record(request, pool, device, self.counters.shortage(pool, device))
                    return False
                counted = True
        if self._features.device_taints and device.spec.taints:
            any_effect = self._features.any_taint_prevents
            taint = untolerated(device.spec.taints, request.tolerations, any_effect=any_effect)
            if taint is not None:
                self.leaks += counted
                self._record(request, pool, device, Tainted(taint))
                return False
        if not self._satisfies_constraints(request, pool, device):
            self.leaks += counted
            return False
        claim = request.claim_index
        if not shared:
            self._holders[device] = self._holders.get(device, 0) | 1 << claim
        if not self._fits_at_last(request, pool, device, index):
            # Constraints, counters and the mark on the device stay, as upstream.
            self.leaks += 1
            return False
        pick = Pick(request, pool, device, shared)
        if shared:
            self._consume(pick)
        self.of_claim[claim].append(pick)
        return True

    def _fits_at_last(self, request: Request, pool: Pool, device: PoolDevice, index: int) -> bool:
        """The last check of capacity; where one device is wanted it was made before."""
        if self._features.checks_capacity_of_neighbour:
            at_index = device.siblings[index] if index < len(device.siblings) else device
            return self.fits_capacity(request, pool, at_index)
        return not request.all_devices or self.fits_capacity(request, pool, device)

    def _record(self, request: Request, pool: Pool, device: PoolDevice, reason: Reason) -> None:
        if self._recorder is not None:
            self._recorder.turned_away(request, pool, device, reason)

    def _partly_consumed(self, device: PoolDevice) -> bool:
        return device.id in self._state.consumed or device in self._capacity

    def _satisfies_constraints(self, request: Request, pool: Pool, device: PoolDevice) -> bool:
        constraints = self._constraints[request.claim_index]
        if not constraints:
            return True
        name, subrequest = request.names
        for index, constraint in enumerate(constraints):
            if self._recorder is not None:
                unmet = ConstraintUnmet(
                    index,
                    constraint.kind,
                    constraint.attribute_name,
                    constraint.value(device),
                    constraint.seen(),
                )
            if constraint.add(name, subrequest, device):
                continue
            if self._recorder is not None:
                self._recorder.turned_away(request, pool, device, unmet)
            if request.all_devices:
                raise AllocationError(
                    f"{request.where}: cannot add device {device.id} "
                    "because a claim constraint would not be satisfied"
                )
            for earlier in constraints[:index]:
                if not earlier.remove(name, subrequest, device):
                    self.leaks += 1
            return False
        return True

    def _consume(self, pick: Pick) -> None:
        device = pick.device
        pick.consumed, pick.consumed_texts = consumption(device.spec.capacity, pick.request.capacity)
        pick.had_capacity = device in self._capacity
        totals = self._capacity.setdefault(device, {})
        for name, value in pick.consumed.items():
            totals[name] = totals.get(name, 0) + value

    def give_back(self, claim_index: int) -> None:
        """Takes the claim's last pick back."""
        pick = self.of_claim[claim_index].pop()
        device = pick.device
        constraints = self._constraints[claim_index]
        if constraints:
            name, subrequest = pick.request.names
            for constraint in constraints:
                if not constraint.remove(name, subrequest, device):
                    self.leaks += 1
        if not pick.shared:
            holders = self._holders[device] & ~(1 << claim_index)
            if holders:
                self._holders[device] = holders
            else:
                del self._holders[device]
            if device.spec.consumes_counters:
                self.counters.give_back(pick.pool, device)
            return
        totals = self._capacity.get(device)
        if pick.consumed and totals is not None:
            for name, value in pick.consumed.items():
                totals[name] -= value
            if not any(totals.values()):
                del self._capacity[device]
        if (device in self._capacity) != pick.had_capacity or device.spec.consumes_counters:
            self.leaks += 1

    def touched(self) -> list[tuple[PoolDevice, Pool, Hashable]]:
        """Every device that was picked or, as leaks go, is not as it was at the start; and how it is now."""
        devices = {pick.device: pick.pool for picks in self.of_claim for pick in picks}
        return [(device, pool, self.condition(device)) for device, pool in devices.items()]

    def condition(self, device: PoolDevice) -> Hashable:
        """How the device is now, as far as this attempt goes."""
        totals = self._capacity.get(device)
        return self._holders.get(device, 0), None if totals is None else frozenset(totals.items())

    def constraint_states(self, claim_index: int) -> Hashable:
        """What the claim's constraints remember."""
        return tuple(constraint.state() for constraint in self._constraints[claim_index])

    def constraint_names(self) -> tuple[str, ...]:
        """The attributes that constraints of any of the claims compare."""
        return tuple({c.attribute_name: None for constraints in self._constraints for c in constraints})

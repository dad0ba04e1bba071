"""The devices that the current attempt has picked, and the checks for another device.

Mirrors ``allocateDevice`` in upstream's ``structured/internal/*/allocator_*.go``. The order of the checks
(counters, taints, constraints, capacity) affects the answer, because until 1.36 counters that were reserved by
an earlier check stay reserved if a later check fails.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

from dra_shared.api.resource import DeviceAttribute, ResourceClaim
from dra_shared.taints import find_untolerated

from dra_scheduler.allocator.capacity import NOTHING, Shortage, consumption, shortage
from dra_scheduler.allocator.capacityrange import CapacityError
from dra_scheduler.allocator.compatibility import CompatibilityGroups, Undo
from dra_scheduler.allocator.constraints import Constraint, lookup_attribute, new_constraint
from dra_scheduler.allocator.counters import Counters
from dra_scheduler.allocator.derived import attribute_for
from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.features import Features, Implementation
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.reasons import (
    CapacityShort,
    ConstraintUnmet,
    CountersUnsupported,
    GroupsClash,
    InUse,
    OperationsNotSkipped,
    Picked,
    Reason,
    Tainted,
)
from dra_scheduler.allocator.requests import Request
from dra_scheduler.allocator.state import AllocatedState

_SKIPS = "DRAOptionalNodeOperations"
"""The feature declared by nodes that can skip node operations."""


class Recorder(Protocol):
    """Records why devices were rejected. Implemented by Trace."""

    def turned_away(self, request: Request, pool: Pool, device: PoolDevice, reason: Reason) -> None:
        """Record that the search considered the device for the request and did not take it."""


class Pick:
    """One picked device."""

    __slots__ = (
        "consumed",
        "consumed_texts",
        "counted",
        "device",
        "groups",
        "had_capacity",
        "pool",
        "request",
        "shared",
    )

    def __init__(self, request: Request, pool: Pool, device: PoolDevice, shared: bool) -> None:
        self.request = request
        self.pool = pool
        self.device = device
        self.shared = shared
        # For shared devices: the consumed capacity, and whether an earlier pick of the attempt is also a share
        # of the device.
        self.consumed: Mapping[str, int] = NOTHING
        self.consumed_texts: Mapping[str, str] = {}
        self.had_capacity = False
        # Whether the device's counters are reserved, and the compatibility groups before this pick.
        self.counted = False
        self.groups: Undo = []


class Picks:
    """The picks of an attempt.

    ``leaks`` counts how often removing a pick did not restore the state, which mirrors bugs of upstream.
    """

    def __init__(
        self,
        features: Features,
        state: AllocatedState,
        claims: Sequence[ResourceClaim],
        recorder: Recorder | None,
        declared_features: Sequence[str] = (),
    ) -> None:
        can_skip = features.optional_node_operations and _SKIPS in declared_features
        self._skips_operations = can_skip or not features.operations_are_known
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
        # For each device that is not shared, a bit mask of the claims that picked it.
        self._holders: dict[PoolDevice, int] = {}
        self._capacity: dict[PoolDevice, dict[str, int]] = {}
        self.counters = Counters(state, features)
        self.groups = CompatibilityGroups(state)
        self.of_claim: list[list[Pick]] = [[] for _ in claims]
        self.leaks = 0

    def free(self, request: Request, pool: Pool, device: PoolDevice) -> bool:
        """True if no other claim holds the device. With admin access, only this claim's own picks count."""
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

    def capacity_shortage(
        self, request: Request, device: PoolDevice, *, whole: bool = False
    ) -> Shortage | None:
        """Return the capacity that the device lacks for the request, or None.

        With ``whole``, nothing counts as consumed.

        Raises:
            CapacityError: the amount that the request consumes cannot be computed.
        """
        capacities, features = device.capacity, self._features
        if not capacities and not request.capacity:
            return None
        used = NOTHING if whole else self._state.consumed.get(device.id, NOTHING)
        allocating = NOTHING if whole else self._capacity.get(device, NOTHING)
        return shortage(capacities, request.capacity, used, allocating, features.arithmetic, device.domain)

    def fits_capacity(self, request: Request, pool: Pool, device: PoolDevice) -> bool:
        """True if the device has the capacity that the request consumes.

        Raises:
            AllocationError: the amount that the request consumes cannot be computed.
        """
        if not self._features.consumable_capacity:
            return True
        try:
            short = self.capacity_shortage(request, device)
        except CapacityError as error:
            where = f"{request.where}: checking capacity for device {device.id}"
            raise AllocationError(f"{where}: {error}") from None
        if short is not None and self._recorder is not None:
            self._recorder.turned_away(request, pool, device, CapacityShort(short))
        return short is None

    def take(self, request: Request, pool: Pool, device: PoolDevice, index: int) -> bool:
        """Pick the device if all checks allow it. Return True if it was picked.

        The caller has checked that the device is free and, unless the allocation mode is All, that the capacity
        suffices. ``index`` is the position of the device within the request, from 0.

        Raises:
            AllocationError: a constraint rejects a device of a request with allocation mode All, or a derived
            attribute or the consumed amount cannot be computed.
        """
        shared = self._features.consumable_capacity and device.allow_multiple
        pick = Pick(request, pool, device, shared)
        if not self._is_usable(request, pool, device) or not self._reserve(pick):
            return False
        try:
            accepted = self._is_tolerated(request, pool, device) and self._satisfies_constraints(
                request, pool, device
            )
        except AllocationError:
            self._release(pick)
            raise
        if not accepted:
            self._release(pick)
            return False
        claim = request.claim_index
        if not shared:
            self._holders[device] = self._holders.get(device, 0) | 1 << claim
        if not self._fits_at_last(request, pool, device, index):
            if self._features.takes_all_back:
                self._leave(pick)
            else:
                # As in upstream, the constraints and counters are not restored, and the device stays marked as
                # picked.
                self.leaks += 1
            return False
        if shared:
            self._consume(pick)
        self.of_claim[claim].append(pick)
        return True

    def _is_usable(self, request: Request, pool: Pool, device: PoolDevice) -> bool:
        """True if no property of the device itself prevents its allocation."""
        if self._features.shares_prevent_exclusive_use and not request.admin_access:
            shared = self._features.consumable_capacity and device.allow_multiple
            if not shared and self._partly_consumed(device):
                self._record(request, pool, device, InUse(self._state.owner(device.id)))
                return False
        if device.slice.spec.skip_node_operations and not self._skips_operations:
            disabled = not self._features.optional_node_operations
            self._record(request, pool, device, OperationsNotSkipped(disabled))
            return False
        if device.spec.consumes_counters and not self._features.partitionable_devices:
            self._record(request, pool, device, CountersUnsupported())
            return False
        return True

    def _reserve(self, pick: Pick) -> bool:
        """Reserve the device's counters.

        Return False if too little is left, or if an incompatible device consumes the same counter set.
        """
        request, pool, device = pick.request, pick.pool, pick.device
        if not device.spec.consumes_counters:
            return True
        again = self._features.shares_consume_counters_again
        if not again and pick.shared and self._partly_consumed(device):
            return True
        if self._features.compatibility_groups:
            before = self.groups.take(pool, device)
            if before is None:
                if self._recorder is not None:
                    name, mine, others = self.groups.clash(pool, device)
                    clash = GroupsClash(name, tuple(sorted(mine)), tuple(sorted(others)))
                    self._record(request, pool, device, clash)
                return False
            pick.groups = before
        if not self.counters.take(pool, device):
            if self._recorder is not None:
                self._record(request, pool, device, self.counters.shortage(pool, device))
            self.groups.give_back(pick.groups)
            return False
        pick.counted = True
        return True

    def _release(self, pick: Pick) -> None:
        """Undo everything that :meth:`take` did for an unshared device, or a shared one that is not counted yet."""
        if not self._features.takes_all_back:
            self.leaks += pick.counted
            return
        self.groups.give_back(pick.groups)
        if pick.counted:
            self.counters.give_back(pick.pool, pick.device)

    def _leave(self, pick: Pick) -> None:
        """Undo everything that :meth:`take` did for a device that is not shared, or whose share is not counted yet."""
        request, device = pick.request, pick.device
        name, subrequest = request.names
        for constraint in self._constraints[request.claim_index]:
            constraint.remove(name, subrequest, device)
        if not pick.shared:
            self._unmark(device, request.claim_index)
        self._release(pick)

    def _is_tolerated(self, request: Request, pool: Pool, device: PoolDevice) -> bool:
        if not self._features.device_taints or not device.spec.taints:
            return True
        any_effect = self._features.any_taint_prevents
        taint = find_untolerated(device.spec.taints, request.tolerations, any_effect=any_effect)
        if taint is not None:
            self._record(request, pool, device, Tainted(taint))
        return taint is None

    def _fits_at_last(self, request: Request, pool: Pool, device: PoolDevice, index: int) -> bool:
        """Check the capacity again after all other checks.

        A request for one device skips this: it was checked before.
        """
        if self._features.checks_capacity_of_neighbour:
            at_index = device.siblings[index] if index < len(device.siblings) else device
            return self.fits_capacity(request, pool, at_index)
        return not request.all_devices or self.fits_capacity(request, pool, device)

    def _record(self, request: Request, pool: Pool, device: PoolDevice, reason: Reason) -> None:
        if self._recorder is not None:
            self._recorder.turned_away(request, pool, device, reason)

    def _partly_consumed(self, device: PoolDevice) -> bool:
        if device.id in self._state.consumed or device in self._capacity:
            return True
        return self._features.takes_all_back and device.id in self._state.shared

    def _satisfies_constraints(self, request: Request, pool: Pool, device: PoolDevice) -> bool:
        constraints = self._constraints[request.claim_index]
        if not constraints:
            return True
        name, subrequest = request.names
        for index, constraint in enumerate(constraints):
            if not constraint.applies(name, subrequest):
                continue
            attribute = self._attribute(request, device, constraint, constraints[:index])
            self._check_value(request, device, constraint, attribute, constraints[:index])
            if self._recorder is not None:
                unmet = ConstraintUnmet(
                    index,
                    constraint.kind,
                    constraint.attribute_name,
                    constraint.value(attribute),
                    constraint.compared_values(),
                    attribute is not None,
                )
            if constraint.add(name, subrequest, device, attribute):
                continue
            if self._recorder is not None:
                self._recorder.turned_away(request, pool, device, unmet)
            if request.all_devices:
                raise AllocationError(
                    f"{request.where}: cannot add device {device.id} "
                    "because a claim constraint would not be satisfied"
                )
            self._forget(request, device, constraints[:index])
            return False
        return True

    def _attribute(
        self, request: Request, device: PoolDevice, constraint: Constraint, earlier: Sequence[Constraint]
    ) -> DeviceAttribute | None:
        """Return the attribute that the constraint compares.

        The device is removed again from the ``earlier`` constraints if this raises.
        """
        if not request.derived:
            return lookup_attribute(device, constraint.attribute_name)
        try:
            return attribute_for(
                request.derived, device, constraint.attribute_name, self._features.kubernetes
            )
        except AllocationError:
            self._forget(request, device, earlier)
            raise

    def _check_value(
        self,
        request: Request,
        device: PoolDevice,
        constraint: Constraint,
        attribute: DeviceAttribute | None,
        earlier: Sequence[Constraint],
    ) -> None:
        """Since 1.38, reject a value that cannot be compared.

        Raises:
            AllocationError: the value has an unknown type, is a list without the feature, or no valid version.
        """
        if (
            not self._features.unknown_values_fail
            or attribute is None
            or constraint.value(attribute) is not None
        ):
            return
        self._forget(request, device, earlier)
        text = f"device {device.id}: unsupported attribute value for {constraint.attribute_name}"
        newest = self._features.code is Implementation.EXPERIMENTAL
        raise AllocationError(text if newest else f"{request.where}: {text}")

    def _forget(self, request: Request, device: PoolDevice, constraints: Sequence[Constraint]) -> None:
        name, subrequest = request.names
        for constraint in constraints:
            if not constraint.remove(name, subrequest, device):
                self.leaks += 1

    def _consume(self, pick: Pick) -> None:
        device = pick.device
        pick.consumed, texts = consumption(
            device.capacity, pick.request.capacity, self._features.arithmetic, device.domain
        )
        pick.consumed_texts = {device.published_name(name): text for name, text in texts.items()}
        pick.had_capacity = device in self._capacity
        totals = self._capacity.setdefault(device, {})
        for name, value in pick.consumed.items():
            totals[name] = totals.get(name, 0) + value

    def give_back(self, claim_index: int) -> None:
        """Undo the claim's last pick."""
        pick = self.of_claim[claim_index].pop()
        device = pick.device
        constraints = self._constraints[claim_index]
        if constraints:
            name, subrequest = pick.request.names
            for constraint in constraints:
                if not constraint.remove(name, subrequest, device):
                    self.leaks += 1
        if not pick.shared:
            self._unmark(device, claim_index)
            self.groups.give_back(pick.groups)
            if pick.counted:
                self.counters.give_back(pick.pool, device)
            return
        self._return_share(pick)

    def _unmark(self, device: PoolDevice, claim_index: int) -> None:
        holders = self._holders[device] & ~(1 << claim_index)
        if holders:
            self._holders[device] = holders
        else:
            del self._holders[device]

    def _return_share(self, pick: Pick) -> None:
        device, exact = pick.device, self._features.takes_all_back
        totals = self._capacity.get(device)
        if totals is not None and (pick.consumed or exact):
            for name, value in pick.consumed.items():
                totals[name] -= value
            if not any(totals.values()):
                del self._capacity[device]
        if exact:
            if pick.had_capacity:
                # Another share of the device remains and keeps its counters.
                self._capacity.setdefault(device, {})
            self._release(pick)
        elif (device in self._capacity) != pick.had_capacity or device.spec.consumes_counters:
            self.leaks += 1

    def touched_devices(self) -> list[tuple[PoolDevice, Pool, Hashable]]:
        """Return every device that the attempt picked, or whose state was not restored, with its :meth:`condition`."""
        devices = {pick.device: pick.pool for picks in self.of_claim for pick in picks}
        return [(device, pool, self.condition(device)) for device, pool in devices.items()]

    def condition(self, device: PoolDevice) -> Hashable:
        """Return the attempt's current state of the device as a hashable value."""
        totals = self._capacity.get(device)
        return self._holders.get(device, 0), None if totals is None else frozenset(totals.items())

    def constraint_states(self, claim_index: int) -> Hashable:
        """Return the state of the claim's constraints."""
        return tuple(constraint.state() for constraint in self._constraints[claim_index])

    def constraint_names(self) -> tuple[str, ...]:
        """Return the attributes that constraints of the claims compare."""
        return tuple({c.attribute_name: None for constraints in self._constraints for c in constraints})

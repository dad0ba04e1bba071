"""Devices, shares and capacity in use by allocated claims (upstream's ``structured.AllocatedState``)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dra_shared.api.resource import AllocationResult, ResourceClaim

from dra_scheduler.allocator.amounts import amount


class DeviceID(NamedTuple):
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


PoolID = tuple[str, str]


class Holding(NamedTuple):
    """The part of a device that one claim holds: all of it, or a share with the consumed capacity in billionths.

    Amounts are compared by value: 1Ki equals 1024.
    """

    device: DeviceID
    share: str | None = None
    consumed: tuple[tuple[str, int], ...] = ()


def holdings(allocation: AllocationResult | None, *, shares: bool = True) -> tuple[Holding, ...]:
    """Return the holdings of an allocation, except devices with admin access.

    With ``shares`` off, all count as whole.
    """
    if allocation is None:
        return ()
    found = []
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        device = DeviceID(result.driver, result.pool, result.device)
        if shares and result.share_id is not None:
            consumed = tuple((name, amount(text)) for name, text in sorted(result.consumed_capacity.items()))
            found.append(Holding(device, result.share_id, consumed))
        else:
            found.append(Holding(device))
    return tuple(found)


class AllocatedState:
    """Devices in use (upstream's AllocatedState), updated one claim at a time.

    Must not be changed during an allocation. With ``consumable_capacity`` off, shares count as whole
    devices, as they do upstream while that gate is off.
    """

    def __init__(self, *, consumable_capacity: bool = True) -> None:
        self._shares_known = consumable_capacity
        self._claims: dict[str, tuple[Holding, ...]] = {}
        # Keys of the claims that hold each device. After a race between schedulers, a device can have more than
        # one.
        self.dedicated: dict[DeviceID, tuple[str, ...]] = {}
        self.shared: dict[DeviceID, tuple[str, ...]] = {}
        # Consumed capacity of each device, in billionths. As upstream, an entry is removed once all its
        # amounts are zero.
        self.consumed: dict[DeviceID, dict[str, int]] = {}
        self._versions: dict[PoolID, int] = {}
        self._held_of: dict[PoolID, int] = {}
        self.version = 0

    def add(self, claim: ResourceClaim) -> None:
        """Record the claim's allocation and replace the previous one. A claim without allocation holds nothing."""
        self.hold(claim.key, claim.status.allocation)

    def remove(self, claim: ResourceClaim) -> None:
        """Remove the claim. Ignored if it is unknown."""
        self.hold(claim.key, None)

    def hold(self, key: str, allocation: AllocationResult | None) -> None:
        """Record an allocation that is not stored in a claim yet."""
        self._replace(key, holdings(allocation, shares=self._shares_known))

    def hold_devices(
        self, key: str, devices: Iterable[tuple[DeviceID, str | None, Mapping[str, int]]]
    ) -> None:
        """Record a claim's devices given as (device, share id or None, consumed billionths)."""
        self._replace(
            key, tuple(Holding(d, share, tuple(consumed.items())) for d, share, consumed in devices)
        )

    def _replace(self, key: str, new: tuple[Holding, ...]) -> None:
        old = self._claims.get(key, ())
        if new == old:
            return
        for holding in old:
            self._release(key, holding)
        for holding in new:
            self._take(key, holding)
        if new:
            self._claims[key] = new
        else:
            del self._claims[key]

    def _take(self, key: str, holding: Holding) -> None:
        self._touch(holding.device, 1)
        if holding.share is None:
            self.dedicated[holding.device] = (*self.dedicated.get(holding.device, ()), key)
            return
        self.shared[holding.device] = (*self.shared.get(holding.device, ()), key)
        if holding.consumed:
            totals = self.consumed.setdefault(holding.device, {})
            for name, value in holding.consumed:
                totals[name] = totals.get(name, 0) + value

    def _release(self, key: str, holding: Holding) -> None:
        self._touch(holding.device, -1)
        table = self.dedicated if holding.share is None else self.shared
        holders = list(table[holding.device])
        holders.remove(key)
        if holders:
            table[holding.device] = tuple(holders)
        else:
            del table[holding.device]
        totals = self.consumed.get(holding.device)
        if holding.consumed and totals is not None:
            for name, value in holding.consumed:
                totals[name] -= value
            if not any(totals.values()):
                del self.consumed[holding.device]

    def _touch(self, device: DeviceID, change: int) -> None:
        self.version += 1
        self._held_of[device[:2]] = self._held_of.get(device[:2], 0) + change
        self._versions[device[:2]] = self.version

    def holdings(self, key: str) -> tuple[Holding, ...]:
        """Return the devices and shares that the claim holds."""
        return self._claims.get(key, ())

    def pool_version(self, pool: PoolID) -> int:
        """Return a version that grows with each change of the devices in use in that pool."""
        return self._versions.get(pool, 0)

    def held_of(self, pool: PoolID) -> int:
        """Return the number of the pool's devices and shares that claims hold."""
        return self._held_of.get(pool, 0)

    def in_use(self, device: DeviceID) -> bool:
        """True if a claim holds the device or a share of it."""
        return device in self.dedicated or device in self.shared or device in self.consumed

    def owner(self, device: DeviceID) -> tuple[str, ...]:
        """Return the keys of the claims that hold the device or a share of it."""
        return self.dedicated.get(device, ()) + self.shared.get(device, ())

    def holders(self, pool: PoolID) -> tuple[str, ...]:
        """Return the keys of the claims that hold devices of the pool or shares of them."""
        return tuple(
            key for key, held in self._claims.items() if any(item.device[:2] == pool for item in held)
        )

    def copy(self) -> "AllocatedState":
        """Return an independent copy."""
        other = AllocatedState(consumable_capacity=self._shares_known)
        other._claims = dict(self._claims)
        other.dedicated = dict(self.dedicated)
        other.shared = dict(self.shared)
        other.consumed = {device: dict(totals) for device, totals in self.consumed.items()}
        other._versions = dict(self._versions)
        other._held_of = dict(self._held_of)
        other.version = self.version
        return other

"""The scheduler's state of ResourceClaims, which may be newer than the informer's.

Mirrors the claim tracker in upstream's ``plugins/dynamicresources/dra_manager.go``. A claim has up to three
states, the newest first: *in flight* (allocated for a pod that is being bound, not written yet), *assumed*
(written, not observed yet) and *observed*. Devices that are allocated to the claim in any of these states count
as in use.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dra_shared.api.resource import AllocationResult, DeviceAllocationResult, ResourceClaim
from dra_shared.claims import EXTENDED_RESOURCE_ANNOTATION, controller_of
from dra_shared.numerals import integer, is_digits

from dra_scheduler.allocator import AllocatedState

Pool = tuple[str, str]


class ClaimNotFound(Exception):
    """The informer has not observed the claim yet, or the claim was deleted."""


class ClaimOutdated(Exception):
    """The informer has a newer version of the claim, or another claim with that name."""


@dataclass(slots=True)
class _Pending:
    claim: ResourceClaim
    sharers: int


class ClaimTracker:
    """All claims, and in :attr:`state` all devices in use.

    ``on_use`` is called with the (driver, pool) of devices whenever they become used or free.
    """

    def __init__(
        self,
        *,
        consumable_capacity: bool = True,
        on_use: Callable[[Iterable[Pool]], None] = lambda _: None,
    ) -> None:
        self.state = AllocatedState(consumable_capacity=consumable_capacity)
        self._on_use = on_use
        self._known: dict[str, ResourceClaim] = {}
        self._assumed: dict[str, ResourceClaim] = {}
        self._pending: dict[str, _Pending] = {}
        # The claims for extended resources, by the uid of the pod that owns them.
        self._extended: dict[str, str] = {}
        # For each claim of the informer, the resource version with which its current devices were stored.
        self._stored: dict[str, int] = {}
        # The current allocation of each holder, by the holder's key.
        self._held: dict[str, DeviceAllocationResult] = {}
        self._pools: dict[str, frozenset[Pool]] = {}
        self._watchers: dict[str, set[Callable[[], None]]] = {}

    # Reading

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return the newest state of the claim."""
        key = f"{namespace}/{name}"
        return self._assumed.get(key) or self._known.get(key)

    def __iter__(self) -> Iterator[ResourceClaim]:
        """Iterate over the newest state of all claims."""
        return (self._assumed.get(key, claim) for key, claim in self._known.items())

    def __len__(self) -> int:
        return len(self._known)

    @property
    def assumed_claims(self) -> list[ResourceClaim]:
        """The claims with a state that is newer than the informer's."""
        return list(self._assumed.values())

    @property
    def in_flight(self) -> list[ResourceClaim]:
        """The claims that are in flight, with their pending allocations."""
        return [pending.claim for pending in self._pending.values()]

    def for_extended_resources(self, pod_uid: str) -> ResourceClaim | None:
        """Return the claim that was created for the extended resources of the pod, if there is one."""
        key = self._extended.get(pod_uid)
        return None if key is None else self._assumed.get(key) or self._known.get(key)

    # Informer events

    def set_claim(self, claim: ResourceClaim) -> None:
        """Add or update a claim that the informer observed."""
        key = claim.key
        self._note_stored(self._known.get(key), claim)
        self._known[key] = claim
        assumed = self._assumed.get(key)
        if assumed is not None and (assumed.metadata.uid != claim.metadata.uid or not _newer(assumed, claim)):
            del self._assumed[key]
        if claim.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
            owner = controller_of(claim)
            if owner is not None:
                self._extended[owner.uid] = key
        self._sync(key)
        self._wake(key)

    def delete_claim(self, claim: ResourceClaim) -> None:
        """Remove a claim that was deleted."""
        key = claim.key
        known = self._known.pop(key, None)
        self._assumed.pop(key, None)
        self._stored.pop(key, None)
        owner = controller_of(known) if known is not None else None
        if owner is not None and self._extended.get(owner.uid) == key:
            del self._extended[owner.uid]
        self._sync(key)
        self._wake(key)

    # The order in which allocations were stored, by any scheduler

    def known_version(self, key: str) -> int:
        """Return the resource version of the informer's claim. 0 if there is none."""
        claim = self._known.get(key)
        return revision(claim) if claim is not None else 0

    def stored_at(self, key: str) -> int:
        """Return the resource version with which the devices of the informer's claim were stored. 0 if it has none."""
        return self._stored.get(key, 0)

    def _note_stored(self, old: ResourceClaim | None, new: ResourceClaim) -> None:
        allocation, key = new.status.allocation, new.key
        if allocation is None:
            self._stored.pop(key, None)
            return
        before = old.status.allocation if old is not None and old.metadata.uid == new.metadata.uid else None
        if before is None or before.devices != allocation.devices:
            self._stored[key] = revision(new)

    # State that is newer than the informer's

    def assume(self, claim: ResourceClaim) -> None:
        """Record that the API server has stored ``claim``. The informer may not have observed it yet.

        Raises:
            ClaimNotFound: the informer does not have the claim.
            ClaimOutdated: the informer has a newer version.
        """
        key = claim.key
        known = self._known.get(key)
        if known is None:
            raise ClaimNotFound(key)
        if known.metadata.uid != claim.metadata.uid or _newer(known, claim):
            raise ClaimOutdated(key)
        if known.metadata.resource_version != claim.metadata.resource_version:
            self._assumed[key] = claim
        self._sync(key)

    def restore(self, key: str) -> None:
        """Return to the state that the informer observed."""
        if self._assumed.pop(key, None) is not None:
            self._sync(key)

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        """Return the pending allocation of a claim that is in flight, or None."""
        pending = self._pending.get(uid)
        return pending.claim.status.allocation if pending is not None else None

    def signal_pending(self, claim: ResourceClaim) -> None:
        """Mark the claim as in flight with this allocation. Called once for each pod that shares the claim."""
        uid = claim.metadata.uid
        pending = self._pending.get(uid)
        if pending is not None:
            pending.sharers += 1
            return
        self._pending[uid] = _Pending(claim, 1)
        self._sync_pending(claim, claim.status.allocation)

    def remove_pending(self, uid: str, *, stored: bool) -> bool:
        """Record that a pod no longer needs the pending allocation, because it was stored or given up.

        Return True if the claim is no longer in flight. If it was given up, it stays in flight while other
        pods share it.
        """
        pending = self._pending.get(uid)
        if pending is None:
            return False
        pending.sharers -= 1
        if not stored and pending.sharers > 0:
            return False
        del self._pending[uid]
        self._sync_pending(pending.claim, None)
        return True

    # Watching

    def watch(self, key: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` whenever the claim changes. Calling the returned function ends this."""
        watchers = self._watchers.setdefault(key, set())
        watchers.add(wake)

        def stop() -> None:
            watchers.discard(wake)
            if not watchers and self._watchers.get(key) is watchers:
                del self._watchers[key]

        return stop

    def _wake(self, key: str) -> None:
        for wake in tuple(self._watchers.get(key, ())):
            wake()

    def _sync(self, key: str) -> None:
        claim = self._assumed.get(key) or self._known.get(key)
        allocation = None
        if claim is not None:
            # A stored allocation replaces the pending one. Counting both would count shares twice.
            allocation = claim.status.allocation or self.pending_allocation(claim.metadata.uid)
        self._hold(key, allocation)

    def _sync_pending(self, claim: ResourceClaim, allocation: AllocationResult | None) -> None:
        stored = self._assumed.get(claim.key) or self._known.get(claim.key)
        if stored is not None and stored.metadata.uid == claim.metadata.uid:
            self._sync(claim.key)
            allocation = None
        # A pending claim that does not exist yet, or that has another uid than the one of that name, has its
        # own entry.
        self._hold(f"{claim.key} {claim.metadata.uid}", allocation)

    def _hold(self, key: str, allocation: AllocationResult | None) -> None:
        devices = allocation.devices if allocation is not None else None
        if devices == self._held.get(key):
            return
        if devices is not None:
            self._held[key] = devices
        else:
            del self._held[key]
        before = self.state.version
        self.state.hold(key, allocation)
        if self.state.version == before:
            return
        used: frozenset[Pool] = frozenset()
        if allocation is not None:
            used = frozenset((result.driver, result.pool) for result in allocation.devices.results)
        self._on_use(used | self._pools.pop(key, frozenset()))
        if used:
            self._pools[key] = used


def revision(claim: ResourceClaim) -> int:
    """Return the claim's resource version as a number, or 0 if it is not a number."""
    text = claim.metadata.resource_version
    return integer(text) if is_digits(text) else 0


def _newer(one: ResourceClaim, other: ResourceClaim) -> bool:
    return revision(one) > revision(other)

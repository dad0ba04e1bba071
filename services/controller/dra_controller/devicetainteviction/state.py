"""The pods that must be deleted and when. The state is kept current event by event.

No I/O: work goes into a queue, and the state says whether it is still needed. Events may come in any order
and more than once; the state depends only on the last version of each object. Mirrors
pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.claims import (
    SCHEDULING_GROUP,
    ClaimReferenceError,
    check_for_pod,
    claim_name,
    is_reserved_for_pod,
)
from dra_shared.client.store import Store
from dra_shared.clock import Clock, parse_rfc3339
from dra_shared.taints import NO_EXECUTE, rule_matches, tolerates

from dra_controller.devicetainteviction.model import (
    Eviction,
    PodRef,
    Reason,
    RuleRef,
    RuleTaint,
    SliceTaint,
    Work,
    join,
)
from dra_controller.devicetainteviction.pool import Pool

GROUP_INDEX = "podGroupMembers"
RULE_STATUS_SECONDS = 10.0

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class AllocatedClaim:
    """A claim with devices.

    ``eviction`` is the time at which its pods must be deleted, with the reasons; None if they may stay.
    """

    claim: ResourceClaim
    eviction: Eviction | None


class EvictionState:
    """The evictions that are due (see the docstring of the module).

    ``schedule`` takes work and the seconds until it is due; ``cancelled`` takes pods that may stay after
    all. With ``any_effect``, as since 1.38, a toleration without an effect covers NoExecute.
    """

    def __init__(
        self,
        pods: Store[Pod],
        clock: Clock,
        schedule: Callable[[Work, float], None],
        cancelled: Callable[[PodRef], None],
        *,
        pod_groups: bool,
        any_effect: bool = False,
    ) -> None:
        self._pods = pods
        self._clock = clock
        self._schedule = schedule
        self._cancelled = cancelled
        self._pod_groups = pod_groups
        self._any_effect = any_effect
        self.claims: dict[str, AllocatedClaim] = {}
        self.pools: dict[tuple[str, str], Pool] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.evictions: dict[PodRef, Eviction] = {}
        self.evicted_by_rule: dict[str, int] = {}

    def simulation(self) -> "EvictionState":
        """Return a copy for a dry run: it schedules nothing and has no rules."""
        copy = EvictionState(
            self._pods,
            self._clock,
            lambda work, delay: None,
            lambda pod: None,
            pod_groups=self._pod_groups,
            any_effect=self._any_effect,
        )
        copy.claims = dict(self.claims)
        copy.pools = self.pools
        return copy

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self.claim_changed(old, None)
            self.claim_changed(None, new)
            return
        if new is not None and new.status.allocation is not None:
            known = self.claims.get(new.key) if old is not None else None
            same = known is not None and known.claim.status.allocation == new.status.allocation
            eviction = known.eviction if same and known is not None else self._claim_eviction(new)
            self.claims[new.key] = AllocatedClaim(new, eviction)
        elif old is not None or new is not None:
            gone = old or new
            assert gone is not None
            if self.claims.pop(gone.key, None) is None and (old is None or old.status.allocation is None):
                return
        if old is not None and (new is None or old.status.reserved_for != new.status.reserved_for):
            self._check_consumers(old)
        if new is not None:
            self._check_consumers(new)

    def slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None and new is not None and _pool_of(old) != _pool_of(new):
            self.slice_changed(old, None)
            self.slice_changed(None, new)
            return
        piece = new or old
        assert piece is not None
        key = _pool_of(piece)
        pool = self.pools.setdefault(key, Pool())
        before = pool.evicting_taints()
        if old is not None:
            pool.remove(old)
        if new is not None:
            pool.add(new)
        if not pool:
            del self.pools[key]
        after = pool.evicting_taints()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if not changed:
            return
        for name, known in list(self.claims.items()):
            if any(
                (result.driver, result.pool) == key and result.device in changed for result in _results(known)
            ):
                self._reconsider(name, known)

    def rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if (
            old is not None
            and new is not None
            and old.metadata.uid == new.metadata.uid
            and old.spec == new.spec
        ):
            return
        if new is not None:
            # Update the rule's status at once, so that users see it before any pod is evicted.
            self._schedule(RuleRef.of(new.metadata), 0.0)
        if old is not None:
            self.rules.pop(old.metadata.name, None)
            if new is None or new.metadata.uid != old.metadata.uid:
                self.evicted_by_rule.pop(old.metadata.uid, None)
        if new is not None and new.spec.taint.effect == NO_EXECUTE:
            self.rules[new.metadata.name] = new
        for name, known in list(self.claims.items()):
            self._reconsider(name, known)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self.evictions.pop(PodRef.of(old.metadata), None)
            return
        if (
            old is not None
            and old.metadata.uid == new.metadata.uid
            and old.spec.node_name == new.spec.node_name
            and old.status.resource_claim_statuses == new.status.resource_claim_statuses
            and old.status.extended_resource_claim_status == new.status.extended_resource_claim_status
        ):
            # Skip changes that do not matter, because pods change often. The eviction itself sets a condition.
            return
        self._check_pod(new)

    def pending(self, rule: DeviceTaintRule) -> tuple[int, int]:
        """Return how many pods must be deleted because of the rule, and in how many namespaces."""
        namespaces: set[str] = set()
        number = 0
        for pod in self._pods.list():
            if pod.metadata.deletion_timestamp is not None:
                continue
            eviction = self.pod_eviction(pod)
            if eviction is not None and rule.metadata.uid in rule_uids(eviction):
                number += 1
                namespaces.add(pod.metadata.namespace)
        return number, len(namespaces)

    def count_selected(self, rule: DeviceTaintRule) -> tuple[int, int]:
        """Return how many published devices, and how many allocated ones, the rule selects."""
        published = sum(
            selects(rule, driver, pool, device.name)
            for (driver, pool), slices in self.pools.items()
            for piece in slices.current()
            for device in piece.spec.devices
        )
        allocated = sum(
            selects(rule, result.driver, result.pool, result.device)
            for known in self.claims.values()
            for result in _results(known)
        )
        return published, allocated

    def pod_eviction(self, pod: Pod) -> Eviction | None:
        """Return the eviction of the pod; None if it may stay."""
        if not pod.spec.node_name:
            return None
        eviction: Eviction | None = None
        for name, check in _claims_of(pod):
            known = self.claims.get(f"{pod.metadata.namespace}/{name}")
            if known is None or known.eviction is None:
                continue
            if check:
                try:
                    check_for_pod(pod, known.claim, pod_groups=self._pod_groups)
                except ClaimReferenceError:
                    continue
            # If the pod has no reservation, the claim may belong to another pod, such as an earlier one with
            # the same name.
            if is_reserved_for_pod(pod, known.claim, pod_groups=self._pod_groups):
                eviction = join(eviction, known.eviction)
        return eviction

    def _reconsider(self, name: str, known: AllocatedClaim) -> None:
        eviction = self._claim_eviction(known.claim)
        if eviction != known.eviction:
            self.claims[name] = AllocatedClaim(known.claim, eviction)
            self._check_consumers(known.claim)

    def _claim_eviction(self, claim: ResourceClaim) -> Eviction | None:
        """Return the earliest time at which a taint is not tolerated any more, with all such taints."""
        when = _NEVER
        reasons: dict[tuple[object, ...], Reason] = {}
        assert claim.status.allocation is not None
        for result in claim.status.allocation.devices.results:
            for reason in self._taints(result):
                moment = _intolerable_at(result, reason, self._any_effect)
                if moment is not None:
                    reasons[reason.order] = reason
                    when = min(when, moment)
        if not reasons:
            return None
        return Eviction(when, tuple(reasons[order] for order in sorted(reasons)))

    def _taints(self, result: DeviceRequestAllocationResult) -> Iterator[Reason]:
        pool = self.pools.get((result.driver, result.pool))
        found = pool.find(result.device) if pool is not None else None
        if found is not None:
            piece, device = found
            for index, taint in enumerate(device.taints):
                if taint.effect == NO_EXECUTE:
                    yield SliceTaint(piece, device, index)
        for rule in self.rules.values():
            if selects(rule, result.driver, result.pool, result.device):
                yield RuleTaint(rule)

    def _check_consumers(self, claim: ResourceClaim) -> None:
        namespace = claim.metadata.namespace
        for consumer in claim.status.reserved_for:
            if not consumer.api_group and consumer.resource == "pods":
                pod = self._pods.get(f"{namespace}/{consumer.name}")
                if pod is not None and pod.metadata.uid == consumer.uid:
                    self._check_pod(pod)
            elif self._pod_groups and (consumer.api_group, consumer.resource) == (
                SCHEDULING_GROUP,
                "podgroups",
            ):
                for pod in self._pods.by_index(GROUP_INDEX, f"{namespace}/{consumer.name}"):
                    self._check_pod(pod)

    def _check_pod(self, pod: Pod) -> None:
        ref = PodRef.of(pod.metadata)
        eviction = self.pod_eviction(pod)
        if eviction is None:
            if self.evictions.pop(ref, None) is not None:
                self._cancelled(ref)
            return
        self.evictions[ref] = eviction
        delay = (eviction.when - self._clock.now()).total_seconds()
        self._schedule(ref, max(0.0, delay))
        for reason in eviction.reasons:
            if isinstance(reason, RuleTaint):
                # Update the rule's status a bit later, because more pods are likely to follow.
                self._schedule(RuleRef.of(reason.rule.metadata), RULE_STATUS_SECONDS)


def selects(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Return True if the rule evicts from the device (upstream's ``ruleMatchesDevice``).

    A rule without a selector evicts from none, although until 1.36 the slice tracker of the scheduler taints all
    devices for it. An empty selector selects all devices for both.
    """
    return rule.spec.device_selector is not None and rule_matches(rule, driver, pool, device)


def rule_uids(eviction: Eviction) -> set[str]:
    """Return the uids of the rules among the reasons."""
    return {reason.rule.metadata.uid for reason in eviction.reasons if isinstance(reason, RuleTaint)}


def _intolerable_at(
    result: DeviceRequestAllocationResult, reason: Reason, any_effect: bool
) -> datetime | None:
    """Return the time at which the claim stops tolerating the taint; None if it always tolerates it.

    The tolerations are those that the scheduler copied into the allocation, not those of the claim.
    """
    added = reason.taint.time_added
    start = parse_rfc3339(added) if added else datetime.fromtimestamp(0, UTC)
    shortest: int | None = None
    for toleration in result.tolerations:
        # Unlike in the scheduler, a toleration without an effect does not count here before 1.38.
        covers = toleration.effect == NO_EXECUTE or (any_effect and not toleration.effect)
        if not covers or not tolerates(toleration, reason.taint):
            continue
        if toleration.toleration_seconds is None:
            return None
        seconds = max(0, toleration.toleration_seconds)
        shortest = seconds if shortest is None else min(shortest, seconds)
    if shortest is None:
        return start
    try:
        return start + timedelta(seconds=shortest)
    except OverflowError:
        return _NEVER


def _claims_of(pod: Pod) -> Iterable[tuple[str, bool]]:
    """Yield the names of the pod's claims, each with True if the claim must be owned by the pod."""
    for entry in pod.spec.resource_claims:
        try:
            name, check = claim_name(pod, entry)
        except ClaimReferenceError:
            continue
        if name is not None:
            yield name, check
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        yield extended.resource_claim_name, True


def _results(known: AllocatedClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    allocation = known.claim.status.allocation
    return allocation.devices.results if allocation is not None else ()


def _pool_of(piece: ResourceSlice) -> tuple[str, str]:
    return piece.spec.driver, piece.spec.pool.name

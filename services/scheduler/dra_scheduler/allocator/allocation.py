"""The allocator: takes claims, returns allocation results.

Mirrors ``Allocate`` in upstream's ``structured/internal/*/allocator_*.go``. The order of steps decides which
error a call ends with: pools first, then the claims, then the devices of requests with allocation mode All,
then the search.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from dra_shared.api.node import Node
from dra_shared.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice

from dra_scheduler.allocator.capacity import Shortage
from dra_scheduler.allocator.capacityrange import CapacityError
from dra_scheduler.allocator.equivalence import DeviceEquivalence
from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.feasibility import infeasible
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.nodes import node_matches
from dra_scheduler.allocator.offers import Group, Offer, claim_for, offers
from dra_scheduler.allocator.picks import Picks, Recorder
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.reasons import CapacityShort, OtherNode
from dra_scheduler.allocator.requests import (
    MAX_RESULTS,
    Attempt,
    ClaimEnd,
    Entry,
    Request,
    RequestEnd,
    check_claims,
)
from dra_scheduler.allocator.result import ShareIds, derived_share_id, results
from dra_scheduler.allocator.search import Outcome, Search, selector_error
from dra_scheduler.allocator.selectors import Candidate, Compile, Rejection, Selectors
from dra_scheduler.allocator.snapshot import Snapshot
from dra_scheduler.allocator.solo import judge
from dra_scheduler.allocator.state import AllocatedState
from dra_scheduler.allocator.trace import Trace
from dra_scheduler.allocator.views import Needs, View

Classes = Mapping[str, DeviceClass] | Callable[[str], DeviceClass | None]


class Allocator:
    """Allocate devices for claims. The package's docstring describes its use."""

    def __init__(
        self,
        features: Features,
        allocated: AllocatedState,
        classes: Classes,
        slices: Snapshot | Iterable[ResourceSlice],
        *,
        compile: Compile | None = None,
        share_ids: ShareIds = derived_share_id,
    ) -> None:
        self.features = features
        self.allocated = allocated
        self.snapshot = slices if isinstance(slices, Snapshot) else Snapshot(features, slices)
        if self.snapshot.features != features:
            raise ValueError("the snapshot was made for other features")
        self._lookup = classes.get if isinstance(classes, Mapping) else classes
        self._selectors = Selectors(features, compile)
        self._needs = Needs(features)
        self.share_ids = share_ids
        self._attempt: Attempt | None = None

    def allocate(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        *,
        check: Callable[[], None] | None = None,
        trace: Trace | None = None,
    ) -> tuple[AllocationResult, ...] | None:
        """Return the first solution for all the claims on the node, or None if there is none.

        ``check`` is called now and then and stops the search by raising, usually :class:`TimeLimit`.

        Raises:
            AllocationError: an invalid claim, class or slice ended the search.
        """
        try:
            return self._allocate(node, claims, check, trace)
        except AllocationError as error:
            if trace is not None:
                trace.fail(str(error))
            raise

    def _allocate(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        check: Callable[[], None] | None,
        trace: Trace | None,
    ) -> tuple[AllocationResult, ...] | None:
        view = self.snapshot.view(node)
        attempt = self._check_claims(claims)
        if trace is not None:
            trace.begin(node, view.pools, attempt)
        if check is not None:
            check()
        run = _Run(self.features, self.allocated, attempt, node, view, trace)
        try:
            return self._search(run, attempt, node, view, check, trace)
        finally:
            if trace is not None and trace.alone:
                run.judge(trace)

    def _search(
        self,
        run: "_Run",
        attempt: Attempt,
        node: Node,
        view: View,
        check: Callable[[], None] | None,
        trace: Trace | None,
    ) -> tuple[AllocationResult, ...] | None:
        all_devices = run.prepare()
        search = Search(
            self.features,
            attempt,
            run.picks,
            run.candidates,
            all_devices,
            run.equivalence,
            run.is_infeasible,
            check,
            trace,
        )
        outcome = search.run()
        if outcome is Outcome.DONE:
            found = results(
                attempt,
                run.picks.of_claim,
                search.selected_alternatives(),
                node.metadata.name,
                self.features,
                self.share_ids,
            )
            if trace is not None:
                trace.end(found)
            return found
        if outcome is Outcome.EXCEEDED:
            raise AllocationError("allocation max size exceeded")
        if view.any_invalid and not self.features.pools_are_the_nodes:
            raise AllocationError("invalid resource pools were encountered", only_this_node=True)
        return None

    def offers(self, node: Node, class_name: str, group: Group) -> Sequence[Offer]:
        """Return an offer for each device that the class selects on the node.

        The offer of a device that cannot be allocated states the reason. Each group of devices is counted as if
        every claim requested one device of that group only. Claims for different groups may not fit together,
        because partitions of one device displace each other.

        Raises:
            AllocationError: the class or a slice's node selector is invalid.
        """
        claims = (claim_for(class_name),)
        attempt = check_claims(claims, self.features, self._lookup, self._selectors, self._needs)
        run = _Run(self.features, self.allocated, attempt, node, self.snapshot.view(node), None)
        run.prepare()
        (request,) = attempt.requests
        return offers(self.features, self.allocated, request, run.reachable(request), group)

    def devices_of(self, class_name: str) -> list[PoolDevice]:
        """Return all published devices that the class selects, on any node. Empty if the class does not exist."""
        device_class = self._lookup(class_name)
        if device_class is None:
            return []
        texts = [each.cel.expression for each in device_class.spec.selectors if each.cel is not None]
        selection = self._selectors.selection(tuple(texts), ())
        return [device for device in self.snapshot.devices() if selection.rejection(device) is None]

    def stamp(self, node_name: str) -> tuple[int, ...]:
        """Return a value that is unchanged as long as :meth:`allocate` would give the node the same devices."""
        known = self.snapshot.known_pools(node_name)
        if known is None:
            return (*self.snapshot.stamp(node_name), self.allocated.version)
        return (
            *self.snapshot.stamp(node_name),
            *(self.allocated.pool_version(pool.id) for pool in known if pool.open),
        )

    def _check_claims(self, claims: Sequence[ResourceClaim]) -> Attempt:
        known = self._attempt
        if (
            known is not None
            and len(known.claims) == len(claims)
            and all(old is new for old, new in zip(known.claims, claims, strict=True))
            and all(self._lookup(name) is device_class for name, device_class in known.classes)
        ):
            return known
        self._attempt = check_claims(claims, self.features, self._lookup, self._selectors, self._needs)
        return self._attempt


class _Run:
    """The state of one call of ``allocate``."""

    def __init__(
        self,
        features: Features,
        allocated: AllocatedState,
        attempt: Attempt,
        node: Node,
        view: View,
        trace: Trace | None,
    ) -> None:
        self._features = features
        self._allocated = allocated
        self._attempt = attempt
        self._node = node
        self._view = view
        self._trace = trace
        self._candidates: dict[int, Sequence[Candidate]] = {}
        self._all_devices: dict[int, list[tuple[PoolDevice, Pool]]] = {}
        self.picks = self._new_picks(trace)

    def _new_picks(self, recorder: Recorder | None) -> Picks:
        declared = self._node.status.declared_features
        return Picks(self._features, self._allocated, self._attempt.claims, recorder, declared)

    def judge(self, trace: Trace) -> None:
        """Complete the trace with a verdict on every device for every request considered alone."""
        judge(trace, self._attempt.requests, self.reachable, self._new_picks)

    def prepare(self) -> dict[int, list[tuple[PoolDevice, Pool]]]:
        """Run the checks that depend on the node. Return the devices of each request with allocation mode All."""
        for check in self._attempt.checks:
            if isinstance(check, Request):
                self._all_devices[check.number] = self._everything(check)
            elif isinstance(check, RequestEnd):
                self._count_request(check)
            elif isinstance(check, ClaimEnd):
                self._count(check)
            else:
                raise check.with_traceback(None)
        return self._all_devices

    def _everything(self, request: Request) -> list[tuple[PoolDevice, Pool]]:
        found = []
        selecting = self._selecting_request(request)
        for pool in self._view.pools:
            if not pool.usable:
                state = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"{request.where}: asks for all devices, but resource pool {pool} is currently {state}",
                    only_this_node=self._features.incomplete_pools_fail_on_node,
                )
            for device, _, failing in self._of_pool(selecting, pool):
                if failing is not None:
                    raise AllocationError(selector_error(request, device, failing, self._features))
                short = self._shortage(request, device)
                if short is None:
                    found.append((device, pool))
                elif self._trace is not None:
                    self._trace.turned_away(request, pool, device, CapacityShort(short))
        return found

    def _selecting_request(self, request: Request) -> Request:
        """Return the request whose selectors choose the devices of a request with allocation mode All.

        Until 1.35 the first two alternatives share a cache, so the second one gets the devices that the first
        one selects.
        """
        if self._features.alternatives_end_as_the_first:
            for entry in self._attempt.entries:
                first, *others = entry.alternatives
                if request in others[:1] and first.all_devices:
                    return first
        return request

    def _shortage(self, request: Request, device: PoolDevice) -> Shortage | None:
        if not self._features.consumable_capacity:
            return None
        whole = self._features.whole_capacity_counts_for_all
        try:
            return self.picks.capacity_shortage(request, device, whole=whole)
        except CapacityError as error:
            name = device.spec.name
            raise AllocationError(f"{request.where}: checking capacity for device {name}: {error}") from None

    def _least(self, entry: Entry) -> int:
        """Return the minimum number of devices that the entry needs."""
        return min(
            len(self._all_devices[request.number]) if request.all_devices else request.count
            for request in entry.alternatives
        )

    def _count_request(self, end: RequestEnd) -> None:
        *before, last = end.entries
        known, more = sum(map(self._least, before)), self._least(last)
        if more > MAX_RESULTS - known:
            raise AllocationError(
                f"claim {end.claim.key}, request {last.spec.name}: adding {more} devices exceeds the claim limit of "
                f"{MAX_RESULTS}, with {known} already accounted for"
            )

    def _count(self, end: ClaimEnd) -> None:
        total = sum(map(self._least, end.entries))
        if total > MAX_RESULTS and not self._features.requests_are_counted:
            raise AllocationError(
                f"claim {end.claim.key}: number of requested devices {total} "
                f"exceeds the claim limit of {MAX_RESULTS}"
            )
        if end.error is not None:
            raise end.error.with_traceback(None)

    def candidates(self, request: Request) -> Sequence[Candidate]:
        """Return the devices to try for the request, in order."""
        known = self._candidates.get(request.number)
        if known is None:
            if request.admin_access or self._trace is not None or self._view.needs_care:
                known = self.reachable(request)
            else:
                known = self._view.candidates(request.need, self._allocated)
                if self._view.any_per_device:
                    known = [
                        item
                        for item in known
                        if item[2] is not None or self._is_here(request, item[0], item[1])
                    ]
            self._candidates[request.number] = known
        return known

    def reachable(self, request: Request) -> list[Candidate]:
        """Return all devices that the selectors accept, in use or not, in order."""
        return [item for pool in self._view.pools for item in self._reachable_of(request, pool)]

    def _reachable_of(self, request: Request, pool: Pool) -> Sequence[Candidate]:
        if pool.barrier is not None:
            error = f"pool {pool.id[1]} is invalid: {pool.invalid_reason}"
            return [(pool.barrier, pool, Rejection(False, -1, "", error))]
        return self._of_pool(request, pool) if pool.open else ()

    def _of_pool(self, request: Request, pool: Pool) -> Sequence[Candidate]:
        if self._trace is not None:
            self._trace.selectors_applied(request, pool)
        found = request.selection.candidates(pool)
        if not pool.per_device:
            return found
        located: list[Candidate] = []
        for item in found:
            device, _, failing = item
            if failing is not None:
                located.append(item)
                continue
            try:
                if self._is_here(request, device, pool):
                    located.append(item)
            except AllocationError as error:
                located.append((device, pool, Rejection(False, -1, "", str(error))))
        return located

    def _is_here(self, request: Request, device: PoolDevice, pool: Pool) -> bool:
        if not device.slice.spec.per_device_node_selection:
            return True
        spec = device.spec
        if node_matches(self._node, spec.node_name, spec.all_nodes, spec.node_selector):
            return True
        if self._trace is not None:
            self._trace.turned_away(request, pool, device, OtherNode())
        return False

    def equivalence(self) -> DeviceEquivalence:
        """Return the object that computes which devices are interchangeable in this attempt."""
        wanted = (device for devices in self._all_devices.values() for device, _ in devices)
        return DeviceEquivalence(self._features, self._allocated, self.picks, self._attempt.requests, wanted)

    def is_infeasible(self) -> bool:
        """True if there is certainly no solution."""
        return infeasible(self._attempt, self._features, self._allocated, self.candidates, self._all_devices)

"""The requests of a scheduling attempt's claims: validated once, used for every node.

Mirrors upstream's ``validateDeviceRequest`` in ``structured/internal/*/allocator_*.go``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dra_shared.api.resource import (
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

from dra_scheduler.allocator.constraints import MatchAttribute, new_constraint
from dra_scheduler.allocator.errors import AllocationError, ClassLookupError
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.selectors import Selection, Selectors
from dra_scheduler.allocator.views import Need, Needs

# resource/v1 AllocationResultsMaxSize
MAX_RESULTS = 32

ClassLookup = Callable[[str], DeviceClass | None]


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request or subrequest in the form that the search needs."""

    number: int  # its index among all requests and subrequests of the attempt
    claim_index: int
    claim: ResourceClaim
    name: str
    parent: str  # the request that contains the subrequest, or empty
    device_class: DeviceClass
    selection: Selection
    all_devices: bool
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, str]
    need: Need
    # The CEL expression of each derived attribute.
    derived: Mapping[str, str]

    @property
    def full_name(self) -> str:
        """The name in results and configurations: ``request`` or ``request/subrequest``."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def names(self) -> tuple[str, str]:
        """The names of the request and the subrequest (or empty), as arguments for constraints."""
        return (self.parent, self.name) if self.parent else (self.name, "")

    @property
    def where(self) -> str:
        """The prefix of error messages."""
        return f"claim {self.claim.key}, request {self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A request with its alternatives: only itself, or its subrequests in order of preference."""

    claim_index: int
    spec: DeviceRequest
    alternatives: tuple[Request, ...]
    prioritized: bool
    # True for the first request of each claim except the first claim. Upstream restarts counting results there.
    starts_claim: bool


@dataclass(frozen=True, slots=True)
class RequestEnd:
    """A check of the number of devices that the claim's first requests need, up to the last of ``entries``."""

    claim: ResourceClaim
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class ClaimEnd:
    """A check after all requests of a claim: count its devices, and raise ``error`` if it is set."""

    claim: ResourceClaim
    entries: tuple[Entry, ...]
    error: AllocationError | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """The claims of a scheduling attempt after the checks that do not depend on the node.

    ``checks`` are the remaining checks for each node, in upstream's order: a request for all devices, a
    request or claim whose devices have to be counted, or the error that ends the attempt.
    """

    claims: tuple[ResourceClaim, ...]
    entries: tuple[Entry, ...]
    checks: tuple["Request | RequestEnd | ClaimEnd | AllocationError", ...]
    requests: tuple[Request, ...]
    classes: tuple[tuple[str, DeviceClass | None], ...]


class _Checker:
    def __init__(self, features: Features, lookup: ClassLookup, selectors: Selectors, needs: Needs) -> None:
        self._features = features
        self._lookup = lookup
        self._selectors = selectors
        self._needs = needs
        self._requests: list[Request] = []
        self._classes: list[tuple[str, DeviceClass | None]] = []

    def attempt(self, claims: Sequence[ResourceClaim]) -> Attempt:
        entries: list[Entry] = []
        checks: list[Request | RequestEnd | ClaimEnd | AllocationError] = []
        try:
            for index, claim in enumerate(claims):
                mine: list[Entry] = []
                for spec in claim.spec.devices.requests:
                    self._check_gates(claim, spec)
                    alternatives: list[Request] = []
                    for part in spec.first_available or (spec.exactly or ExactDeviceRequest(),):
                        request = self._request(index, claim, spec, part)
                        alternatives.append(request)
                        if request.all_devices:
                            checks.append(request)
                    mine.append(
                        Entry(
                            index,
                            spec,
                            tuple(alternatives),
                            bool(spec.first_available),
                            index > 0 and not mine,
                        )
                    )
                    if self._features.requests_are_counted:
                        checks.append(RequestEnd(claim, tuple(mine)))
                checks.append(ClaimEnd(claim, tuple(mine), self._constraint_error(claim)))
                entries.extend(mine)
        except AllocationError as error:
            checks.append(error)
        return Attempt(
            tuple(claims), tuple(entries), tuple(checks), tuple(self._requests), tuple(self._classes)
        )

    def _check_gates(self, claim: ResourceClaim, spec: DeviceRequest) -> None:
        if spec.first_available and not self._features.prioritized_list:
            raise AllocationError(
                f"claim {claim.key}, request {spec.name}: has subrequests, "
                "but the DRAPrioritizedList feature is disabled"
            )
        if self._features.consumable_capacity or not self._features.knows_shares:
            return
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if self._features.pools_are_the_nodes and any(
            part.capacity is not None for part in spec.first_available
        ):
            raise AllocationError(f"claim {claim.key}, request {spec.name}: {disabled}")
        if spec.exactly is not None and spec.exactly.capacity is not None:
            raise AllocationError(f"claim {claim.key}, request {spec.name}: {disabled}")
        for part in spec.first_available:
            if part.capacity is not None:
                raise AllocationError(f"claim {claim.key}, subrequest {part.name}: {disabled}")

    def _request(
        self,
        claim_index: int,
        claim: ResourceClaim,
        spec: DeviceRequest,
        part: ExactDeviceRequest | DeviceSubRequest,
    ) -> Request:
        name, parent, admin = spec.name, "", False
        if isinstance(part, DeviceSubRequest):
            name, parent = part.name, spec.name
        where = f"claim {claim.key}, request {name}"
        derived = part.derived_attributes if self._features.derivations_are_known else ()
        if derived and not self._features.derived_attributes:
            raise AllocationError(
                f"{where}: cannot handle request with derived attributes, the feature is disabled"
            )
        expressions = []
        for index, selector in enumerate(part.selectors):
            if selector.cel is None:
                raise AllocationError(
                    f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)"
                )
            expressions.append(selector.cel.expression)
        if isinstance(part, ExactDeviceRequest) and part.admin_access is not None:
            if not self._features.admin_access:
                raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
            admin = part.admin_access
        if not part.device_class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._class(where, part.device_class_name)
        if part.allocation_mode not in ("ExactCount", "All"):
            raise AllocationError(f"{where}: unsupported count mode {part.allocation_mode}")
        of_class = [
            "" if selector.cel is None else selector.cel.expression
            for selector in device_class.spec.selectors
        ]
        selection = self._selectors.selection(tuple(of_class), tuple(expressions))
        capacity = {} if part.capacity is None else part.capacity.requests
        request = Request(
            number=len(self._requests),
            claim_index=claim_index,
            claim=claim,
            name=name,
            parent=parent,
            device_class=device_class,
            selection=selection,
            all_devices=part.allocation_mode == "All",
            count=part.count or 0,
            admin_access=admin,
            tolerations=part.tolerations,
            capacity=capacity,
            need=self._needs.need(selection, capacity, part.tolerations),
            derived={attribute.name: attribute.expression for attribute in derived},
        )
        self._requests.append(request)
        return request

    def _class(self, where: str, name: str) -> DeviceClass:
        prefix = f"{where}: could not retrieve device class {name}: "
        try:
            found = self._lookup(name)
        except ClassLookupError as error:
            raise AllocationError(f"{prefix}{error}") from error
        self._classes.append((name, found))
        if found is None:
            raise AllocationError(f'{prefix}deviceclass.resource.k8s.io "{name}" not found')
        return found

    def _constraint_error(self, claim: ResourceClaim) -> AllocationError | None:
        for index, spec in enumerate(claim.spec.devices.constraints):
            known = new_constraint(spec, self._features)
            if known is None or (not self._features.knows_shares and not isinstance(known, MatchAttribute)):
                return AllocationError(
                    f"claim {claim.key}, constraint #{index}: empty constraint (unsupported constraint type?)"
                )
        return None


def check_claims(
    claims: Sequence[ResourceClaim],
    features: Features,
    lookup: ClassLookup,
    selectors: Selectors,
    needs: Needs,
) -> Attempt:
    """Check everything about the claims that is the same for all nodes.

    Errors are stored, to be raised in upstream's order.
    """
    return _Checker(features, lookup, selectors, needs).attempt(claims)

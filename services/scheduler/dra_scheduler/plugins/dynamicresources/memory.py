"""The plugin's state in one scheduling attempt (upstream's ``stateData``)."""

from dataclasses import dataclass, field

from dra_shared.api.node import NodeSelector
from dra_shared.api.pod import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus, Pod
from dra_shared.api.resource import AllocationResult, DeviceRequest, ResourceClaim

from dra_scheduler.allocator import AllocationError
from dra_scheduler.plugins.dynamicresources.podclaims import PodClaims


@dataclass(slots=True)
class ClaimInfo:
    """One of the pod's claims: the nodes where its allocation can be used, and the allocation of this attempt.

    ``stored`` is the resource version with which the allocation was stored.
    """

    available_on: NodeSelector | None = None
    allocation: AllocationResult | None = None
    stored: int = 0


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """The result of Filter for a node: allocations for the unallocated claims in order, and related data.

    ``requests`` are those of the claim for extended resources, or None if the node needs no such claim.
    """

    results: tuple[AllocationResult, ...] = ()
    requests: tuple[DeviceRequest, ...] | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    node_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


@dataclass(slots=True)
class SharedMemory:
    """Data that attempts for equal pods share while the nodes do not change.

    ``blueprint`` are claims with the specs of the pod's claims. They are passed to the allocator in place
    of the pod's claims, so that its cached results for them apply to the next pod as well.
    """

    blueprint: tuple[ResourceClaim, ...] = ()
    allocations: dict[str, NodeAllocation] = field(default_factory=dict)
    # The claims for extended resources, by the requests that nodes need.
    extended: dict[tuple[DeviceRequest, ...], ResourceClaim] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffloadedSearch:
    """The result of a search in a thread. It is valid while the allocator's ``stamp`` for the node is unchanged."""

    stamp: tuple[int, ...]
    results: tuple[AllocationResult, ...] | None = None
    error: AllocationError | None = None


@dataclass(slots=True)
class AttemptMemory:
    """One attempt. ``extended`` are the requested extended resources, ``reserved`` is Reserve's allocation."""

    claims: PodClaims = field(default_factory=PodClaims)
    infos: list[ClaimInfo] = field(default_factory=list)
    allocate: bool = False
    extended: tuple[str, ...] = ()
    unavailable: set[int] = field(default_factory=set)
    shared: SharedMemory = field(default_factory=SharedMemory)
    reserved: NodeAllocation | None = None
    # By node: the time at which the search has to end, and the result of a search in a thread.
    deadlines: dict[str, float] = field(default_factory=dict)
    offloaded: dict[str, OffloadedSearch] = field(default_factory=dict)
    # True if the claims' long expressions have been compiled in a thread.
    compiled: bool = False


@dataclass(slots=True)
class GroupMemory:
    """One attempt for a whole pod group: its claims in flight, by uid, and the attempts of its pods."""

    pending: set[str] = field(default_factory=set)
    attempts: dict[str, tuple[Pod, AttemptMemory]] = field(default_factory=dict)

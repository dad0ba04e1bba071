"""The plugin's state in one scheduling attempt (upstream's ``stateData``)."""

from dataclasses import dataclass, field

from dra_shared.api.node import NodeSelector
from dra_shared.api.pod import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus, Pod
from dra_shared.api.resource import AllocationResult, DeviceRequest, ResourceClaim

from dra_scheduler.allocator import AllocationError
from dra_scheduler.plugins.dynamicresources.podclaims import PodClaims


@dataclass(slots=True)
class ClaimInfo:
    """About one of the pod's claims: where its allocation can be used, and what this attempt allocates for it.

    ``stored`` is the revision that this was stored in.
    """

    available_on: NodeSelector | None = None
    allocation: AllocationResult | None = None
    stored: int = 0


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """What Filter found for a node: results for the unallocated claims in order, and what goes with them.

    ``requests`` are those of the claim for extended resources, None if the node needs no such claim.
    """

    results: tuple[AllocationResult, ...] = ()
    requests: tuple[DeviceRequest, ...] | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    node_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


@dataclass(slots=True)
class SharedMemory:
    """What the attempts for equal pods have in common, as long as the nodes don't change.

    ``blueprint`` are the claims to hand to the allocator in place of the pod's own, which have the same spec: what it
    worked out about them for one pod serves for the next.
    """

    blueprint: tuple[ResourceClaim, ...] = ()
    allocations: dict[str, NodeAllocation] = field(default_factory=dict)
    # The claim for extended resources with the requests that nodes turned out to need.
    extended: dict[tuple[DeviceRequest, ...], ResourceClaim] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffloadedSearch:
    """What a search in a thread came to: it holds as long as the allocator's ``stamp`` for the node is the same."""

    stamp: tuple[int, ...]
    results: tuple[AllocationResult, ...] | None = None
    error: AllocationError | None = None


@dataclass(slots=True)
class AttemptMemory:
    """One attempt. ``extended`` are the extended resources that it asks for; ``reserved`` is what Reserve took."""

    claims: PodClaims = field(default_factory=PodClaims)
    infos: list[ClaimInfo] = field(default_factory=list)
    allocate: bool = False
    extended: tuple[str, ...] = ()
    unavailable: set[int] = field(default_factory=set)
    shared: SharedMemory = field(default_factory=SharedMemory)
    reserved: NodeAllocation | None = None
    # By node: when the search has to end, and what a search in a thread found.
    deadlines: dict[str, float] = field(default_factory=dict)
    offloaded: dict[str, OffloadedSearch] = field(default_factory=dict)
    # Whether the claims' expressions are compiled, where that takes long.
    compiled: bool = False


@dataclass(slots=True)
class GroupMemory:
    """One attempt for a whole pod group: the claims that it has in flight, by uid, and its pods' own attempts."""

    pending: set[str] = field(default_factory=set)
    attempts: dict[str, tuple[Pod, AttemptMemory]] = field(default_factory=dict)

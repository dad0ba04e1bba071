"""Score: prefers nodes where earlier alternatives of prioritized lists are allocated (``computeScore``)."""

from collections.abc import Iterable, Sequence

from dra_shared.api.resource import AllocationResult, ResourceClaim

# FirstAvailableDeviceRequestMaxSize of resource.k8s.io.
_LONGEST_LIST = 8


class TooFewAllocations(Exception):
    """There are claims without an allocation."""


def compute_score(claims: Iterable[ResourceClaim], allocations: Sequence[AllocationResult]) -> int:
    """Return the sum of 8 for each chosen first alternative, 7 for each second, and so on.

    ``allocations`` are those of the claims without a stored one, in the same order.

    Raises:
        TooFewAllocations: a claim has no allocation.
    """
    score = 0
    fresh = iter(allocations)
    for claim in claims:
        allocation = claim.status.allocation or next(fresh, None)
        if allocation is None:
            raise TooFewAllocations(
                f"number of allocations {len(allocations)} is smaller than number of claims needing allocation"
            )
        chosen = {result.request for result in allocation.devices.results}
        for request in claim.spec.devices.requests:
            for rank, alternative in enumerate(request.first_available):
                if f"{request.name}/{alternative.name}" in chosen:
                    score += _LONGEST_LIST - rank
    return score

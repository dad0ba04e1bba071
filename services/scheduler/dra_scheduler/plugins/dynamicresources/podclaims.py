"""The claims of one pod in one scheduling attempt.

Mirrors upstream's ``pkg/scheduler/framework/plugins/dynamicresources/claims.go``.
"""

from collections.abc import Iterator, Sequence

from dra_shared.api.resource import ResourceClaim, ResourceClaimConsumerReference


class PodClaims:
    """The pod's claims in the order of ``spec.resourceClaims``, then the one for its extended resources, if any.

    ``bindings`` are the consumers that each claim is reserved for, if it is not the pod itself.
    """

    def __init__(
        self,
        user: Sequence[ResourceClaim] = (),
        extended: ResourceClaim | None = None,
        bindings: Sequence[ResourceClaimConsumerReference] = (),
    ) -> None:
        self._claims = list(user)
        self._bindings = tuple(bindings)
        self._users = len(self._claims)
        self.initial_extended_uid = ""
        if extended is not None:
            self._claims.append(extended)
            self.initial_extended_uid = extended.metadata.uid

    def __bool__(self) -> bool:
        return bool(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[ResourceClaim]:
        return iter(tuple(self._claims))

    def __getitem__(self, index: int) -> ResourceClaim:
        return self._claims[index]

    def __setitem__(self, index: int, claim: ResourceClaim) -> None:
        self._claims[index] = claim

    @property
    def user(self) -> Sequence[ResourceClaim]:
        """The claims that the pod's spec names."""
        return tuple(self._claims[: self._users])

    @property
    def extended_claim(self) -> ResourceClaim | None:
        """The claim for extended resources, or None."""
        return self._claims[self._users] if len(self._claims) > self._users else None

    @property
    def extended_index(self) -> int:
        """The index of the claim for extended resources, or -1."""
        return self._users if len(self._claims) > self._users else -1

    def iter_unallocated(self) -> Iterator[tuple[int, ResourceClaim]]:
        """Return the claims without a stored allocation, each with its index."""
        return ((index, claim) for index, claim in enumerate(self._claims) if claim.status.allocation is None)

    def binding(self, index: int) -> ResourceClaimConsumerReference | None:
        """Return the consumer that the claim is reserved for, or None for the pod."""
        return self._bindings[index] if index < len(self._bindings) else None

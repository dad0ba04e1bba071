"""Claims that were just created and that the informer may not have reported yet.

Mirrors pkg/controller/resourceclaim/uid_cache.go and the mutation cache of controller.go.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import controller_of
from dra_shared.clock import Clock

# Only a claim that was created and deleted while the watch was down stays this long.
_KEEP_SECONDS = 3600.0


@dataclass(frozen=True)
class _Entry:
    claim: ResourceClaim
    until: float


class CreatedClaims:
    """Remembers created claims until the informer has them.

    Otherwise a retry that comes before the watch event would create a second claim.
    """

    def __init__(self, clock: Clock, known: Callable[[str], ResourceClaim | None]) -> None:
        self._clock = clock
        self._known = known
        self._entries: dict[str, _Entry] = {}

    def add(self, claim: ResourceClaim) -> None:
        now = self._clock.monotonic()
        self._entries = {key: entry for key, entry in self._entries.items() if entry.until > now}
        if self._known(claim.key) is None:
            self._entries[claim.key] = _Entry(claim, now + _KEEP_SECONDS)

    def discard(self, key: str) -> None:
        """Forget a claim that the informer has reported, or that is known to be gone."""
        self._entries.pop(key, None)

    def owned_by(self, uid: str) -> list[ResourceClaim]:
        """Return the claims whose controller has that uid and that the informer does not have."""
        found = []
        for key, entry in self._entries.items():
            owner = controller_of(entry.claim)
            if owner is not None and owner.uid == uid and self._known(key) is None:
                found.append(entry.claim)
        return found

"""The writes of a controller that its informer has not reported yet.

A controller that counts what its informer knows would create or delete too many objects if it did not wait for its own
writes to come back. Mirrors the expectations in pkg/controller/controller_utils.go.
"""

from dra_shared.api.meta import Object
from dra_shared.clock import Clock

from dra_controller.uids import RecentUids

# As upstream: after this time the controller trusts the informer as it is.
_TIMEOUT_SECONDS = 300.0
_UNSURE_SECONDS = 2.0


class Expectations:
    """The writes that each owner waits to see in the informer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, dict[str, float]] = {}
        self._owners: dict[str, str] = {}
        self._seen = RecentUids(4096)
        self._gone = RecentUids(4096)

    def expect_creation(self, owner: str, obj: Object) -> None:
        """Expect to see ``obj``, which was created for ``owner``."""
        if obj.metadata.uid not in self._seen:
            self._expect(owner, obj.metadata.uid)

    def expect_deletion(self, owner: str, obj: Object) -> None:
        """Expect the deletion of ``obj`` of ``owner`` to be reported."""
        if obj.metadata.uid not in self._gone:
            self._expect(owner, f"-{obj.metadata.uid}")

    def stop_expecting(self, obj: Object) -> None:
        """Stop waiting for the deletion of ``obj``, which failed or may have failed."""
        self._settle(f"-{obj.metadata.uid}")

    def expect_unknown(self, owner: str) -> None:
        """Give the informer a moment to report a write for ``owner`` that may have succeeded or not."""
        self._expect(owner, f"?{owner}", _UNSURE_SECONDS)

    def note_seen(self, obj: Object) -> None:
        """Record that the informer has reported ``obj``, so that its creation is no longer awaited."""
        uid = obj.metadata.uid
        self._seen.add(uid)
        self._settle(uid)
        if obj.metadata.deletion_timestamp is not None:
            self.note_gone(obj)

    def note_gone(self, obj: Object) -> None:
        """Record that the informer reported that ``obj`` is deleted or about to be."""
        uid = obj.metadata.uid
        self._seen.add(uid)
        self._gone.add(uid)
        self._settle(uid)
        self._settle(f"-{uid}")

    def is_satisfied(self, owner: str) -> bool:
        """Return True if the informer has reported all creations and deletions that were made for ``owner``."""
        pending = self._pending.get(owner)
        if not pending:
            return True
        if max(pending.values()) > self._clock.monotonic():
            return False
        self.forget(owner)
        return True

    def seconds_left(self, owner: str) -> float:
        """Return the seconds until the controller trusts the informer without waiting."""
        pending = self._pending.get(owner)
        return max(0.0, max(pending.values()) - self._clock.monotonic()) if pending else 0.0

    def forget(self, owner: str) -> None:
        """Forget an owner that is gone."""
        for token in self._pending.pop(owner, {}):
            self._owners.pop(token, None)

    def _expect(self, owner: str, token: str, seconds: float = _TIMEOUT_SECONDS) -> None:
        self._pending.setdefault(owner, {})[token] = self._clock.monotonic() + seconds
        self._owners[token] = owner

    def _settle(self, token: str) -> None:
        owner = self._owners.pop(token, None)
        if owner is not None and owner in self._pending:
            self._pending[owner].pop(token, None)
            if not self._pending[owner]:
                del self._pending[owner]

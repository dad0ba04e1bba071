"""What preemption would do on nodes, kept for pods of equal signature as long as those nodes do not change.

Upstream tries the nodes in parallel each time (``DryRunPreemption`` in ``pkg/scheduler/framework/preemption``);
one after the other that takes long where many pods preempt.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from dra_scheduler.framework.cache import Cache

T = TypeVar("T")


class DryRuns(Generic[T]):
    """Results by node, for one signature; ``circumstances`` is what else they depend on."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._position = cache.position
        self._circumstances: Hashable = None
        self._results: dict[str, T] = {}

    def refresh(self, circumstances: Hashable) -> None:
        """Forget the nodes that changed; all if the circumstances are others."""
        changed = self._cache.changed_since(self._position)
        if changed is None or circumstances != self._circumstances:
            self._results.clear()
        else:
            for name in changed:
                self._results.pop(name, None)
        self._position = self._cache.position
        self._circumstances = circumstances

    def get(self, name: str) -> T | None:
        """What was found for the node, if that still holds."""
        return self._results.get(name)

    def keep(self, name: str, result: T) -> None:
        """Keep what was found for the node as it is now."""
        self._results[name] = result

"""Results of preemption dry runs, cached for pods with equal signatures until the nodes change.

Upstream tries the nodes in parallel each time (``DryRunPreemption`` in
``pkg/scheduler/framework/preemption``). Trying them one after the other takes long if many pods preempt.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from dra_scheduler.framework.cache import Cache

T = TypeVar("T")


class DryRuns(Generic[T]):
    """Results by node for one signature. ``circumstances`` is everything else that they depend on."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._position = cache.position
        self._circumstances: Hashable = None
        self._results: dict[str, T] = {}

    def refresh(self, circumstances: Hashable) -> None:
        """Forget the results of nodes that changed, or all of them if the circumstances changed."""
        changed = self._cache.changed_since(self._position)
        if changed is None or circumstances != self._circumstances:
            self._results.clear()
        else:
            for name in changed:
                self._results.pop(name, None)
        self._position = self._cache.position
        self._circumstances = circumstances

    def get(self, name: str) -> T | None:
        """Return the cached result for the node, or None."""
        return self._results.get(name)

    def keep(self, name: str, result: T) -> None:
        """Cache the result for the current state of the node."""
        self._results[name] = result

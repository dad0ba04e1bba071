"""The equivalence cache: pods with equal signatures share verdicts on nodes until the nodes change.

Upstream reuses the results of the previous pod with the same signature (OpportunisticBatching). This cache
keeps the results of many signatures, and drops the results only of nodes that the
:class:`~dra_scheduler.framework.cache.Cache` logs as changed.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.status import Status

Scores = tuple[int, ...]


class Feasible:
    """The nodes that can take the pod, with their raw scores, and also grouped by equal scores."""

    def __init__(self) -> None:
        self.scores: dict[str, Scores] = {}
        self.names: dict[Scores, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __contains__(self, name: object) -> bool:
        return name in self.scores

    def put(self, name: str, scores: Scores) -> None:
        """Add a node that is not in the set."""
        self.scores[name] = scores
        self.names.setdefault(scores, {})[name] = None

    def drop(self, name: str) -> None:
        """Remove the node if it is in the set."""
        scores = self.scores.pop(name, None)
        if scores is not None:
            group = self.names[scores]
            del group[name]
            if not group:
                del self.names[scores]


class EquivalenceClass:
    """The verdicts for pods of one signature: nodes are feasible, failed, or not examined since they changed.

    ``shared`` holds the data that plugins computed about the nodes.
    """

    def __init__(self, cache: Cache, start: int = 0) -> None:
        self._cache = cache
        self._position = (-1, 0)
        self._start = start
        self.feasible = Feasible()
        self.failed: dict[str, Status] = {}
        self.unknown: dict[str, None] = {}
        self.shared: dict[str, Any] = {}
        self._scorers: tuple[str, ...] = ()

    def score_by(self, plugins: tuple[str, ...]) -> None:
        """Use these score plugins from now on. Scores of other plugins are dropped."""
        if plugins != self._scorers:
            self.unknown = {**dict.fromkeys(self.feasible), **self.unknown}
            self.feasible = Feasible()
            self._scorers = plugins

    def refresh(self) -> None:
        """Drop the verdicts on nodes that changed."""
        changed = self._cache.changed_since(self._position)
        if changed is None:
            names = [info.name for info in self._cache.nodes()]
            start = self._start % len(names) if names else 0
            self.feasible, self.failed, self.shared = Feasible(), {}, {}
            self.unknown = dict.fromkeys(names[start:] + names[:start])
        else:
            for name in changed:
                self._drop(name)
        self._position = self._cache.position

    def _drop(self, name: str) -> None:
        self.feasible.drop(name)
        self.failed.pop(name, None)
        if self._cache.node(name) is not None:
            self.unknown[name] = None
        else:
            self.unknown.pop(name, None)

    def is_current(self, name: str) -> bool:
        """True if the node has not changed since :meth:`refresh`."""
        changed = self._cache.changed_since(self._position)
        return changed is not None and name not in changed

    def restrict(self, names: Iterable[str]) -> None:
        """Examine only these nodes from now on."""
        allowed = set(names)
        self.unknown = {name: None for name in self.unknown if name in allowed}


class EquivalenceCache:
    """The classes of the most recently used signatures, at most ``capacity``."""

    def __init__(self, cache: Cache, capacity: int = 64) -> None:
        self._cache = cache
        self._capacity = capacity
        self._by_signature: OrderedDict[Hashable, EquivalenceClass] = OrderedDict()

    def get(self, signature: Hashable | None, start: int) -> EquivalenceClass:
        """Return the equivalence class of the signature. For None, return a new class that is not cached.

        A new class starts to examine nodes at number ``start``.
        """
        if signature is None:
            return EquivalenceClass(self._cache, start)
        found = self._by_signature.get(signature)
        if found is None:
            found = self._by_signature[signature] = EquivalenceClass(self._cache, start)
            if len(self._by_signature) > self._capacity:
                self._by_signature.popitem(last=False)
        else:
            self._by_signature.move_to_end(signature)
        return found

"""What is known of the nodes for pods of one signature, so that equal pods don't have every node examined again."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.status import Status

Scores = tuple[int, ...]


class Feasible:
    """Nodes that can take the pod, each with its raw scores; those with equal scores are found together."""

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
        """The node, which is not among them, can take the pod."""
        self.scores[name] = scores
        self.names.setdefault(scores, {})[name] = None

    def drop(self, name: str) -> None:
        """The node is not known to."""
        scores = self.scores.pop(name, None)
        if scores is not None:
            alike = self.names[scores]
            del alike[name]
            if not alike:
                del self.names[scores]


class Verdicts:
    """Nodes that can take such a pod with their raw scores, nodes that can't, and nodes not examined as they are.

    ``shared`` is where plugins keep what they found for the nodes.
    """

    def __init__(self, cache: Cache, start: int = 0) -> None:
        self._cache = cache
        self._position = (-1, 0)
        self._start = start
        self.feasible = Feasible()
        self.failed: dict[str, Status] = {}
        self.unknown: dict[str, None] = {}
        self.shared: dict[str, Any] = {}
        self._raters: tuple[str, ...] = ()

    def rated_by(self, plugins: tuple[str, ...]) -> None:
        """These plugins score from now on; what others said of the nodes is forgotten."""
        if plugins != self._raters:
            self.unknown = {**dict.fromkeys(self.feasible), **self.unknown}
            self.feasible = Feasible()
            self._raters = plugins

    def refresh(self) -> None:
        """Forget what is no longer certain."""
        changed = self._cache.changed_since(self._position)
        if changed is None:
            names = [info.name for info in self._cache.nodes()]
            start = self._start % len(names) if names else 0
            self.feasible, self.failed, self.shared = Feasible(), {}, {}
            self.unknown = dict.fromkeys(names[start:] + names[:start])
        else:
            for name in changed:
                self._forget(name)
        self._position = self._cache.position

    def _forget(self, name: str) -> None:
        self.feasible.drop(name)
        self.failed.pop(name, None)
        if self._cache.node(name) is not None:
            self.unknown[name] = None
        else:
            self.unknown.pop(name, None)

    def is_current(self, name: str) -> bool:
        """Whether the node has not changed since :meth:`refresh`."""
        changed = self._cache.changed_since(self._position)
        return changed is not None and name not in changed

    def restrict(self, names: Iterable[str]) -> None:
        """Only these nodes are in question."""
        allowed = set(names)
        self.unknown = {name: None for name in self.unknown if name in allowed}


class VerdictMemory:
    """The verdicts for the signatures seen most recently."""

    def __init__(self, cache: Cache, capacity: int = 64) -> None:
        self._cache = cache
        self._capacity = capacity
        self._by_signature: OrderedDict[Hashable, Verdicts] = OrderedDict()

    def get(self, signature: Hashable | None, start: int) -> Verdicts:
        """The verdicts for pods of that signature; new ones for a pod that is one of a kind."""
        if signature is None:
            return Verdicts(self._cache, start)
        found = self._by_signature.get(signature)
        if found is None:
            found = self._by_signature[signature] = Verdicts(self._cache, start)
            if len(self._by_signature) > self._capacity:
                self._by_signature.popitem(last=False)
        else:
            self._by_signature.move_to_end(signature)
        return found

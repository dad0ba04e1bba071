"""Fetch the usage of nodes from kubelets on request, and cache it for a moment.

metrics-server fetches all of them every fifteen seconds. Here the first request takes two samples, a second
apart. While requests continue, each new sample is compared with the previous one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from dra_shared.clock import Clock

from dra_apiserver.kinds.metrics.samples import Sample

Fetch = Callable[[str], Awaitable[Sample | None]]
"""Returns a sample of the node of that name; None if there is none."""

# In seconds: the lifetime of a response, the highest age of a sample to compare with, and the interval
# between the first two.
_FRESH, _STALE, _APART = 5.0, 60.0, 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Two samples of a node. `taken` is the monotonic time of the last one."""

    before: Sample
    last: Sample
    taken: float


class Scraper:
    """The samples of nodes."""

    def __init__(self, clock: Clock, fetch: Fetch) -> None:
        self._clock = clock
        self._fetch = fetch
        self._kept: dict[str, Pair] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def pairs(self, nodes: Iterable[str]) -> Mapping[str, Pair]:
        """Return the samples of these nodes, without those that cannot be fetched."""
        names = list(dict.fromkeys(nodes))
        self._forget()
        found = await asyncio.gather(*map(self._pair, names))
        return {name: pair for name, pair in zip(names, found, strict=True) if pair is not None}

    async def _pair(self, node: str) -> Pair | None:
        # Concurrent requests share the response.
        async with self._locks[node]:
            kept = self._kept.get(node)
            age = self._age(kept)
            if kept is not None and age < _FRESH:
                return kept
            before = kept.last if kept is not None and age < _STALE else None
            if before is None and (before := await self._fetch(node)) is not None:
                await self._clock.sleep(_APART)
            last = None if before is None else await self._fetch(node)
            if before is None or last is None:
                self._kept.pop(node, None)
                return None
            made = self._kept[node] = Pair(before, last, self._clock.monotonic())
            return made

    def _age(self, pair: Pair | None) -> float:
        return _STALE if pair is None else self._clock.monotonic() - pair.taken

    def _forget(self) -> None:
        for node in [node for node, pair in self._kept.items() if self._age(pair) >= _STALE]:
            del self._kept[node]
        for node in [
            node for node, lock in self._locks.items() if node not in self._kept and not lock.locked()
        ]:
            del self._locks[node]

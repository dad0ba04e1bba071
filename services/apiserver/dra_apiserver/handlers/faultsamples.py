"""Samples of the cluster from the server's own store, to judge faults by."""

from __future__ import annotations

from typing import Any

from dra_shared.api.codec import decode
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.faults.story import Sample

from dra_apiserver.storage import Store


class Samples:
    """Reads samples. Each revision of an object is decoded once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, dict[str, tuple[int, Any]]] = {}

    async def look(self) -> Sample:
        """Return the current state of the cluster."""
        return Sample(
            pods=self._of(PODS),
            claims=self._of(RESOURCE_CLAIMS),
            slices=self._of(RESOURCE_SLICES),
            nodes=self._of(NODES),
        )

    def _of(self, resource: Any) -> dict[str, Any]:
        before, now = self._known.get(resource.plural, {}), dict[str, tuple[int, Any]]()
        for key, record in self._store.collection((resource.group, resource.plural)).records.items():
            known = before.get(key)
            if known is None or known[0] != record.revision:
                known = record.revision, decode(resource, record.data)
            now[key] = known
        self._known[resource.plural] = now
        return {obj.metadata.uid: obj for _, obj in now.values()}

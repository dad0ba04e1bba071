"""The objects of a resource at an earlier revision."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import takewhile

from dra_apiserver.storage.collection import Collection
from dra_apiserver.storage.records import Record

_STEP = 500

Versions = Callable[[int, Sequence[int]], Awaitable[list[Record]]]
"""Reads the versions with these revisions, which were the newest ones at the first argument.

The result may end early.
"""


class Snapshot:
    """The objects whose keys start with `prefix` and follow `after`, as they were at `revision`.

    It is computed at once from the objects of one moment and the earlier states of the keys that have changed
    since. `before` has these states: None for no object, and a revision if only the database has the version.
    """

    def __init__(
        self,
        collection: Collection,
        before: Mapping[str, Record | int | None],
        versions: Versions,
        revision: int,
        prefix: str,
        after: str,
    ) -> None:
        self._revision = revision
        self._versions = versions
        self._near: dict[str, Record] = {}
        self._far: dict[str, int] = {}
        for key in collection.range(prefix, after):
            if key not in before:
                self._near[key] = collection.records[key]
        for key, found in before.items():
            if not key.startswith(prefix) or key <= after:
                continue
            if isinstance(found, int):
                self._far[key] = found
            elif found is not None:
                self._near[key] = found
        self.keys = sorted([*self._near, *self._far])

    async def records(self, keys: Sequence[str]) -> AsyncIterator[list[Record]]:
        """Yield the objects of these keys, in their order, in steps that fit into memory.

        Raises:
            StatusError: 410, the revision is compacted.
        """
        position = 0
        while position < len(keys):
            step = keys[position : position + _STEP]
            records = [self._near[key] for key in takewhile(self._near.__contains__, step)]
            if not records:
                far = [self._far[key] for key in takewhile(self._far.__contains__, step)]
                records = await self._versions(self._revision, far)
            position += len(records)
            yield records

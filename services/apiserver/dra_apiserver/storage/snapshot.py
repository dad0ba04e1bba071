"""The objects of a resource at an earlier revision."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import takewhile

from dra_apiserver.storage.collection import Collection
from dra_apiserver.storage.records import Record

_STEP = 500

Versions = Callable[[int, Sequence[int]], Awaitable[list[Record]]]
"""Reads the versions with these revisions, the newest ones at the revision that comes first; it may end early."""


class Snapshot:
    """The objects whose keys start with `prefix` and follow `after`, as they were at `revision`.

    It is made without a pause from the objects of a moment and what was there under each key that has changed since:
    `before` has None for nothing, and the version's revision where only the database has the version.
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
        """The objects of these keys, in their order, in steps that memory can hold.

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

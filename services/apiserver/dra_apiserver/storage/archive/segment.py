"""Pack many versions of objects into two blobs: their heads, and their JSON.

The versions of one object are neighbours, so that zstd stores only the differences from the version before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import zstandard

from dra_apiserver.storage.sessions import Item, Packed

_LEVEL = 1


class Head(NamedTuple):
    """The members of an item except its data, which is in the bodies from `start` to `end`."""

    revision: int
    key: str
    type: int
    time: int
    author: str
    start: int
    end: int


def pack(items: Sequence[Item]) -> Packed:
    """Pack the items, sorted by key and revision."""
    ordered = sorted(items, key=lambda item: (item.key, item.revision))
    keys = {key: place for place, key in enumerate(dict.fromkeys(item.key for item in ordered))}
    authors = {author: place for place, author in enumerate(dict.fromkeys(item.author for item in ordered))}
    first = min((item.revision for item in ordered), default=0)
    begin = min((item.time for item in ordered), default=0)
    columns = {
        "keys": list(keys),
        "authors": list(authors),
        "first": first,
        "begin": begin,
        "revision": [item.revision - first for item in ordered],
        "key": [keys[item.key] for item in ordered],
        "type": [item.type for item in ordered],
        "time": [item.time - begin for item in ordered],
        "author": [authors[item.author] for item in ordered],
        "length": [len(item.data) for item in ordered],
    }
    bodies = b"".join([item.data for item in ordered])
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    return Packed(compressor.compress(orjson.dumps(columns)), compressor.compress(bodies), len(bodies))


def read_heads(packed: bytes) -> list[Head]:
    """Return the heads, sorted by key and revision."""
    columns: dict[str, Any] = orjson.loads(zstandard.ZstdDecompressor().decompress(packed))
    keys, authors = columns["keys"], columns["authors"]
    first, begin = columns["first"], columns["begin"]
    found = []
    end = 0
    for revision, key, type, time, author, length in zip(
        columns["revision"],
        columns["key"],
        columns["type"],
        columns["time"],
        columns["author"],
        columns["length"],
        strict=True,
    ):
        start, end = end, end + length
        found.append(Head(first + revision, keys[key], type, begin + time, authors[author], start, end))
    return found


def read_bodies(packed: bytes) -> memoryview:
    """Return the data of all items, one after the other."""
    return memoryview(zstandard.ZstdDecompressor().decompress(packed))

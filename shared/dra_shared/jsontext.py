"""Encode JSON objects of any depth.

orjson is the fastest encoder, but fails beyond 254 levels. API objects may be deeper: a schema has two levels
for each level that it describes.
"""

from typing import Any

import msgspec
import orjson

MAX_DEPTH = 500
"""The levels of objects and arrays that an API object may have."""


class TooDeep(ValueError):
    """The value has more than :data:`MAX_DEPTH` levels."""

    def __init__(self) -> None:
        super().__init__("exceeded max depth")


def dumps(value: Any, option: int = 0) -> bytes:
    """Encode ``value`` like ``orjson.dumps``, with the options ``OPT_SORT_KEYS`` and ``OPT_INDENT_2``.

    Raises:
        TooDeep: it has too many levels.
        orjson.JSONEncodeError: it has a value that JSON does not support.
    """
    try:
        return orjson.dumps(value, option=option)
    except orjson.JSONEncodeError:
        if _levels(value) < _ORJSON_DEPTH:
            raise
    text = msgspec.json.encode(value, order="sorted" if option & orjson.OPT_SORT_KEYS else None)
    return msgspec.json.format(text, indent=2) if option & orjson.OPT_INDENT_2 else text


_ORJSON_DEPTH = 250


def _levels(value: Any) -> int:
    levels = 0
    level = [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        levels += 1
        if levels > MAX_DEPTH:
            raise TooDeep
        level = [below for one in level for below in (one.values() if isinstance(one, dict) else one)]
    return levels

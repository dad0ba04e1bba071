"""JSON texts of objects, however deep they are.

orjson is the fastest encoder there is, and gives up at 254 levels; API objects may have more (a schema has two for each
level of what it describes).
"""

from typing import Any

import msgspec
import orjson

MAX_DEPTH = 500
"""Levels of objects and arrays that an API object may have."""


class TooDeep(ValueError):
    """The value has more than :data:`MAX_DEPTH` levels."""

    def __init__(self) -> None:
        super().__init__("exceeded max depth")


def dumps(value: Any, option: int = 0) -> bytes:
    """``value`` as ``orjson.dumps`` encodes it; of the options, ``OPT_SORT_KEYS`` and ``OPT_INDENT_2``.

    Raises:
        TooDeep: see there.
        orjson.JSONEncodeError: it has something that JSON has not.
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

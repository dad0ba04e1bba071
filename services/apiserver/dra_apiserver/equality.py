"""Compare and copy JSON values."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.jsontext import dumps


def differs(left: Any, right: Any) -> bool:
    """True if two values differ. `true`, `1` and `1.0` differ, although Python considers them equal."""
    return bool(left != right) or _bytes(left) != _bytes(right)


def _bytes(value: Any) -> bytes:
    return dumps(value, option=orjson.OPT_SORT_KEYS)


def copy_object(obj: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy."""
    made: dict[str, Any] = orjson.loads(dumps(obj))
    return made

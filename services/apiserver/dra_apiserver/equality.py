"""Whether JSON values are the same, and copies of them."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.jsontext import dumps


def differs(left: Any, right: Any) -> bool:
    """Whether two values differ, as `true`, `1` and `1.0` do; Python takes those for equal."""
    return bool(left != right) or _bytes(left) != _bytes(right)


def _bytes(value: Any) -> bytes:
    return dumps(value, option=orjson.OPT_SORT_KEYS)


def copied(obj: dict[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing."""
    made: dict[str, Any] = orjson.loads(dumps(obj))
    return made

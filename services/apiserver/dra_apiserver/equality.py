"""Whether JSON values are the same."""

from __future__ import annotations

from typing import Any

import orjson


def differs(left: Any, right: Any) -> bool:
    """Whether two values differ, as `true`, `1` and `1.0` do; Python takes those for equal."""
    return bool(left != right) or _bytes(left) != _bytes(right)


def _bytes(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

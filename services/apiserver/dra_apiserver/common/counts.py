"""Validate numbers and percentages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import regex_message

from dra_apiserver.errors import FieldError, invalid


def check_count_or_percent(value: Any, path: str, *, limited: bool = True) -> list[FieldError]:
    """Check a number that is not negative, or a percentage. If `limited`, the percentage is at most a hundred."""
    if isinstance(value, str):
        if not re.fullmatch("[0-9]+%", value):
            text = "a valid percent string must be a numeric string followed by an ending '%'"
            return [invalid(path, value, regex_message(text, "[0-9]+%", "1%", "93%"))]
        too_much = limited and (len(value) > 4 or int(value[:-1]) > 100)
        return [invalid(path, value, "must not be greater than 100%")] if too_much else []
    return check_not_negative(value, path)


def check_not_negative(value: int, path: str) -> list[FieldError]:
    """Check that a number is not negative."""
    return [] if value >= 0 else [invalid(path, value, "must be greater than or equal to 0")]


NEGATIVE = "must be greater than or equal to 0"


def check_counts(holder: JsonObject, names: Sequence[str], path: str) -> list[FieldError]:
    """Check that none of these fields is negative."""
    return [
        invalid(f"{path}.{name}", holder[name], NEGATIVE) for name in names if (holder.get(name) or 0) < 0
    ]

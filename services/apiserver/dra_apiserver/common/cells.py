"""Format values for table cells."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
_MOST_LISTED = 3


def human_duration(seconds: float) -> str:
    """Format a duration with about two significant units: ``5s``, ``3m20s``, ``7d``, like ages in ``kubectl``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    minutes, hours = whole // 60, whole // 3600
    days, years = hours // 24, hours // 24 // 365
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def moment(text: Any) -> datetime | None:
    """Parse a time of an object. Return None if it is missing or invalid."""
    if not isinstance(text, str) or not text:
        return None
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.replace("Z", "+00:00"))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def since(text: Any, now: datetime) -> str:
    """Format the age of a time."""
    start = moment(text)
    return UNKNOWN if start is None else human_duration((now - start).total_seconds())


def labels_text(labels: Mapping[str, Any] | None) -> str:
    """Format labels as ``a=1,b=2``."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Format a label selector for ``-l``."""
    if selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or ():
        key, values = rule.get("key", ""), ",".join(sorted(rule.get("values") or ()))
        match rule.get("operator"):
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case "DoesNotExist":
                parts.append(f"!{key}")
    return ",".join(sorted(parts)) or NONE


def shortened(items: Iterable[str], empty: str = UNSET) -> str:
    """Format the first three items of a list, and the number of the others."""
    every = list(items)
    shown = ",".join(every[:_MOST_LISTED])
    if len(every) > _MOST_LISTED:
        return f"{shown} + {len(every) - _MOST_LISTED} more..."
    return shown or empty


def boolean(value: Any, absent: str = UNSET) -> str:
    """Format a boolean that may be absent."""
    return absent if value is None else "True" if value else "False"

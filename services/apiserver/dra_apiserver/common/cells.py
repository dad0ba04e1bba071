"""Format values for table cells."""

from collections.abc import Iterable, Mapping
from typing import Any

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
_MOST_LISTED = 3


def labels_text(labels: Mapping[str, Any] | None) -> str:
    """Format labels as ``a=1,b=2``."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Format a label selector in the syntax of ``kubectl -l``."""
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


def shorten_list(items: Iterable[str], empty: str = UNSET) -> str:
    """Format the first three items of a list, and the number of the others."""
    every = list(items)
    shown = ",".join(every[:_MOST_LISTED])
    if len(every) > _MOST_LISTED:
        return f"{shown} + {len(every) - _MOST_LISTED} more..."
    return shown or empty


def boolean(value: Any, absent: str = UNSET) -> str:
    """Format a boolean that may be absent."""
    return absent if value is None else "True" if value else "False"

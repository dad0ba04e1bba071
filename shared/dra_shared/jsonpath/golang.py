"""Format values as Go's fmt package does, and name their types in Go."""

from decimal import Decimal
from typing import Any

_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
}


def go_type(value: Any) -> str:
    """Return the Go type of a value from JSON."""
    return _TYPES.get(type(value), "[]interface {}")


def format_value(value: Any) -> str:
    """Format a value as ``fmt.Print`` does."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case float():
            return _number(value)
        case dict():
            return f"map[{' '.join(f'{key}:{format_value(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(format_value, value))}]"
    return str(value)


def sorted_values(value: Any) -> list[Any]:
    """Return the values of a list, or of a map sorted by key; none for other values."""
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return list(value) if isinstance(value, list) else []


def _number(value: float) -> str:
    """Format a float as ``%v`` does: with an exponent from a million on."""
    number = Decimal(repr(value)).normalize()
    sign, digits, _ = number.as_tuple()
    power = number.adjusted()
    if not -4 <= power < 6:
        more = "." + "".join(map(str, digits[1:])) if len(digits) > 1 else ""
        return f"{'-' * sign}{digits[0]}{more}e{power:+03d}"
    return format(number, "f")

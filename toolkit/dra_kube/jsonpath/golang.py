"""Values as Go's fmt package prints them, and what Go calls their types."""

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
    """The type of a value that was read from JSON."""
    return _TYPES.get(type(value), "[]interface {}")


def printed(value: Any) -> str:
    """A value as ``fmt.Print`` shows it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case float():
            return _number(value)
        case dict():
            return f"map[{' '.join(f'{key}:{printed(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(printed, value))}]"
    return str(value)


def sorted_values(value: Any) -> list[Any]:
    """What is in a list or a map, a map's values by their keys; nothing of other values."""
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return list(value) if isinstance(value, list) else []


def _number(value: float) -> str:
    """As ``%v``: with an exponent from a million on."""
    number = Decimal(repr(value)).normalize()
    sign, digits, _ = number.as_tuple()
    power = number.adjusted()
    if not -4 <= power < 6:
        more = "." + "".join(map(str, digits[1:])) if len(digits) > 1 else ""
        return f"{'-' * sign}{digits[0]}{more}e{power:+03d}"
    return format(number, "f")

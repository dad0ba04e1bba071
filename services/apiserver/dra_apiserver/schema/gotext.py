"""Format JSON values like Go."""

from decimal import Decimal
from typing import Any

_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "<nil>",
}


def go_type(value: Any) -> str:
    """Return the Go type of a decoded JSON value."""
    return _TYPES[type(value)]


def go_value(value: Any) -> str:
    """Format a value with ``%v``."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_value, value)) + "]"
    if isinstance(value, bool) or value is None:
        return "<nil>" if value is None else str(value).lower()
    return go_float(value) if isinstance(value, float) else str(value)


def go_text(value: Any) -> str:
    """Format a value with ``%s``, including the complaint about values that are not text."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if isinstance(value, str):
        return value
    return "%!s(<nil>)" if value is None else f"%!s({go_type(value)}={go_value(value)})"


def go_syntax(value: Any) -> str:
    """Format a value with ``%#v``."""
    if isinstance(value, dict):
        items = ", ".join(f"{_quote(key)}:{go_syntax(value[key])}" for key in sorted(value))
        return go_type(value) + "{" + items + "}"
    if isinstance(value, list):
        return go_type(value) + "{" + ", ".join(map(go_syntax, value)) + "}"
    if isinstance(value, str):
        return _quote(value)
    return "interface {}(nil)" if value is None else go_value(value)


def _quote(text: str) -> str:
    from dra_apiserver.errors import quote

    return quote(text)


def go_float(value: float) -> str:
    """Format a float64 with ``%v``: the fewest digits, with an exponent from a million on."""
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) - 1 + exponent
    if -4 <= power < 6:
        return repr(value).removesuffix(".0")
    first, *rest = map(str, digits)
    return ("-" if sign else "") + first + ("." if rest else "") + "".join(rest) + f"e{power:+03d}"

"""``string.format`` (cel-go's ext/formatting.go, locale en_US)."""

import math
import re
from collections.abc import Callable
from typing import Any, Final

from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.conversions import bytes_to_string
from dra_shared.cel.library.times import duration_text, timestamp_text
from dra_shared.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    format_double,
    is_list,
    is_map,
    type_name,
)
from dra_shared.quoting import go_quote

_DEFAULT_PRECISION: Final = 6
_MAX_PRECISION: Final = 100_000
_CLAUSE: Final = re.compile(r"%(?:\.([0-9]*))?(.?)", re.DOTALL)
_SUPERSCRIPT: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MESSAGES: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
ALLOWED: Final = {
    "s": frozenset(
        [
            "list",
            "map",
            "int",
            "uint",
            "double",
            "bool",
            "string",
            "google.protobuf.Timestamp",
            "bytes",
            "google.protobuf.Duration",
            "type",
            "null_type",
        ]
    ),
    "d": frozenset(("int", "uint")),
    "f": frozenset(("double", "string")),
    "e": frozenset(("double", "string")),
    "b": frozenset(("int", "uint", "bool")),
    "x": frozenset(("int", "uint", "string", "bytes")),
    "o": frozenset(("int", "uint")),
}
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class FormatError(ValueError):
    """A format string or its arguments are invalid. ``index`` is that of the argument, if one is at fault."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


def refuse(clause: str, name: str, index: int | None = None) -> FormatError:
    """Return the error of a clause that does not support the type of a value."""
    return FormatError(f"error during formatting: {_MESSAGES[clause.lower()].format(name)}", index)


def expand(template: str, count: int, show: Callable[[int, str, int | None], str]) -> tuple[str, int]:
    """Replace each clause of the template by ``show(index, clause, precision)``.

    Return the text and the number of clauses.
    """
    built: list[str] = []
    at = index = 0
    while at < len(template):
        if template[at] != "%":
            end = template.find("%", at)
            end = len(template) if end < 0 else end
            built.append(template[at:end])
            at = end
            continue
        if template[at + 1 : at + 2] == "%":
            built.append("%")
            at += 2
            continue
        if at + 1 >= len(template):
            raise FormatError("unexpected end of string")
        if index >= count:
            raise FormatError(f"index {index} out of range")
        at = _clause(template, at, index, show, built)
        index += 1
    return "".join(built), index


def _clause(
    template: str, at: int, index: int, show: Callable[[int, str, int | None], str], built: list[str]
) -> int:
    match = _CLAUSE.match(template, at)
    if match is None:
        raise FormatError("unexpected end of string")
    digits, letter = match[1], match[2]
    precision: int | None = None
    if digits is not None:
        prefix = "could not parse formatting clause: error while parsing precision: "
        if not letter:
            raise FormatError(prefix + "could not find end of precision specifier")
        if not digits:
            raise FormatError(
                prefix
                + 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
            )
        precision = min(int(digits[:9]), _MAX_PRECISION)
    if letter not in tuple("sdfebxXo"):
        # Upstream reads bytes, not characters.
        shown = chr(letter.encode()[0]) if letter else ""
        raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
    built.append(show(index, letter, precision))
    return match.end()


def format_string(template: str, args: list[Any]) -> str:
    """Evaluate the ``format`` function."""

    def show(index: int, clause: str, precision: int | None) -> str:
        return _show(args[index], clause, precision)

    try:
        return expand(template, len(args), show)[0]
    except FormatError as error:
        raise EvaluationError(str(error)) from None


def _show(value: Any, clause: str, precision: int | None) -> str:
    name = type_name(value)
    if name not in ALLOWED[clause.lower()]:
        raise refuse(clause, name)
    if clause == "s":
        return _text(value)
    if clause in "fe":
        number = _SPECIAL.get(value) if isinstance(value, str) else float(value)
        if number is None:
            raise refuse(clause, name)
        digits = _DEFAULT_PRECISION if precision is None else precision
        return _format_fixed(number, digits) if clause == "f" else _scientific(number, digits)
    if clause == "d":
        return str(int(value))
    if clause == "b":
        return format(int(value), "b")
    if clause == "o":
        return format(int(value), "o")
    if isinstance(value, str | bytes):
        shown = (value.encode() if isinstance(value, str) else value).hex()
        return shown.upper() if clause == "X" else shown
    return format(int(value), clause)


def _format_fixed(number: float, digits: int) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    # Zero is printed without a sign.
    return f"{number or 0.0:,.{digits}f}"


def _scientific(number: float, width: int) -> str:
    """Format a number with an exponent. Upstream uses the precision as the width, so there are always six digits."""
    if math.isnan(number) or math.isinf(number):
        return _format_fixed(number, 0).rjust(width)
    mantissa, _, exponent = f"{number or 0.0:.6e}".partition("e")
    power = int(exponent)
    shown = f"{'-' if power < 0 else ''}{abs(power):02d}"
    return f"{mantissa}×10{shown.translate(_SUPERSCRIPT)}".rjust(width)


def _text(value: Any) -> str:
    kind = type(value)
    if is_list(value):
        return "[" + ", ".join(map(_format_nested, value)) + "]"
    if is_map(value):
        pairs = sorted((_key(key), _format_nested(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
    if kind is str or kind is TypeValue:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind is float:
        return format_double(value)
    if kind is bytes:
        try:
            return bytes_to_string(value)
        except EvaluationError as error:
            message = f"error during formatting: could not convert argument {go_quote(str(error))} to string"
            raise FormatError(message) from None
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    return str(int(value))


def _key(key: Any) -> str:
    if type(key) in (str, bool, int, Uint):
        return go_quote(key) if type(key) is str else _text(key)
    raise FormatError(f"error during formatting: no formatting function for map key of type {type_name(key)}")


def _format_nested(value: Any) -> str:
    """Format a value inside a list or map."""
    kind = type(value)
    if kind is str:
        return go_quote(value)
    if kind is bytes:
        return "b" + go_quote(_text(value))
    if kind is float:
        if math.isnan(value):
            return '"NaN"'
        if math.isinf(value):
            return '"+Inf"' if value > 0 else '"-Inf"'
        return f"{value:.{_DEFAULT_PRECISION}f}"
    if kind is TypeValue:
        return f"type({value})"
    if kind is Duration:
        return f"duration({go_quote(_text(value))})"
    if kind is Timestamp:
        return f"timestamp({go_quote(_text(value))})"
    if type_name(value) not in ALLOWED["s"]:
        raise FormatError(f"error during formatting: no formatting function for {type_name(value)}")
    return _text(value)

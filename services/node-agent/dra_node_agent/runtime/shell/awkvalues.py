"""The values of awk programs, and the results of operators and functions."""

import math
import re
from typing import Any

from dra_node_agent.runtime.shell.options import UsageError
from dra_node_agent.runtime.shell.patterns import EXTENDED, PatternError, compile_pattern, encode

_NUMBER = re.compile(r"[ \t\n]*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

Value = float | str


class Input(str):
    """A text from the input. It counts as a number, too, if it looks like one."""


class Unset(Input):
    """The value of a variable that has none yet: both the empty text and 0."""


UNSET = Unset("")


def number_of(value: Value) -> float:
    """Convert a value to a number. Of a text the number at its start counts."""
    if not isinstance(value, str):
        return value
    match = _NUMBER.match(value[:400])
    return float(match[0]) if match else 0.0


def is_numeric(value: Value) -> bool:
    """Return True if a comparison treats the value as a number."""
    if not isinstance(value, Input):
        return not isinstance(value, str)
    return isinstance(value, Unset) or (
        len(value) < 400 and _NUMBER.fullmatch(value.rstrip(" \t\n")) is not None
    )


def truth_of(value: Value) -> bool:
    """Return True if a condition with this value holds."""
    if isinstance(value, Input) and value and is_numeric(value):
        return number_of(value) != 0
    return bool(value)


def decimal(number: float, form: Value) -> str:
    """Convert a number to a text, as CONVFMT or OFMT says."""
    if math.isnan(number) or math.isinf(number):
        return f"{number}"
    if number == int(number) and abs(number) < 1e16:
        return str(int(number))
    text = form if isinstance(form, str) else "%.6g"
    if not re.fullmatch(r"%\.?\d{0,2}[eEfgG]", text):
        raise UsageError(f"the format {text} of numbers is not simulated")
    return str(text % number)


def calculate(operator: str, left: float, right: float) -> float:
    """Return the result of an arithmetic operator."""
    try:
        match operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/" | "%" if not right:
                raise UsageError("division by zero")
            case "/":
                return left / right
            case "%":
                return math.fmod(left, right)
        result = left**right
    except OverflowError:
        return math.inf
    return result if isinstance(result, float) else math.nan


def compute(name: str, number: float) -> float:
    """Return the result of a mathematical function."""
    try:
        if name == "int":
            return float(math.trunc(number)) if math.isfinite(number) else number
        return float(getattr(math, name)(number))
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan if name != "log" or number else -math.inf


def round_number(number: float) -> float:
    """Return the nearest whole number."""
    return number if math.isinf(number) or math.isnan(number) else float(round(number))


def fill_replacement(replacement: str, found: bytes) -> bytes:
    """Return a replacement in which ``&`` is replaced by the match."""
    return b"".join(
        found if piece == "&" else encode(piece[1:] if piece in ("\\&", "\\\\") else piece)
        for piece in re.findall(r"\\&|\\\\|&|[^\\&]+|\\", replacement)
    )


def key_order(key: str) -> tuple[int, float, str]:
    """Return a key that sorts the keys of an array: numbers first."""
    return (0, float(key), "") if _NUMBER.fullmatch(key) else (1, 0.0, key)


def compile_regex(text: str) -> Any:
    """Compile a regular expression. Raises UsageError."""
    try:
        return compile_pattern(text, EXTENDED, escapes=True)
    except PatternError as error:
        raise UsageError(str(error)) from error

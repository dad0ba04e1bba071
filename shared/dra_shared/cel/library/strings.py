"""Strings.

Mirrors cel-go's common/stdlib/standard.go and ext/strings.go (version 2). ``formatting`` implements
``format``.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import (
    STRING,
    cel_size,
    element,
    estimate_transform,
    estimate_traversal,
    scan,
    scan_cel,
    size,
    size_range,
    traversal,
)
from dra_shared.cel.library.formatting import format_string
from dra_shared.cel.ranges import MAX, Range, add, factor, multiply
from dra_shared.cel.syntax import Literal
from dra_shared.cel.values import NO_OVERLOAD, to_text
from dra_shared.version import V1_37, Version

_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SPACES: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)
_SPACES_MORE: Final = _SPACES + "\u2028\u2029\u202f\u205f\u3000"
_QUOTED: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, wanted: str, offset: int = 0) -> int:
    if not wanted:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(wanted, offset)


def last_index_of(text: str, wanted: str) -> int:
    if not wanted:
        return len(text)
    if len(text.encode()) < len(wanted.encode()):
        return -1
    return last_index_of_from(text, wanted, len(text) - 1)


def last_index_of_from(text: str, wanted: str, offset: int) -> int:
    if not wanted:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    if offset >= len(text):
        return -1
    return text.rfind(wanted, 0, min(offset + len(wanted), len(text)))


def replace_some(text: str, old: str, new: str, count: int) -> str:
    return text.replace(old, new, count if count >= 0 else -1)


def split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def split_some(text: str, separator: str, count: int) -> list[str]:
    if count == 0:
        return []
    if count < 0:
        return split(text, separator)
    if separator:
        return text.split(separator, count - 1)
    return [*text[: count - 1], text[count - 1 :]] if len(text) >= count else list(text)


def substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def join(parts: list[Any], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"join: invalid input: {to_text(part)}")
    return separator.join(parts)


def quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(char, char) for char in text) + '"'


def _both_strings(text: Any, other: Any) -> None:
    if type(text) is not str or type(other) is not str:
        raise EvaluationError(NO_OVERLOAD)


def contains(text: Any, part: Any) -> bool:
    _both_strings(text, part)
    return part in text


def starts_with(text: Any, prefix: Any) -> bool:
    _both_strings(text, prefix)
    return bool(text.startswith(prefix))


def ends_with(text: Any, suffix: Any) -> bool:
    _both_strings(text, suffix)
    return bool(text.endswith(suffix))


def trim(text: str) -> str:
    return text.strip(_SPACES_MORE)


def _join_cost(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(size(result)) * 2 * STRING)


def _containment_cost(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(cel_size(args[0])) * STRING) * math.ceil(float(cel_size(args[1])) * STRING)


def _estimate_containing(target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    return Estimate(multiply(factor(size_range(target), STRING), factor(size_range(args[0]), STRING)))


def _estimate_affix(target: Node | None, args: list[Node]) -> Estimate:
    return Estimate(factor(size_range(args[0]), STRING))


def _estimate_format(target: Node | None, args: list[Node]) -> Estimate | None:
    return None if target is None else Estimate(factor(size_range(target), STRING))


def _estimate_quote(target: Node | None, args: list[Node]) -> Estimate:
    low, high = size_range(args[0])
    return Estimate(factor((low, high), STRING), (low + 2 & MAX, high * 2 + 2 & MAX))


def _estimate_replace(target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    whole, old, new = size_range(target), size_range(args[0]), size_range(args[1])
    most = kept_most = least = kept_least = 0
    if old[0] == 0:
        most = min(whole[1] + 1, MAX)
        kept_most = whole[1]
    elif new[1] <= old[0]:
        kept_most = whole[1]
    else:
        most = math.ceil(float(whole[1]) / float(old[0]))
    if old[1] == 0:
        least = min(whole[0] + 1, MAX)
        kept_least = whole[0]
    elif old[1] <= new[0]:
        kept_least = whole[0]
    else:
        least = math.ceil(float(whole[0]) / float(old[1]))
    replaced = add(multiply((least, min(most, MAX)), new), (kept_least, kept_most))
    return Estimate(factor(whole, 2 * STRING), replaced)


def _estimate_split(target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    most = size_range(target)[1]
    if len(args) > 1 and isinstance(args[1].expr, Literal) and type(args[1].expr.value) is int:
        most = args[1].expr.value & MAX
    return Estimate(factor(size_range(target), 2 * STRING), (0, most))


def _estimate_join(target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    count = size_range(target)
    whole: Range = (0, 0)
    item = element(target)
    if item is not None:
        whole = multiply(count, size_range(item))
    if args:
        separators = (max(count[0] - 1, 0), max(count[1] - 1, 0))
        whole = add(whole, multiply(size_range(args[0]), separators))
    return Estimate(factor(whole, STRING), whole)


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "contains",
        overload(
            ".contains_string(string, string) bool",
            contains,
            cost=_containment_cost,
            estimate=_estimate_containing,
        ),
        checks_arguments=True,
    ),
    function("charAt", overload(".string_char_at_int(string, int) string", char_at)),
    function(
        "indexOf",
        overload(".string_index_of_string(string, string) int", index_of),
        overload(".string_index_of_string_int(string, string, int) int", index_of),
        cost=traversal,
        estimate=estimate_traversal,
    ),
    function(
        "lastIndexOf",
        overload(".string_last_index_of_string(string, string) int", last_index_of),
        overload(".string_last_index_of_string_int(string, string, int) int", last_index_of_from),
        cost=traversal,
        estimate=estimate_traversal,
    ),
    function(
        "lowerAscii",
        overload(".string_lower_ascii(string) string", lambda text: text.translate(_LOWER)),
        cost=scan(),
        estimate=estimate_transform,
    ),
    function(
        "upperAscii",
        overload(".string_upper_ascii(string) string", lambda text: text.translate(_UPPER)),
        cost=scan(),
        estimate=estimate_transform,
    ),
    function(
        "replace",
        overload(".string_replace_string_string(string, string, string) string", str.replace),
        overload(".string_replace_string_string_int(string, string, string, int) string", replace_some),
        cost=scan(2 * STRING),
        estimate=_estimate_replace,
    ),
    function(
        "split",
        overload(".string_split_string(string, string) list<string>", split),
        overload(".string_split_string_int(string, string, int) list<string>", split_some),
        cost=scan(2 * STRING),
        estimate=_estimate_split,
    ),
    function(
        "substring",
        overload(".string_substring_int(string, int) string", substring),
        overload(".string_substring_int_int(string, int, int) string", substring_range),
        cost=scan(),
        estimate=estimate_transform,
    ),
    function("trim", overload(".string_trim(string) string", trim), cost=scan(), estimate=estimate_transform),
    function(
        "format",
        overload(
            ".string_format(string, list<dyn>) string",
            format_string,
            cost=scan_cel,
            estimate=_estimate_format,
        ),
    ),
    function(
        "strings.quote",
        overload("strings_quote(string) string", quote, cost=scan_cel, estimate=_estimate_quote),
    ),
    function(
        "join",
        overload(".list_join(list<string>) string", join),
        overload(".list_join_string(list<string>, string) string", join),
        cost=_join_cost,
        estimate=_estimate_join,
    ),
)


@functools.cache
def affixes_of(kubernetes: Version) -> tuple[Function, ...]:
    """Return ``startsWith`` and ``endsWith`` of a version.

    Both functions read as many characters as the affix has. Until 1.36 (cel-go 0.26), their cost is computed
    from the length of the text instead.
    """
    cost = scan_cel if kubernetes < V1_37 else _scan_affix
    return (
        function(
            "endsWith",
            overload(
                ".ends_with_string(string, string) bool", ends_with, cost=cost, estimate=_estimate_affix
            ),
            checks_arguments=True,
        ),
        function(
            "startsWith",
            overload(
                ".starts_with_string(string, string) bool", starts_with, cost=cost, estimate=_estimate_affix
            ),
            checks_arguments=True,
        ),
    )


def _scan_affix(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(cel_size(args[1])) * STRING)

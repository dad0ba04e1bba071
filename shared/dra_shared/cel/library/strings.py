"""String functions: cel-go's ext.Strings (version 2) and Kubernetes' regular expressions."""

from typing import Any, Final

from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library import Implementation
from dra_shared.cel.library.formatting import format_string
from dra_shared.cel.library.patterns import RegexError, compile_regex
from dra_shared.cel.values import NO_OVERLOAD, Duration, Timestamp, to_text

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


def matches(text: Any, pattern: Any) -> bool:
    if type(text) is not str:
        # As with sort.
        receives = type(text) in (Duration, Timestamp)
        raise EvaluationError(NO_OVERLOAD if receives else f"{NO_OVERLOAD}: matches")
    if type(pattern) is not str:
        raise EvaluationError(NO_OVERLOAD)
    try:
        return compile_regex(pattern).search(text) is not None
    except RegexError as error:
        raise EvaluationError(str(error)) from None


def _regex(pattern: str) -> Any:
    try:
        return compile_regex(pattern)
    except RegexError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def find(text: str, pattern: str) -> str:
    found = _regex(pattern).search(text)
    return "" if found is None else str(found.group())


def find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    found: list[str] = []
    for match in _go_matches(_regex(pattern), text):
        found.append(match)
        if len(found) == count:
            break
    return found


def _go_matches(regex: Any, text: str) -> list[str]:
    """Go drops an empty match right behind the match before it."""
    matches: list[str] = []
    end = -1
    for match in regex.finditer(text):
        start, stop = match.span()
        if start == stop == end:
            continue
        matches.append(match.group())
        end = stop
    return matches


def trim(text: str) -> str:
    return text.strip(_SPACES_MORE)


OVERLOADS: Final[dict[str, Implementation]] = {
    "string_char_at_int": char_at,
    "string_index_of_string": index_of,
    "string_index_of_string_int": index_of,
    "string_last_index_of_string": last_index_of,
    "string_last_index_of_string_int": last_index_of_from,
    "string_lower_ascii": lambda text: text.translate(_LOWER),
    "string_upper_ascii": lambda text: text.translate(_UPPER),
    "string_replace_string_string": str.replace,
    "string_replace_string_string_int": replace_some,
    "string_split_string": split,
    "string_split_string_int": split_some,
    "string_substring_int": substring,
    "string_substring_int_int": substring_range,
    "string_trim": trim,
    "string_format": format_string,
    "strings_quote": quote,
    "list_join": join,
    "list_join_string": join,
    "contains_string": contains,
    "starts_with_string": starts_with,
    "ends_with_string": ends_with,
    "string_find_string": find,
    "string_find_all_string": find_all,
    "string_find_all_string_int": find_all,
}

"""The functions of templates.

Upstream: text/template/funcs.go, and kubectl's own in cli-runtime/pkg/printers/template.go.
"""

import base64
import binascii
import html
import json
import re
import urllib.parse
from collections.abc import Callable
from typing import Any, Final

from dra_shared.jsonpath.golang import format_value, go_type

from dra_kube.gotemplate.tokens import TemplateError

_VERB = re.compile(r"%([-+# 0]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


class Missing:
    """The value of a key that a map does not have. Go prints it differently from null in places."""

    def __repr__(self) -> str:
        return "<no value>"


MISSING: Final = Missing()


def is_true(value: Any) -> bool:
    """True if ``if`` treats the value as true: anything that is not empty or zero."""
    return value is not MISSING and value is not None and value not in (False, 0, "", [], {})


def describe(value: Any) -> str:
    """Return the text that ``{{ }}`` prints for the value."""
    return "<no value>" if value is MISSING or value is None else format_value(value)


def _show(value: Any) -> str:
    return "<nil>" if value is MISSING else format_value(value)


def _print(*values: Any) -> str:
    # Like fmt.Sprint, put a space between two values if neither is a string.
    text = ""
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            text += " "
        text += _show(value)
    return text


def _printf(pattern: Any, *values: Any) -> str:
    if not isinstance(pattern, str):
        raise TemplateError(f"wrong type for value; expected string; got {_type(pattern)}")
    rest = list(values)

    def format_next(found: re.Match[str]) -> str:
        flags, width, precision, verb = found.groups()
        if verb == "%":
            return "%"
        if not rest:
            return f"%!{verb}(MISSING)"
        text = _verb(verb, flags, precision, rest.pop(0))
        wide = int(width or 0)
        return text.ljust(wide) if "-" in flags else text.rjust(wide, "0" if "0" in flags else " ")

    text = _VERB.sub(format_next, pattern)
    if rest:
        text += f"%!(EXTRA {', '.join(f'{_type(one)}={_show(one)}' for one in rest)})"
    return text


def _verb(verb: str, flags: str, precision: str | None, value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if verb == "v":
        return _show(value)
    if verb == "s" and (isinstance(value, str | list | dict)):
        text = _show(value)
        return text[: int(precision)] if precision else text
    if verb == "q" and isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if verb == "t" and isinstance(value, bool):
        return _show(value)
    if verb == "T":
        return _type(value)
    if number and isinstance(value, int) and verb in "dxXob":
        return format(value, ("+" if "+" in flags else "") + verb)
    if number and isinstance(value, float) and verb in "feEgG":
        return (
            format(value, f"{'+' if '+' in flags else ''}.{precision or 6}{verb}")
            if verb in "feE"
            else _show(value)
        )
    return f"%!{verb}({_type(value)}={_show(value)})"


def _type(value: Any) -> str:
    if value is None or value is MISSING:
        return "<nil>"
    return "int" if isinstance(value, int) and not isinstance(value, bool) else go_type(value)


def _kind(value: Any) -> str:
    """Return the kind of a value for comparisons. Go's int and float64 cannot be compared with each other."""
    if isinstance(value, bool):
        return "bool"
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind.__name__
    raise TemplateError(
        "invalid type for comparison" if is_true(value) else "incompatible types for comparison"
    )


def _equal(first: Any, *others: Any) -> bool:
    if not others:
        raise TemplateError("missing argument for comparison")
    for other in others:
        nothing = [value is None or value is MISSING for value in (first, other)]
        if any(nothing):
            if all(nothing):
                return True
            continue
        if _kind(first) != _kind(other):
            raise TemplateError(f"incompatible types for comparison: {_type(first)} and {_type(other)}")
        if first == other:
            return True
    return False


def _less(first: Any, second: Any) -> bool:
    if _kind(first) != _kind(second):
        raise TemplateError("incompatible types for comparison")
    if isinstance(first, bool):
        raise TemplateError("invalid type for comparison")
    less: bool = first < second
    return less


def _index(value: Any, *places: Any) -> Any:
    for place in places:
        if isinstance(value, dict):
            if not isinstance(place, str):
                raise TemplateError(f"value has type {_type(place)}; should be string")
            value = value.get(place)
        elif isinstance(value, list | str):
            if not isinstance(place, int) or isinstance(place, bool):
                raise TemplateError(f"cannot index slice/array with type {_type(place)}")
            if not 0 <= place < len(value):
                raise TemplateError(f"index out of range: {place}")
            value = value[place] if isinstance(value, list) else value.encode()[place]
        elif value is None or value is MISSING:
            raise TemplateError("index of untyped nil")
        else:
            raise TemplateError(f"can't index item of type {_type(value)}")
    return value


def _slice(value: Any, *bounds: Any) -> Any:
    if not isinstance(value, list | str):
        raise TemplateError(f"can't slice item of type {_type(value)}")
    low, high = (*bounds, *(0, len(value))[len(bounds) :])[:2]
    if not 0 <= low <= high <= len(value):
        raise TemplateError(f"index out of range: {high}")
    return value[low:high]


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        text = "len of nil pointer" if value is None or value is MISSING else f"len of type {_type(value)}"
        raise TemplateError(text)
    return len(value.encode()) if isinstance(value, str) else len(value)


def _exists(value: Any, *places: Any) -> bool:
    """True if the value has the field that the path of keys and indexes leads to. A function of kubectl."""
    for place in places:
        if isinstance(value, dict) and place in value:
            value = value[place]
        elif isinstance(value, list) and isinstance(place, int | float) and 0 <= place < len(value):
            value = value[int(place)]
        else:
            return False
    return True


def _decode(value: Any) -> str:
    """Decode base64. A function of kubectl."""
    try:
        return base64.b64decode(value, validate=True).decode(errors="replace")
    except (binascii.Error, TypeError) as error:
        raise TemplateError("illegal base64 data at input byte 0") from error


def _escape_script(*values: Any) -> str:
    return re.sub(
        r"""[\\'"<>&=]""",
        lambda found: f"\\{found[0]}" if found[0] in "\\'\"" else f"\\u{ord(found[0]):04X}",
        _print(*values),
    )


def _escape_html(*values: Any) -> str:
    return html.escape(_print(*values)).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


#: ``and`` and ``or`` are not here: they evaluate their arguments only as far as needed.
CALLS: dict[str, Callable[..., Any]] = {
    "not": lambda value: not is_true(value),
    "len": _length,
    "index": _index,
    "slice": _slice,
    "print": _print,
    "println": lambda *values: " ".join(map(_show, values)) + "\n",
    "printf": _printf,
    "html": _escape_html,
    "js": _escape_script,
    "urlquery": lambda *values: urllib.parse.quote_plus(_print(*values)),
    "eq": _equal,
    "ne": lambda first, second: not _equal(first, second),
    "lt": _less,
    "le": lambda first, second: _less(first, second) or _equal(first, second),
    "gt": lambda first, second: not (_less(first, second) or _equal(first, second)),
    "ge": lambda first, second: not _less(first, second),
    "exists": _exists,
    "base64decode": _decode,
}

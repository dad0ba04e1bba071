"""Execute a JSONPath template on an object (client-go/util/jsonpath/jsonpath.go, with missing keys allowed)."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from dra_shared.jsonpath.golang import format_value, go_type, sorted_values
from dra_shared.jsonpath.syntax import (
    Action,
    Field,
    Filter,
    Node,
    PathError,
    Recursive,
    Slice,
    Union,
    Value,
    Wildcard,
    Word,
    parse,
)

Values = list[Any]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


class Template:
    """A template of texts and paths.

    Raises:
        PathError: the text is not a template.
    """

    def __init__(self, text: str) -> None:
        self._parts = parse(text)

    def results(self, obj: Any) -> list[Values]:
        """Return the values of each part. A text is its own value.

        Raises:
            PathError: the template cannot be executed on this object.
        """
        found, end = _block(obj, self._parts, 0)
        if end < len(self._parts):
            raise PathError("not in range, nothing to end")
        return found

    def values(self, obj: Any) -> Values:
        """Return the values of all parts in one list. Raises PathError as ``results`` does."""
        return [value for each in self.results(obj) for value in each]

    def text(self, obj: Any) -> str:
        """Return the text that kubectl prints for the object. Raises PathError as ``results`` does."""
        return "".join(" ".join(map(format_result, each)) for each in self.results(obj))


def _block(obj: Any, parts: Sequence[Value | Action], at: int) -> tuple[list[Values], int]:
    """Return the values of the parts up to the end or the block's ``{end}``, and the index where it stopped."""
    found: list[Values] = []
    while at < len(parts):
        part = parts[at]
        if isinstance(part, Value):
            found.append([part.value])
        elif _begins(part, "end"):
            return found, at
        elif _begins(part, "range"):
            body, at = at + 1, _end(parts, at + 1)
            for value in _walk([obj], part.nodes[1:]):
                found += _block(value, parts, body)[0]
        else:
            found.append(_walk([obj], part.nodes))
        at += 1
    return found, at


def _begins(part: Value | Action, word: str) -> bool:
    return isinstance(part, Action) and part.nodes[:1] == [Word(word)]


def _end(parts: Sequence[Value | Action], at: int) -> int:
    """Return the index of the end of the block that starts at ``at``."""
    depth = 0
    while at < len(parts):
        if _begins(parts[at], "range"):
            depth += 1
        elif _begins(parts[at], "end"):
            if depth == 0:
                return at
            depth -= 1
        at += 1
    return at


def _walk(values: Values, nodes: Sequence[Node]) -> Values:
    for node in nodes:
        values = _step(values, node)
    return values


def _step(values: Values, node: Node) -> Values:
    match node:
        case Value(value):
            # A text appears once, regardless of the values before it; a number or a bool replaces each value.
            return [value] if isinstance(value, str) else [value for _ in values]
        case Field(name):
            return [value[name] for value in values if isinstance(value, dict) and name in value]
        case Slice():
            return _slice(values, node)
        case Filter():
            return _filter(values, node)
        case Wildcard():
            return [below for value in values for below in sorted_values(value)]
        case Recursive():
            return _all_below(values)
        case Union(parts):
            return [value for part in parts for value in _walk(values, part.nodes)]
        case Word(name):
            raise PathError(f"unrecognized identifier {name}")


def _all_below(values: Values) -> Values:
    found = []
    for value in values:
        below = sorted_values(value)
        if below:
            found += [value, *_all_below(below)]
    return found


def _slice(values: Values, node: Slice) -> Values:
    found: Values = []
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise PathError(f"{go_type(value)} is not array or slice")
        size = len(value)
        start = node.start + size if node.start < 0 else node.start
        end = size if node.end is None else node.end
        if end < 0 or (end == 0 and node.derived):
            end += size
        if start == end:
            return found
        if not 0 <= start < size:
            raise PathError(f"array index out of bounds: index {start}, length {size}")
        if not 0 <= end <= size:
            raise PathError(f"array index out of bounds: index {end - 1}, length {size}")
        if start > end:
            raise PathError(f"starting index {start} is greater than ending index {end}")
        if node.step is not None and node.step <= 0:
            raise PathError("step must be > 0")
        found += value[start : end : node.step or 1]
    return found


def _filter(values: Values, node: Filter) -> Values:
    found = []
    for value in values:
        if not isinstance(value, list):
            raise PathError(f"{format_value(value)} is not array or slice and cannot be filtered")
        found += [one for one in value if _passes(one, node)]
    return found


def _passes(value: Any, node: Filter) -> bool:
    left = _walk([value], node.left.nodes)
    if node.operator == "exists":
        return bool(left)
    right = _walk([value], node.right.nodes)
    if not left or not right:
        return False
    if len(left) > 1 or len(right) > 1:
        raise PathError("can only compare one element at a time")
    return _compare(left[0], node.operator, right[0])


def _compare(left: Any, operator: str, right: Any) -> bool:
    if operator not in _COMPARE:
        raise PathError(f"unrecognized filter operator {operator}")
    for one in (left, right):
        if one is None or isinstance(one, dict | list):
            raise PathError("invalid type for comparison")
    if type(left) is not type(right):
        raise PathError("incompatible types for comparison")
    if isinstance(left, bool) and operator not in ("==", "!="):
        raise PathError("invalid type for comparison")
    return _COMPARE[operator](left, right)


def format_result(value: Any) -> str:
    """Return the text of one value, as kubectl prints it."""
    if not isinstance(value, dict | list):
        return format_value(value)
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    # encoding/json escapes these characters, because JSON may be embedded in HTML.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

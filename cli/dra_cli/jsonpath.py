"""JSONPath as kubectl has it, as far as it leads to values: ``{.status.conditions[?(@.type=="Ready")].status}``.

Names, names in quotes, places in lists, ``*``, and filters that compare with ``==`` or ``!=``. Upstream:
staging/src/k8s.io/client-go/util/jsonpath, and RelaxedJSONPathExpression of kubectl's ``get``, which lets the braces
and the first dot be left out.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

_RELAXED = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)")
_STEP = re.compile(
    r"\.?\*|\[\*\]"
    r"|\[(?P<place>-?\d+)\]"
    r"|\['(?P<quoted>(?:[^'\\]|\\.)+)'\]"
    r"|\[\?\(@(?P<path>[^=!\]]+?)\s*(?P<compare>==|!=)\s*(?P<value>\"[^\"]*\"|'[^']*'|[^)]+?)\s*\)\]"
    r"|\.?(?P<name>(?:[^.\[\]\\*]|\\.)+)"
)
Read = Callable[[Any], list[Any]]
_Step = Callable[[Any], Iterator[Any]]


class PathError(ValueError):
    """The expression is none, or one that is not understood."""


def parse(expression: str) -> Read:
    """What reads the values at a path; a key that is missing has none.

    Raises:
        PathError: it is no such expression.
    """
    relaxed = _RELAXED.fullmatch(expression.strip())
    if not relaxed:
        raise PathError(
            f"unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{{name1.name2}}' or "
            f"'{{.name1.name2}}': {expression!r}"
        )
    steps = list(_steps((relaxed[1] or relaxed[2]).removeprefix("$").removeprefix("."), expression))

    def read(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [below for one in found for below in step(one)]
        return found

    return read


def _steps(path: str, expression: str) -> Iterator[_Step]:
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if not match:
            raise PathError(f"unrecognized character in {expression!r}: {path[at:]!r}")
        yield _step(match)
        at = match.end()


def _step(match: re.Match[str]) -> _Step:
    if match["place"]:
        return _at(int(match["place"]))
    if match["path"]:
        return _filter(parse(match["path"]), match["compare"] == "==", _literal(match["value"]))
    name = match["quoted"] or match["name"]
    return _named(re.sub(r"\\(.)", r"\1", name)) if name else _all


def _named(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _at(place: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= place < len(value):
            yield value[place]

    return step


def _all(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _filter(read: Read, equal: bool, wanted: Any) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        for one in value if isinstance(value, list) else ():
            found = read(one)
            if found and (found[0] == wanted) == equal:
                yield one

    return step


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise PathError(f"{text!r} is neither text in quotes nor a number") from None

"""Functions of regular expressions. ``patterns`` compiles the expressions.

Mirrors cel-go's common/stdlib/standard.go (``matches``) and k8s.io/apiserver/pkg/cel/library/regex.go.
"""

import functools
from typing import Any, Final

from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import estimate_search, search, size_range
from dra_shared.cel.library.patterns import RegexError, compile_regex
from dra_shared.cel.values import NO_OVERLOAD, Duration, Timestamp
from dra_shared.version import V1_37, Version


def matches(text: Any, pattern: Any) -> bool:
    if type(text) is not str:
        # Upstream's error is shorter for values of types that can have methods.
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


# A loop searches the same text for each element, and a selector for each device of a node.
@functools.lru_cache(maxsize=256)
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
    """Return all matches. Like Go, drop an empty match directly after the previous match."""
    matches: list[str] = []
    end = -1
    for match in regex.finditer(text):
        start, stop = match.span()
        if start == stop == end:
            continue
        matches.append(match.group())
        end = stop
    return matches


def _estimate_matches(target: Node | None, args: list[Node]) -> Estimate | None:
    cost = estimate_search(target, args)
    return None if cost is None else Estimate(cost)


def _estimate_global_matches(target: Node | None, args: list[Node]) -> Estimate | None:
    return _estimate_matches(args[0], args[1:])


def _estimate_find(target: Node | None, args: list[Node]) -> Estimate | None:
    cost = estimate_search(target, args)
    return None if cost is None or target is None else Estimate(cost, (0, size_range(target)[1]))


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "find",
        overload(".string_find_string(string, string) string", find),
        cost=search,
        estimate=_estimate_find,
    ),
    function(
        "findAll",
        overload(".string_find_all_string(string, string) list<string>", find_all),
        overload(".string_find_all_string_int(string, string, int) list<string>", find_all),
        cost=search,
        estimate=_estimate_find,
    ),
)


@functools.cache
def matches_of(kubernetes: Version) -> tuple[Function, ...]:
    """Return ``matches`` of a version. Called as a function it costs one in cel-go 0.26, until 1.36."""
    priced = kubernetes >= V1_37
    return (
        function(
            "matches",
            overload(
                "matches(string, string) bool",
                cost=search if priced else None,
                estimate=_estimate_global_matches if priced else None,
            ),
            overload(".matches_string(string, string) bool", cost=search, estimate=_estimate_matches),
            run=matches,
        ),
    )

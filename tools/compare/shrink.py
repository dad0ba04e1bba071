"""Remove parts of a failing case until each further removal would make it pass."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from dra_shared.jsontypes import JsonObject

_Path = tuple[str | int, ...]


# Keep the fields that identify objects. Without them a case would fail for another reason.
_KEPT = frozenset(
    {
        "apiVersion",
        "device",
        "driver",
        "generation",
        "kind",
        "metadata",
        "name",
        "namespace",
        "operation",
        "pod",
        "pool",
        "resourceSliceCount",
        "resourceVersion",
        "shareID",
        "uid",
    }
)

_LARGE = 6


def shrink(case: JsonObject, fails: Callable[[JsonObject], bool]) -> JsonObject:
    """Remove fields and list items from a failing case, as long as it still fails.

    Fields that identify an object stay. ``fails`` says whether a case fails. It must also accept cases that make no
    sense, and say that they do not fail.
    """
    case = _halve(case, fails)
    # A removal can make others possible, so repeat all of them until a round removes nothing.
    removed = True
    while removed:
        removed = False
        for path in sorted(_paths(case), key=len):
            smaller = _without(case, path)
            if smaller is not None and fails(smaller):
                case = smaller
                removed = True
    return case


def _halve(case: JsonObject, fails: Callable[[JsonObject], bool]) -> JsonObject:
    """Remove halves of large lists and maps as long as the case still fails. This saves most of the single removals."""
    for path in sorted((path for path, _ in _large(case)), key=len):
        halved = True
        while halved:
            halved = False
            for half in (0, 1):
                smaller = _without_half(case, path, half)
                if smaller is not None and fails(smaller):
                    case, halved = smaller, True
                    break
    return case


def _large(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yield the path of each long list and map, with the value."""
    if isinstance(value, list | dict):
        if len(value) >= _LARGE:
            yield path, value
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _large(item, (*path, key))


def _without_half(case: JsonObject, path: _Path, half: int) -> JsonObject | None:
    smaller = copy.deepcopy(case)
    found: Any = smaller
    try:
        for step in path:
            found = found[step]
    except (KeyError, IndexError, TypeError):
        return None
    if len(found) < _LARGE:
        return None
    middle = len(found) // 2
    if isinstance(found, list):
        found[:] = found[middle:] if half else found[:middle]
        return smaller
    for key in list(found)[:middle] if half else list(found)[middle:]:
        if key not in _KEPT:
            del found[key]
    return smaller


def _paths(value: Any, path: _Path = ()) -> Iterator[_Path]:
    """Yield the path of each field and list item.

    The last item of a list comes first, so that paths of the other items stay valid after its removal.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _KEPT:
                yield (*path, key)
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        for index in reversed(range(len(value))):
            yield (*path, index)
            yield from _paths(value[index], (*path, index))


def _without(case: JsonObject, path: _Path) -> JsonObject | None:
    """Return the case without the value at path, or None if an earlier removal took that value along."""
    smaller = copy.deepcopy(case)
    parent: Any = smaller
    try:
        for step in path[:-1]:
            parent = parent[step]
        del parent[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return smaller

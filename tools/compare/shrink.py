"""Shrink a case to a smallest one that still fails."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from dra_shared.jsontypes import JsonObject

_Path = tuple[str | int, ...]


# Without them objects have no identity, and a case fails for another reason.
_KEPT = frozenset(
    {"name", "metadata", "driver", "pool", "device", "generation", "resourceSliceCount", "shareID"}
)


def shrink(case: JsonObject, fails: Callable[[JsonObject], bool]) -> JsonObject:
    """Return a case that fails, of which no single field or list item can be removed so that it still fails.

    Fields that identify an object stay. ``fails`` says whether a case fails. It must also accept cases that make no
    sense, and say that they do not fail.
    """
    # Each removal may make others possible, so all are tried until a whole round removes nothing.
    removed = True
    while removed:
        removed = False
        for path in sorted(_paths(case), key=len):
            smaller = _without(case, path)
            if smaller is not None and fails(smaller):
                case = smaller
                removed = True
    return case


def _paths(value: Any, path: _Path = ()) -> Iterator[_Path]:
    """Yield the path of each field and list item. Items come last first, so that removing one keeps the other paths."""
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

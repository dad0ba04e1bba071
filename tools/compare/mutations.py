"""Small random changes of an object, most of which make it invalid."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from dra_shared.jsontypes import JsonObject

from tools.compare.draw import Draw

# Changes of these fields fail checks of the request, before the validation that is compared.
_FIXED = frozenset({"apiVersion", "kind", "namespace", "resourceVersion", "uid", "creationTimestamp"})
_STRINGS = (
    "",
    " ",
    "a",
    "UPPER",
    "Mixed.Example.com",
    "under_score",
    "-dash",
    "trail-",
    "a.b",
    "a..b",
    "a/b",
    "a/b/c",
    "/a",
    "example.com/x",
    "example.com/UPPER",
    "gpu.example.com",
    "gpu.example.com/model",
    "kubernetes.io/x",
    "*",
    "é",
    "None",
    "All",
    "Exists",
    "Equal",
    "NoSchedule",
    "NodePrepareResources",
    "FromClass",
    "r0",
    "r0/s0",
    "r1",
    "cs0",
    "mem",
    "1.2.3",
    "1.0",
    "00:11:22:33:44:55",
    "10.0.0.1",
    "10.0.0.1/8",
    "true",
    "device.driver ==",
    'device.attributes["x"].y.exists(a, a)',
    "1",
    "0",
    "-1",
    "1500m",
    "2024-05-06T07:08:10Z",
    "33333333-3333-4333-8333-333333333333",
    "a" * 33,
    "a" * 64,
    "x" * 65,
    "a" * 254,
    "é" * 33,
    f"{'d' * 64}.com/a",
    f"{'d' * 62}.com/a",
    " ".join(["true ||"] * 1500) + " true",
)
# Fields that are maps with free keys.
_MAPS = frozenset(
    {
        "annotations",
        "attributes",
        "capacity",
        "consumedCapacity",
        "counters",
        "data",
        "labels",
        "nodeAllocatableResourceMappings",
        "nodeAllocatableResources",
        "parameters",
        "requests",
    }
)
_NUMBERS = (0, 1, -1, 2, 33, 1001, 2147483647, 9223372036854775807)
# Limits of lists and maps.
_SIZES = (3, 5, 9, 17, 33, 65, 129, 257)


def mutate(obj: JsonObject, draw: Draw, fixed_name: bool) -> JsonObject:
    """Return a copy of the object with one random change. Its name does not change if ``fixed_name``."""
    obj = copy.deepcopy(obj)
    places = [
        (parent, key)
        for parent, key, path in _places(obj, ())
        if not (path == ("metadata", "name") and fixed_name)
    ]
    if not places:
        return obj
    parent, key = draw.pick(places)
    value = parent[key]
    if draw.chance(0.15):
        del parent[key]
    else:
        parent[key] = (
            _change_map(value, draw, key in _MAPS) if isinstance(value, dict) else _change(value, draw)
        )
    return obj


def _places(value: Any, path: tuple[str, ...]) -> Iterator[tuple[Any, Any, tuple[str, ...]]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _FIXED and path[-1:] != ("labels",):
                # Change metadata less often than other fields, because its rules are the same for all kinds.
                if (*path, key) != ("metadata",):
                    yield value, key, (*path, key)
                yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index, (*path, "")
            yield from _places(item, (*path, ""))


def _change(value: Any, draw: Draw) -> Any:
    for kind, change in _CHANGES:
        if isinstance(value, kind):
            return change(value, draw)
    return draw.pick(({}, [], "", 0, True))


def _change_list(value: list[Any], draw: Draw) -> list[Any]:
    if not value:
        return [draw.pick(_STRINGS)]
    kind = draw.number(0, 4)
    if kind == 0:
        return []
    if kind == 1:
        return [*value, copy.deepcopy(draw.pick(value))]
    if kind == 2:
        return value[::-1]
    if kind == 3:
        return value[:-1]
    size = draw.pick(_SIZES)
    return [_number(value[index % len(value)], index) for index in range(size)]


def _change_map(value: JsonObject, draw: Draw, has_free_keys: bool) -> JsonObject:
    # An unknown field is rejected before validation, so one such case in ten is enough.
    kind = draw.number(0, 3) if has_free_keys or draw.chance(0.1) else 0
    if kind == 0 or not value:
        return {} if value else {"x": draw.pick(_STRINGS)}
    if kind == 1:
        key = draw.pick(sorted(value))
        return {(draw.pick(_STRINGS) if name == key else name): item for name, item in value.items()}
    if kind == 2:
        # Add an entry like an existing one: an unknown field of a struct, or another key of a map.
        other = copy.deepcopy(value[draw.pick(sorted(value))])
        return {**value, draw.pick(_STRINGS): other}
    size = draw.pick(_SIZES[:5])
    one = value[draw.pick(sorted(value))]
    return {**value, **{f"k{index}": copy.deepcopy(one) for index in range(size)}}


def _number(item: Any, index: int) -> Any:
    """Return a copy of a list item with a unique name, so that a too long list has no duplicates as well."""
    if isinstance(item, str):
        return f"{item}{index}"
    item = copy.deepcopy(item)
    if isinstance(item, dict):
        for name in ("name", "device", "key", "type", "uid"):
            if isinstance(item.get(name), str):
                item[name] = f"{item[name]}{index}"
                break
    return item


def _change_bool(value: bool, draw: Draw) -> bool:
    return not value


def _change_int(value: int, draw: Draw) -> int:
    return draw.pick(_NUMBERS)


def _change_string(value: str, draw: Draw) -> str:
    return draw.pick((*_STRINGS, value.upper(), f"{value}x", f" {value}", value * 30))


# Before int, because a bool is one.
_CHANGES: tuple[tuple[type, Callable[[Any, Draw], Any]], ...] = (
    (bool, _change_bool),
    (int, _change_int),
    (str, _change_string),
    (list, _change_list),
)

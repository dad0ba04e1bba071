"""Validate that lists with `x-kubernetes-list-type` set or map have no duplicates (apiextensions'
``schema/listtype``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from dra_shared.jsontext import dumps

from dra_apiserver.errors import ErrorType, FieldError

Schema = Mapping[str, Any]
_UNSPECIFIED: Any = object()


def validate_list_types(schema: Schema, obj: Any, path: str = "") -> list[FieldError]:
    """Return the duplicates in a value, each once: at the second of the items that are equal."""
    return list(_errors(schema, obj, path))


def _errors(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            for index in _find_repeated(value):
                yield FieldError(ErrorType.DUPLICATE, f"{path}[{index}]", value[index], "")
        elif kind == "map":
            yield from _repeated_keys(schema, value, path)
        items = schema.get("items")
        if isinstance(items, Mapping):
            for index, one in enumerate(value):
                yield from _errors(items, one, f"{path}[{index}]")
    elif isinstance(value, dict):
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, one in value.items():
            if isinstance(extra, Mapping):
                yield from _errors(extra, one, f"{path}[{name}]")
            if name in properties:
                yield from _errors(properties[name], one, f"{path}.{name}" if path else name)


def _repeated_keys(schema: Schema, items: list[Any], path: str) -> Iterator[FieldError]:
    for index, one in enumerate(items):
        if one is not None and not isinstance(one, dict):
            text = "must be an object for an array of list-type map"
            yield FieldError(ErrorType.INVALID, f"{path}[{index}]", one, text)
            return
    names: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
    keys = [{name: one[name] for name in names if name in one} if one else {} for one in items]
    # A single key may be absent and is compared alone; several keys are compared together.
    marks = [one.get(names[0], _UNSPECIFIED) for one in keys] if len(names) == 1 else keys
    for index in _find_repeated(marks):
        yield FieldError(ErrorType.DUPLICATE, f"{path}[{index}]", keys[index], "")


def _find_repeated(values: Sequence[Any]) -> Iterator[int]:
    """Yield the index of the second of equal values.

    It takes one pass, because the client chooses the number of values.
    """
    times: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        mark = identity(value)
        times[mark] = times.get(mark, 0) + 1
        if times[mark] == 2:
            yield index


def identity(value: Any) -> Hashable:
    """Return a key that equal values share. As in Go, 1, 1.0 and true are three values."""
    if isinstance(value, dict | list):
        return dumps(value, option=orjson.OPT_SORT_KEYS)
    return type(value), value

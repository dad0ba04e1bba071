"""List the fields in which two versions of an object differ, with both values: a readable `Comparison`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.patch.comparison import compare
from dra_apiserver.patch.fieldset import SELF, FieldSet, path_text
from dra_apiserver.schema.types import object_type

# These change with every write and name its author, which the response contains separately.
_HIDDEN = frozenset({"managedFields", "resourceVersion"})
_ABSENT: Any = None


class FieldChange(NamedTuple):
    """A path in upstream's notation (`.status.conditions[type="Ready"].status`), and both values; None if absent."""

    path: str
    old: Any
    new: Any


def changed_fields(kind: Kind, version: str, old: JsonObject, new: JsonObject) -> list[FieldChange]:
    """Return the differences between two versions of an object, both in `version`, sorted by path."""
    old, new = _without_hidden(old), _without_hidden(new)
    found = compare(object_type(kind, version), old, new)
    paths: dict[tuple[str, ...], None] = {}
    for fields in (found.removed, found.modified, found.added):
        paths |= dict.fromkeys(_topmost(fields, ()))
    changes = [FieldChange(path_text(path), _value(old, path), _value(new, path)) for path in paths]
    return sorted((one for one in changes if one.old != one.new), key=lambda one: one.path)


def _without_hidden(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _HIDDEN}
    return {**obj, "metadata": metadata}


def _topmost(fields: FieldSet, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of a set, without those below others."""
    for step, below in fields.items():
        if not below or SELF in below:
            yield (*path, step)
        else:
            yield from _topmost(below, (*path, step))


def _value(value: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        kind, text = step[:2], step[2:]
        if kind == "f:":
            value = value.get(text) if isinstance(value, dict) else _ABSENT
        elif not isinstance(value, list):
            return _ABSENT
        elif kind == "k:":
            keys = orjson.loads(text)
            value = next((item for item in value if _has(item, keys)), _ABSENT)
        else:
            wanted = orjson.loads(text)
            value = wanted if wanted in value else _ABSENT
    return value


def _has(item: Any, keys: JsonObject) -> bool:
    # A key that an item omits has its default.
    return isinstance(item, dict) and all(item.get(key, value) == value for key, value in keys.items())

"""Decode the answers of extenders as Go's encoding/json decodes them into the types of ``extender/v1``.

Field names match in any case, unknown fields are ignored, and null leaves a field unchanged. A value of a
wrong type is an error with Go's message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_shared.jsontypes import JsonObject

_INT64 = 1 << 63


class AnswerError(Exception):
    """An answer of a wrong type. The message is Go's."""


@dataclass(frozen=True, slots=True)
class Type:
    """A Go type. Error messages call it `go`. A struct has a `name` and `fields`, a list or map has `items`."""

    go: str
    name: str = ""
    fields: Mapping[str, tuple[str, Type]] | None = None
    items: Type | None = None
    is_map: bool = False


def _struct(name: str, /, **fields: Type) -> Type:
    return Type(f"v1.{name}", name, {key.lower(): (key, one) for key, one in fields.items()})


_STRING, _NUMBER = Type("string"), Type("int64")
_REASONS = Type("v1.FailedNodesMap", items=_STRING, is_map=True)
_NODE = _struct("Node", metadata=_struct("ObjectMeta", name=_STRING))
_NODES = _struct("NodeList", items=Type("[]v1.Node", items=_NODE))
_PODS = Type("[]*v1.MetaPod", items=_struct("MetaPod", UID=_STRING))
_VICTIMS = _struct("MetaVictims", Pods=_PODS, NumPDBViolations=_NUMBER)
_PRIORITY = _struct("HostPriority", Host=_STRING, Score=_NUMBER)

FILTER = _struct(
    "ExtenderFilterResult",
    Nodes=_NODES,
    NodeNames=Type("[]string", items=_STRING),
    FailedNodes=_REASONS,
    FailedAndUnresolvableNodes=_REASONS,
    Error=_STRING,
)
PRIORITIES = Type("v1.HostPriorityList", items=_PRIORITY)
BINDING = _struct("ExtenderBindingResult", Error=_STRING)
PREEMPTION = _struct(
    "ExtenderPreemptionResult",
    NodeNameToMetaVictims=Type("map[string]*v1.MetaVictims", items=_VICTIMS, is_map=True),
)


def read(kind: Type, value: Any) -> Any:
    """Decode the value: use Go's field names, and drop unknown fields and nulls.

    Raises:
        AnswerError: the value has a wrong type.
    """
    if value is None:
        return {} if kind.fields is not None else []
    return _read(kind, value, "", [])


def _read(kind: Type, value: Any, owner: str, path: list[str]) -> Any:
    if kind.fields is not None and isinstance(value, dict):
        return _members(kind, value, path)
    if kind.items is not None and isinstance(value, dict if kind.is_map else list):
        if isinstance(value, dict):
            return {key: _item(kind.items, one, owner, path) for key, one in value.items()}
        return [_item(kind.items, one, owner, path) for one in value]
    if kind is _STRING and isinstance(value, str):
        return value
    if kind is _NUMBER and type(value) is int and -_INT64 <= value < _INT64:
        return value
    place = f"Go struct field {owner}.{'.'.join(path)}" if path else "Go value"
    raise AnswerError(f"json: cannot unmarshal {_describe(kind, value)} into {place} of type {kind.go}")


def _item(kind: Type, value: Any, owner: str, path: list[str]) -> Any:
    if value is not None:
        return _read(kind, value, owner, path)
    return {} if kind.fields is not None else "" if kind is _STRING else 0


def _members(kind: Type, value: JsonObject, path: list[str]) -> JsonObject:
    assert kind.fields is not None
    made: JsonObject = {}
    for key, one in value.items():
        if one is not None and (known := kind.fields.get(key.lower())) is not None:
            name, member = known
            made[name] = _read(member, one, kind.name, [*path, name])
    return made


def _describe(kind: Type, value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value!r}" if kind is _NUMBER else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"

"""Strict JSON decoding into the configuration types, and encoding, like ``sigs.k8s.io/json`` for Go structs.

A wrong type is an error at once. Unknown fields and duplicate keys are collected.
"""

import base64
import binascii
import dataclasses
import functools
import types
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar, cast

from dra_shared import durations
from dra_shared.durations import Duration
from dra_shared.repeatedkeys import RepeatedKeys

from dra_scheduler.componentconfig.types import Embedded, Json

T = TypeVar("T")

_RANGES = {"int32": 31, "int64": 63}
_NUMBERS = (*_RANGES, "float32")
_GO_NAMES: dict[Any, str] = {str: "string", bool: "bool", float: "float32", Duration: "string"}


class DecodeError(ValueError):
    """JSON that does not match the type. The message is Go's."""


class _Field(NamedTuple):
    """A field: its names in Python, JSON and errors, its type without ``| None``, and whether it is a pointer."""

    attribute: str
    json: str
    shown: str
    type: Any
    pointer: bool
    always: bool


class _Place(NamedTuple):
    """The position of a value: its innermost struct, and its paths in type errors and strict decoding errors."""

    struct: str
    go: str
    strict: str

    def child(self, struct: str, name: str, shown: str = "") -> "_Place":
        dot = "." if self.go else ""
        strict = f"{self.strict}.{name}" if self.strict else name
        return _Place(struct, f"{self.go}{dot}{shown or name}", strict)

    def item(self, index: int) -> "_Place":
        return self._replace(strict=f"{self.strict}[{index}]")


def decode(cls: type[T], value: Any) -> tuple[T, list[str]]:
    """Decode the value as ``cls``. Return the object, and the problems that only strict decoding reports.

    Raises:
        DecodeError: a value has the wrong type.
    """
    strict: list[str] = []
    decoded = _value(cls, value, _Place("", "", ""), strict)
    return cast("T", decoded), list(dict.fromkeys(strict))


def encode(value: Any) -> Any:
    """Return the JSON value that Go would write."""
    if isinstance(value, Duration):
        return str(value)
    if dataclasses.is_dataclass(value):
        members = [(found, getattr(value, found.attribute)) for found in _fields(cast("type", type(value)))]
        return {
            found.json: encode(member)
            for found, member in members
            if found.always or not _is_empty(member, found.pointer)
        }
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [encode(item) for item in value]
    return value


def _is_empty(value: Any, pointer: bool) -> bool:
    """True if ``omitempty`` omits the value. Structs and pointers that are set are never omitted."""
    if value is None or (isinstance(value, list | dict | bytes) and not value):
        return True
    return not pointer and value in ("", 0, False)


@functools.cache
def _fields(cls: type) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_field(one.name, hints[one.name]) for one in dataclasses.fields(cls))


def _field(attribute: str, hint: Any) -> _Field:
    markers = hint.__metadata__ if typing.get_origin(hint) is typing.Annotated else ()
    plain = hint.__origin__ if markers else hint
    arms = typing.get_args(plain) if isinstance(plain, types.UnionType) else ()
    if typing.get_origin(plain) is typing.Union:
        arms = typing.get_args(plain)
    number = next((marker for marker in markers if marker in _NUMBERS), None)
    kind = next((arm for arm in arms if arm is not type(None)), hint if number is not None else plain)
    name = next((marker.name for marker in markers if isinstance(marker, Json)), _camel(attribute))
    struct = next((f"{marker.struct}." for marker in markers if isinstance(marker, Embedded)), "")
    return _Field(attribute, name, struct + name, kind, bool(arms), "always" in markers)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _value(kind: Any, value: Any, place: _Place, strict: list[str]) -> Any:
    if kind is Any:
        return value
    if kind is Duration:
        return _duration(value, place)
    if dataclasses.is_dataclass(kind):
        return _struct(cast("type", kind), value, place, strict)
    if typing.get_origin(kind) is list:
        (item,) = typing.get_args(kind)
        if not isinstance(value, list):
            raise _mismatch(value, kind, place)
        return [_item(item, one, place.item(index), strict) for index, one in enumerate(value)]
    if typing.get_origin(kind) is dict:
        if not isinstance(value, dict):
            raise _mismatch(value, kind, place)
        return {key: _item(str, one, place.child(place.struct, key), strict) for key, one in value.items()}
    return _scalar(kind, value, place)


def _item(kind: Any, value: Any, place: _Place, strict: list[str]) -> Any:
    """Decode a member of a list or map. A null becomes the type's zero value."""
    if value is None:
        return cast("type", kind)() if dataclasses.is_dataclass(kind) else ""
    return _value(kind, value, place, strict)


def _struct(cls: type, value: Any, place: _Place, strict: list[str]) -> Any:
    if not isinstance(value, dict):
        raise _mismatch(value, cls, place)
    known = {found.json: found for found in _fields(cls)}
    made: dict[str, Any] = {}
    for key in _keys(value, place, strict):
        found = known.get(key)
        inside = place.child(cls.__name__, key, found.shown if found is not None else "")
        if found is None:
            strict.append(f'unknown field "{inside.strict}"')
        elif value[key] is None:
            if found.type is Duration and not found.pointer:
                made[found.attribute] = _duration("", inside)
        else:
            made[found.attribute] = _value(found.type, value[key], inside, strict)
    return cls(**made)


def _keys(value: dict[str, Any], place: _Place, strict: list[str]) -> Iterator[str]:
    if isinstance(value, RepeatedKeys):
        seen: set[str] = set()
        for key in value.keys_in_order:
            if key in seen:
                strict.append(f'duplicate field "{place.child("", key).strict}"')
            seen.add(key)
    yield from value


def _duration(value: Any, place: _Place) -> Duration:
    if not isinstance(value, str):
        raise _mismatch(value, str, place)
    try:
        return durations.parse(value)
    except ValueError as problem:
        raise DecodeError(str(problem)) from None


def _scalar(kind: Any, value: Any, place: _Place) -> Any:
    if kind is str and isinstance(value, str):
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is bytes and isinstance(value, str):
        return _bytes(value)
    if typing.get_origin(kind) is typing.Annotated and isinstance(value, int | float):
        name = kind.__metadata__[0]
        if isinstance(value, bool):
            raise _mismatch(value, kind, place)
        if name == "float32":
            return float(value)
        limit = 1 << _RANGES[name]
        if isinstance(value, int) and -limit <= value < limit:
            return value
        raise _mismatch(value, kind, place, f" {value}")
    raise _mismatch(value, kind, place)


def _bytes(text: str) -> bytes:
    plain = text.replace("\r", "").replace("\n", "")
    try:
        return base64.b64decode(plain, validate=True)
    except binascii.Error:
        alphabet = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        at = next((i for i, char in enumerate(text) if char not in alphabet), len(text))
        raise DecodeError(f"illegal base64 data at input byte {at}") from None


def _mismatch(value: Any, kind: Any, place: _Place, shown: str = "") -> DecodeError:
    names: list[tuple[type, str]] = [(bool, "bool"), (str, "string"), (int, "number"), (float, "number")]
    what = next((name for cls, name in names if isinstance(value, cls)), "array")
    what = "object" if isinstance(value, dict) else what
    where = f"Go struct field {place.struct}.{place.go}" if place.go else "Go value"
    return DecodeError(f"json: cannot unmarshal {what}{shown} into {where} of type {_go_name(kind)}")


def _go_name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Annotated:
        return str(kind.__metadata__[0])
    if typing.get_origin(kind) is list:
        (item,) = typing.get_args(kind)
        return f"[]{_go_name(item)}"
    if typing.get_origin(kind) is dict:
        return "map[string]string"
    if kind is bytes:
        return "[]uint8"
    known = _GO_NAMES.get(kind)
    return known if known is not None else f"{_package(kind.__name__)}.{kind.__name__}"


def _package(name: str) -> str:
    return "v1alpha1" if name in ("LeaderElectionConfiguration", "ClientConnectionConfiguration") else "v1"

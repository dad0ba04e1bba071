"""Strict decoding at every depth: unknown fields, and null, as ``sigs.k8s.io/json`` treats them.

The walk follows the declared type: structs, dataclasses, lists, sets, tuples, maps, unions, and all in each other.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import inspect

_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_OBJECTS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)


def find_unknown_fields(value: Any, kind: type[Any]) -> Iterator[str]:
    """Yield the paths of the fields that the type does not have, such as ``ports[0].sped``."""
    return _find_unknown(value, inspect.type_info(kind), "")


def drop_nulls(value: Any, kind: type[Any]) -> Any:
    """Return the value without fields that are null, unless their type has None.

    Go leaves a field at its default where JSON has null.
    """
    return _drop_nulls(value, inspect.type_info(kind))


def _find_unknown(value: Any, kind: inspect.Type, path: str) -> Iterator[str]:
    kind = _narrow(value, kind)
    if isinstance(kind, _OBJECTS):
        fields = _fields(kind)
        for name, inner in value.items():
            if name in fields:
                yield from _find_unknown(inner, fields[name], f"{path}{name}.")
            elif name != getattr(kind, "tag_field", None):
                yield path + name
    else:
        for key, inner, type_ in _parts(value, kind):
            place = f"{path.removesuffix('.')}[{key}]" if isinstance(key, int) else f"{path}{key}"
            yield from _find_unknown(inner, type_, f"{place}.")


def _drop_nulls(value: Any, kind: inspect.Type) -> Any:
    kind = _narrow(value, kind)
    if isinstance(kind, _OBJECTS):
        fields = _fields(kind)
        return {
            name: _drop_nulls(inner, fields[name]) if name in fields else inner
            for name, inner in value.items()
            if inner is not None or name not in fields or _takes_null(fields[name])
        }
    parts = [(key, _drop_nulls(inner, type_)) for key, inner, type_ in _parts(value, kind)]
    if not parts:
        return value
    return dict(parts) if isinstance(value, dict) else [inner for _, inner in parts]


def _narrow(value: Any, kind: inspect.Type) -> inspect.Type:
    """Return the type without its metadata, and the member of a union that a JSON object or list is decoded as.

    Any is returned if the value has another shape than the type.
    """
    if isinstance(kind, inspect.Metadata):
        return _narrow(value, kind.type)
    if isinstance(kind, inspect.UnionType):
        members = [_narrow(value, member) for member in kind.types]
        fitting = [member for member in members if not isinstance(member, inspect.AnyType)]
        # Structs of a union have tags, which say which of them an object is.
        tagged = [one for one in fitting if isinstance(one, inspect.StructType) and _has_tag(value, one)]
        return next(iter(tagged or fitting), inspect.AnyType())
    shape: type[Any] | tuple[type[Any], ...] = ()
    if isinstance(kind, (*_OBJECTS, inspect.DictType)):
        shape = dict
    elif isinstance(kind, (*_LISTS, inspect.TupleType)):
        shape = list
    return kind if isinstance(value, shape) else inspect.AnyType()


def _has_tag(value: Mapping[str, Any], kind: inspect.StructType) -> bool:
    return kind.tag_field is not None and value.get(kind.tag_field) == kind.tag


def _parts(value: Any, kind: inspect.Type) -> Iterator[tuple[Any, Any, inspect.Type]]:
    """Yield the index or key of each part of a list or map, with the part and its type."""
    if isinstance(kind, _LISTS):
        yield from ((place, inner, kind.item_type) for place, inner in enumerate(value))
    elif isinstance(kind, inspect.TupleType):
        # A tuple of another length is refused when it is decoded.
        last = inspect.AnyType()
        for place, inner in enumerate(value):
            yield place, inner, kind.item_types[place] if place < len(kind.item_types) else last
    elif isinstance(kind, inspect.DictType):
        yield from ((key, inner, kind.value_type) for key, inner in value.items())


def _fields(
    kind: inspect.StructType | inspect.DataclassType | inspect.TypedDictType,
) -> dict[str, inspect.Type]:
    return {field.encode_name: field.type for field in kind.fields}


def _takes_null(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _takes_null(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(_takes_null(member) for member in kind.types)
    return isinstance(kind, inspect.NoneType | inspect.AnyType)

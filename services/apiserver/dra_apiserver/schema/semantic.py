"""Compare values like upstream's check for changes (apimachinery's `equality.Semantic`).

An absent list or map equals an empty one. A member that is not a pointer in Go equals its zero value.
Quantities are equal if their amounts are. A set pointer differs from an unset one, even if it points to an
empty struct.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from dra_shared.jsontext import dumps
from dra_shared.quantity import Quantity

from dra_apiserver.schema.types import Field, ListNode, MapNode, Node, Scalar, Struct, definition

_EMPTY: Mapping[str, Any] = {}
_NOTHING: Sequence[Any] = ()
_ABSENT: tuple[Any, ...] = (None, [], {}, "")


def same(type_name: str, left: Any, right: Any) -> bool:
    """True if two values of the type are semantically equal. A struct may be None, which is its zero value."""
    return equal(definition(type_name), left, right)


def same_items(type_name: str, left: Sequence[Any] | None, right: Sequence[Any] | None) -> bool:
    """True if two lists of the type are semantically equal."""
    return equal(_list_of(type_name), left, right)


def same_members(
    type_name: str, left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, *names: str
) -> bool:
    """True if the named members of two structs of the type are semantically equal."""
    fields, left, right = struct_fields(type_name), left or _EMPTY, right or _EMPTY
    for name in names:
        one, other = left.get(name), right.get(name)
        if name not in fields:
            if not _same_unknown(one, other):
                return False
        elif not equal_fields(fields[name], one, other):
            return False
    return True


def struct_fields(type_name: str) -> Mapping[str, Field]:
    """Return the members of a struct by name."""
    node = definition(type_name)
    return node.all_fields if isinstance(node, Struct) else {}


@functools.cache
def _list_of(type_name: str) -> ListNode:
    return ListNode(definition(type_name))


def equal(node: Node, left: Any, right: Any) -> bool:
    """True if two values of a type are semantically equal."""
    # Most values do not change, and comparing their bytes avoids a walk along their types.
    return left is right or _bytes(left) == _bytes(right) or equal_by_type(node, left, right)


def equal_fields(field: Field, left: Any, right: Any) -> bool:
    """True if two values of a struct's member are semantically equal. None represents an absent one."""
    return left is right or _bytes(left) == _bytes(right) or _equal_members(field, left, right)


def equal_by_type(node: Node, left: Any, right: Any) -> bool:
    """Compare like `equal`, but walk the values at once. This is faster if they are expected to differ."""
    if isinstance(node, Struct):
        known = node.all_fields
        left, right = left or _EMPTY, right or _EMPTY
        for name in left.keys() | right.keys():
            one, other = left.get(name), right.get(name)
            # Check this first, because most members are equal texts or the same object.
            if one is other or (type(one) is str and one == other):
                continue
            field = known.get(name)
            if not (_same_unknown(one, other) if field is None else _equal_members(field, one, other)):
                return False
        return True
    if isinstance(node, ListNode):
        left, right = left or _NOTHING, right or _NOTHING
        if len(left) != len(right):
            return False
        pairs = zip(left, right, strict=True)
        return next((False for one, other in pairs if not equal_by_type(node.item, one, other)), True)
    if isinstance(node, MapNode):
        left, right = left or _EMPTY, right or _EMPTY
        if left.keys() != right.keys():
            return False
        return next((False for key in left if not equal_by_type(node.value, left[key], right[key])), True)
    return _same_scalar(node, left, right)


def _equal_members(field: Field, left: Any, right: Any) -> bool:
    node = field.node
    if left is None or right is None:
        if field.pointer:
            return left is right
        if isinstance(node, Scalar):
            zero = field.zero()
            left, right = (zero if value is None else value for value in (left, right))
    return equal_by_type(node, left, right)


def _same_scalar(node: Scalar, left: Any, right: Any) -> bool:
    if node is Scalar.ANY:
        # Python considers True, 1 and 1.0 equal.
        return _bytes(left) == _bytes(right)
    if node is Scalar.QUANTITY and left is not None and right is not None:
        return Quantity.parse(str(left)).compare(Quantity.parse(str(right))) == 0
    if node is Scalar.BYTES:
        return (left or "") == (right or "")
    return bool(left == right)


def _same_unknown(left: Any, right: Any) -> bool:
    return _bytes(left) == _bytes(right) or (left in _ABSENT and right in _ABSENT)


def _bytes(value: Any) -> bytes:
    return dumps(value, option=orjson.OPT_SORT_KEYS)

"""Share equal parts of objects: replicas have equal containers, and nodes of one kind have equal images and
attributes.

This saves most of the memory of a large cluster. It has no other effect, because objects are immutable.
"""

from typing import Any, TypeVar

import msgspec
from dra_shared.api.meta import Object, Struct

T = TypeVar("T", bound=Object)

_replace = msgspec.structs.replace
_encode = msgspec.msgpack.Encoder().encode
# Larger parts are hardly ever equal. Only their own parts are shared.
_LARGE = 4096
# The largest number of remembered parts, which bounds memory.
_MOST = 20_000
_PLAIN = frozenset({str, type(None), bool, int, float})


class Shared:
    """A cache of recently seen parts."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def of(self, obj: T) -> T:
        """Return an equal object that shares its parts with earlier objects if possible."""
        if len(self._known) > _MOST:
            self._known.clear()
        pieces = ((name, getattr(obj, name)) for name in obj.__struct_fields__)
        return _replace(
            obj, **{name: self._fields(each) for name, each in pieces if isinstance(each, Struct)}
        )

    def _fields(self, piece: Struct) -> Struct:
        """Return the piece with its compound fields shared."""
        found, kind = {}, type(piece)
        for name in piece.__struct_fields__:
            value = getattr(piece, name)
            if value and type(value) not in _PLAIN:
                found[name] = self._part(kind, name, value)
        return _replace(piece, **found) if found else piece

    def _part(self, kind: type, name: str, value: Any) -> Any:
        encoded = _encode(value)
        if len(encoded) > _LARGE:
            return self._elements(value)
        # Equal texts have equal values only if they are of the same field type.
        key = kind, name, encoded
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._elements(value)
        return known

    def _elements(self, value: Any) -> Any:
        """Return a list or map whose elements are shared. Unequal lists may have equal elements."""
        if isinstance(value, tuple) and isinstance(value[0], Struct):
            return tuple(map(self._element, value))
        if isinstance(value, dict) and isinstance(next(iter(value.values())), Struct):
            return {key: self._element(each) for key, each in value.items()}
        return value

    def _element(self, value: Struct) -> Struct:
        try:
            known: Struct = self._known.setdefault(value, value)
        except TypeError:  # the struct contains dicts, which cannot be hashed
            return self._fields(value)
        return known

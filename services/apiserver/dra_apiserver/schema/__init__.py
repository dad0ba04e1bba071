"""Decode and check requests' bodies: field validation, types, pruning and defaults, all from schema data.

``decode(registry, kind, version, body, media_type, field_validation) -> Decoded``
    A create or update body (JSON or YAML bytes) as an object. ``Decoded.obj`` is pruned and type-checked, in
    ``Decoded.version`` (the body's own apiVersion, which may be another served version than the endpoint's);
    ``Decoded.warnings`` are texts for Warning headers. Raises :class:`DecodeError` with code, reason and
    message.
``sanitize(kind, version, obj, field_validation) -> list[str]``
    The same checks for an object that is already decoded, such as the result of a patch. Prunes the object in
    place, and returns warnings.
``default(kind, version, obj, now, stored) -> None``
    Sets upstream's defaults in place and brings the object to the form that Kubernetes encodes.
``strip(object_type(kind, version), obj, stored) -> None``
    Removes empty members that Kubernetes does not encode. Called after validation, before an object is stored.
``same(type_name, left, right) -> bool``
    True if two values of a type are equal for upstream. ``same_members`` compares members of a struct and
    ``same_items`` a list; ``equal`` and ``equal_fields`` take the type itself.
``decode_as(registry, group, version, kind, type_of(group, version, kind), body, …) -> Decoded``
    The same for a body whose kind is not a resource: a Binding, a Scale, an Eviction, DeleteOptions (group
    ``""`` and kind; pass ``None`` for the type to take any fields).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.schema.decode import Decoded, decode, decode_as, sanitize
from dra_apiserver.schema.defaults import apply_defaults
from dra_apiserver.schema.errors import DecodeError
from dra_apiserver.schema.reader import complete, strip
from dra_apiserver.schema.semantic import equal, equal_fields, same, same_items, same_members, struct_fields
from dra_apiserver.schema.types import object_type, type_of


def default(
    kind: Kind,
    version: str,
    obj: dict[str, Any],
    now: str = "",
    stored: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Set upstream's defaults in place, and add the members that an encoded object always has.

    ``now`` is the RFC 3339 time for defaults that are times; without it they stay unset. Members that are
    identical to those of ``stored``, an object in the same version, are complete already.
    """
    apply_defaults(kind, version, obj, now, stored)
    complete(object_type(kind, version), obj, stored)


__all__ = [
    "DecodeError",
    "Decoded",
    "decode",
    "decode_as",
    "default",
    "equal",
    "equal_fields",
    "object_type",
    "same",
    "same_items",
    "same_members",
    "sanitize",
    "strip",
    "struct_fields",
    "type_of",
]

"""Upstream's defaults.

``apply_defaults(kind, version, obj)`` sets them in place: first those of a kind's rules, then those of its
schema for single fields.
"""

from collections.abc import Mapping
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.schema.types import ListNode, Struct, object_type

_NOTHING: Mapping[str, Any] = {}


def apply_defaults(
    kind: Kind, version: str, obj: JsonObject, now: str = "", stored: Mapping[str, Any] = _NOTHING
) -> None:
    """Set all defaults of ``obj``, an object of ``kind`` in ``version``.

    ``now`` is the time for defaults that are times.
    """
    if kind.default is not None:
        kind.default(obj, version, now)
    if not kind.unstructured:
        apply_stated(object_type(kind, version), obj, stored)


def apply_stated(node: Struct, obj: JsonObject, stored: Mapping[str, Any] = _NOTHING) -> None:
    """Set the defaults that schemas state for members.

    Members that are identical to ``stored``'s have them already.
    """
    for name, value in node.stated_defaults:
        if name not in obj:
            obj[name] = value if not isinstance(value, dict | list) else _copy(value)
    walk = node.stated_below
    if not walk:
        return
    for key in node.stated_always:
        obj.setdefault(key, {})
    for key, value in obj.items():
        found = walk.get(key)
        if found is None or value is None or value is stored.get(key):
            continue
        shape, below = found
        if shape is Struct:
            apply_stated(below, value)
        else:
            for one in value if shape is ListNode else value.values():
                if isinstance(one, dict):
                    apply_stated(below, one)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value

"""Upstream's defaults.

``apply_defaults(kind, version, obj)`` sets them in place: first those that a kind has rules for, then those that its
schema states for single fields.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dra_apiserver.registry import KindInfo
from dra_apiserver.schema.defaults import apps, batch, core, others, resource
from dra_apiserver.schema.defaults.custom import default_custom
from dra_apiserver.schema.types import ListNode, Struct, object_type

Object = dict[str, Any]

RULES: Mapping[tuple[str, str], Callable[[Object, str], None]] = {
    **core.RULES,
    **apps.RULES,
    **batch.RULES,
    **resource.RULES,
    **others.RULES,
}


_NOTHING: Mapping[str, Any] = {}


def apply_defaults(
    kind: KindInfo, version: str, obj: Object, now: str = "", stored: Mapping[str, Any] = _NOTHING
) -> None:
    """Sets the defaults of ``obj``, an object of ``kind`` in ``version``; ``now`` is the time that some of them are."""
    if now and kind.group == "resource.k8s.io":
        resource.taint_times(kind.kind, obj, now)
    if kind.custom is not None:
        default_custom(kind.custom[version].schema, obj)
        return
    rule = RULES.get((kind.group, kind.kind))
    if rule is not None:
        rule(obj, version)
    apply_stated(object_type(kind, version), obj, stored)


def apply_stated(node: Struct, obj: Object, stored: Mapping[str, Any] = _NOTHING) -> None:
    """Sets what schemas state as the default of a member; members that are ``stored``'s own have it."""
    for name, value in node.stated:
        if name not in obj:
            obj[name] = value if not isinstance(value, dict | list) else _copy(value)
    walk = node.stated_below
    if not walk:
        return
    for key, value in obj.items():
        found = walk.get(key)
        if found is None or not value or value is stored.get(key):
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

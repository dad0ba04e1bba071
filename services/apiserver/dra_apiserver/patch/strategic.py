"""Strategic merge patch: lists merge by key, and ``$`` directives say more than values can."""

from typing import Any

from dra_apiserver.patch.errors import PatchError
from dra_apiserver.patch.simple import load
from dra_apiserver.schema.types import Field, ListNode, MapNode, Node, Struct

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"

Object = dict[str, Any]


def strategic_merge_patch(node: Struct, obj: Object, body: bytes) -> Object:
    """``obj`` (changed in place) after a strategic merge patch for objects of type ``node``.

    Raises:
        PatchError: the patch is malformed or contradicts itself.
    """
    patch = load(body, "")
    if not isinstance(patch, dict):
        found = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(patch), "number")
        raise PatchError(f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
    return _merge_map(obj, patch, node)


def _fail(message: str, reason: str = "BadRequest") -> PatchError:
    return PatchError(message, 400, reason)


def _member(node: Node | None, key: str) -> tuple[Node | None, frozenset[str]]:
    """The type and patch strategies of a member."""
    if isinstance(node, Struct):
        field: Field | None = node.fields.get(key)
        return (None, frozenset()) if field is None else (field.node, field.strategies)
    return (node.value, frozenset()) if isinstance(node, MapNode) else (None, frozenset())


def _merge_map(original: Object, patch: Object, node: Node | None) -> Object:
    if _PATCH in patch:
        directive = patch.pop(_PATCH)
        if directive == "replace":
            return patch
        if directive == "delete":
            return {}
        raise _fail(f"unknown patch type: {directive} in map: {_go_map(patch | {_PATCH: directive})}")
    _retain_keys(original, patch)
    _merge_ordered(original, patch, node)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from(original, key.removeprefix(_DELETE_FROM), value)
            continue
        if value is None:
            original.pop(key, None)
            continue
        current: Any = original.get(key)
        kind, strategies = _member(node, key)
        if key not in original or type(current) is not type(value):
            kept, keep = _without_directives(_without_nulls(value))
            if keep:
                original[key] = kept
            else:
                original.pop(key, None)
        elif isinstance(value, dict):
            original[key] = (
                _replacement(value) if "replace" in strategies else _merge_map(current, value, kind)
            )
        elif isinstance(value, list):
            original[key] = _merge_list_member(current, value, kind)
        else:
            original[key] = value
    return original


def _replacement(value: Object) -> Object:
    value.pop(_PATCH, None)
    return value


def _merge_list_member(current: list[Any], value: list[Any], kind: Node | None) -> list[Any]:
    if isinstance(kind, ListNode) and "merge" in kind.strategies:
        return _merge_list(current, value, kind)
    return value


def _retain_keys(original: Object, patch: Object) -> None:
    if _RETAIN not in patch:
        return
    keep = patch.pop(_RETAIN)
    if not isinstance(keep, list):
        raise _fail("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER)) and key not in keep:
            raise _fail("invalid patch format of retainKeys")
    for key in [key for key in original if key not in keep]:
        del original[key]


def _delete_from(original: Object, key: str, gone: Any) -> None:
    if not isinstance(gone, list):
        raise _fail("invalid patch format of primitive list")
    current = original.get(key)
    if isinstance(current, list):
        original[key] = [one for one in current if one not in gone]


def _merge_ordered(original: Object, patch: Object, node: Node | None) -> None:
    """Lists that the patch also orders with ``$setElementOrder``."""
    for marker in [key for key in patch if key.startswith(_ORDER)]:
        order = patch.pop(marker)
        key = marker.removeprefix(_ORDER)
        if not isinstance(order, list):
            raise _fail(f"expected a []interface {{}}, but received a {_go_type(order)}")
        deletions = patch.pop(_DELETE_FROM + key, None)
        if deletions is not None:
            _delete_from(original, key, deletions)
        kind, _ = _member(node, key)
        merge_key = kind.merge_key if isinstance(kind, ListNode) else ""
        current, wanted = original.get(key), patch.pop(key, None)
        for value in (current, wanted):
            if value is not None and not isinstance(value, list):
                raise _fail(f"expected a []interface {{}}, but received a {_go_type(value)}")
        if wanted is not None:
            _check_order(wanted, order, merge_key)
        if current is None and wanted is None:
            continue
        server_order = list(current or ())
        if wanted is None:
            merged = list(current or ())
        elif current is None:
            merged, _ = _without_directives(wanted)
        else:
            merged = _merge_list_member(current, wanted, kind)
        original[key] = _normalized(merged, order, server_order, merge_key)


def _check_order(items: list[Any], order: list[Any], merge_key: str) -> None:
    """The patch's items must come in the order that it states itself."""
    position = 0
    for item in items:
        if isinstance(item, dict) and item.get(_PATCH) is not None:
            continue
        while position < len(order) and not _same(order[position], item, merge_key):
            position += 1
        if position == len(order):
            shown, wanted = _go_list(items), _go_list(order)
            raise _fail(
                f"The order in patch list:\n{shown}\n doesn't match $setElementOrder/ list:\n{wanted}\n"
            )


def _merge_list(original: list[Any], patch: list[Any], node: ListNode) -> list[Any]:
    if not original and not patch:
        return original
    kinds = {dict if isinstance(one, dict) else type(one) for one in [*original, *patch]}
    if list in kinds:
        raise _fail("lists of lists are not supported")
    if dict not in kinds:
        merged = list(dict.fromkeys([*original, *patch]))
        return _normalized(merged, patch, original, "")
    if len(kinds) > 1:
        raise _fail(f"list element types are not identical: {_go_list(patch)}")
    key = node.merge_key
    if not key:
        raise _fail("cannot merge lists without merge key for ")
    original, patch = _special_items(original, patch, key)
    merged = [*original]
    for item in patch:
        if key not in item:
            raise _fail(f"map: {_go_map(item)} does not contain declared merge key: {key}")
        found = next((index for index, one in enumerate(merged) if one.get(key) == item[key]), None)
        if found is None:
            kept, _ = _without_directives(_without_nulls(item))
            merged.append(kept)
        else:
            merged[found] = _merge_map(merged[found], dict(item), node.item)
    return _normalized(merged, patch, original, key)


def _special_items(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carries out ``$patch: delete`` and ``$patch: replace`` items of a list."""
    plain: list[Any] = []
    replace = False
    for item in patch:
        directive = item.get(_PATCH)
        if directive is None:
            plain.append(item)
        elif directive == "delete":
            if key not in item:
                raise _fail(f"map: {_go_map(item)} does not contain declared merge key: {key}")
            original = [one for one in original if one.get(key) != item[key]]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise _fail("merging lists cannot yet be specified in the patch")
        else:
            raise _fail(f"unknown patch type: {directive} in map: {_go_map(item)}")
    return (plain, []) if replace else (original, plain)


def _same(left: Any, right: Any, key: str) -> bool:
    if not key:
        return bool(left == right)
    return isinstance(left, dict) and isinstance(right, dict) and left.get(key) == right.get(key)


def _index(items: list[Any], item: Any, key: str) -> int:
    return next((index for index, one in enumerate(items) if _same(one, item, key)), -1)


def _normalized(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """Upstream's order: the patch's items as the patch has them, the server's own woven in where they
    stood.
    """
    ours = sorted(
        (one for one in merged if _index(order, one, key) >= 0), key=lambda one: _index(order, one, key)
    )
    others = [one for one in merged if _index(order, one, key) < 0]
    others.sort(key=lambda one: _index(server, one, key))
    made: list[Any] = []
    left = right = 0
    while left < len(others) or right < len(ours):
        if left < len(others) and right < len(ours):
            before, after = _index(server, others[left], key), _index(server, ours[right], key)
            take_left = 0 <= before < after
        else:
            take_left = left < len(others)
        if take_left:
            made.append(others[left])
            left += 1
        else:
            made.append(ours[right])
            right += 1
    return made


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) if isinstance(one, dict) else one for one in value]
    return value


def _without_directives(value: Any) -> tuple[Any, bool]:
    """A new value without its directives, and whether it is to be kept at all."""
    if isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            return None, False
        made = {}
        for key, one in value.items():
            if key in (_PATCH, _RETAIN) or key.startswith((_DELETE_FROM, _ORDER)):
                continue
            kept, keep = _without_directives(one)
            if keep:
                made[key] = kept
        return made, True
    if isinstance(value, list):
        return [kept for kept, keep in map(_without_directives, value) if keep], True
    return value, True


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    return {list: "[]interface {}", str: "string", bool: "bool", int: "int64", float: "float64"}.get(
        type(value), "<nil>"
    )


def _go_value(value: Any) -> str:
    if isinstance(value, dict):
        return _go_map(value)
    if isinstance(value, list):
        return _go_list(value)
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _go_map(value: Object) -> str:
    return "map[" + " ".join(f"{key}:{_go_value(value[key])}" for key in sorted(value)) + "]"


def _go_list(value: list[Any]) -> str:
    return "[" + " ".join(map(_go_value, value)) + "]"

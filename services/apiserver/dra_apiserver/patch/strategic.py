"""Strategic merge patch: lists merge by key, and ``$`` directives delete, replace and order."""

import re
from collections import deque
from operator import itemgetter
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.patch.errors import PatchError
from dra_apiserver.patch.simple import UNPROCESSABLE, large_as_floats, load
from dra_apiserver.schema.gotext import go_text, go_type, go_value
from dra_apiserver.schema.types import ListNode, MapNode, Node, Struct

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
# The smallest whole number beyond 64 bits has this many digits.
_LONG_NUMBER = re.compile(rb"[0-9]{19}").search


def strategic_merge_patch(node: Struct, obj: JsonObject, patch: JsonObject) -> JsonObject:
    """Apply a strategic merge patch to ``obj`` of type ``node``, in place.

    ``patch`` is modified. Upstream's error messages show the rest of it if the result is rejected.

    Raises:
        PatchError: the patch contradicts itself. If upstream does not anticipate the error, its code is 500.
    """
    return _merge_map(obj, patch, node)


def load_strategic(body: bytes) -> JsonObject:
    """Parse the patch in a request's body.

    Raises:
        PatchError: it is malformed or not an object.
    """
    patch = load(body, "")
    if patch is None:
        return {}
    if not isinstance(patch, dict):
        found = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        raise PatchError(f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
    if _LONG_NUMBER(body):
        large_as_floats(patch)
    return patch


def _invalid_patch(message: str) -> PatchError:
    """Return an error for a patch that upstream recognizes as invalid."""
    return PatchError(message)


def _internal_error(message: str) -> PatchError:
    """Return an error that upstream passes on unchanged."""
    return PatchError(message, 500, "")


def _not_a_struct(node: Node | None) -> PatchError:
    found = {ListNode: "slice", MapNode: "map"}.get(type(node), "interface")
    return _internal_error(f"merging an object in json but data type is not struct, instead is: {found}")


def _member(node: Node | None, key: str) -> tuple[Node, frozenset[str]]:
    """Return the type and the patch strategies of a member."""
    if not isinstance(node, Struct):
        raise _not_a_struct(node)
    field = node.fields.get(key)
    if field is None:
        name = node.name.rpartition(".")[2]
        raise _internal_error(f'unable to find api field in struct {name} for the json field "{key}"')
    return field.node, field.strategies


def _merge_map(original: JsonObject, patch: JsonObject, node: Node | None) -> JsonObject:
    if _PATCH in patch:
        directive = patch[_PATCH]
        if directive == "replace":
            del patch[_PATCH]
            return patch
        if directive == "delete":
            return {}
        raise _unknown_directive(directive, patch)
    # The order of these steps is upstream's, and each relies on the previous one. First $retainKeys removes
    # members that the patch does not list. It also checks that the patch sets no other ones, so it must see the
    # patch before lists are removed from it. Then lists with $setElementOrder are merged and removed from the
    # patch, because their order is part of the merge. The loop merges the remaining members one by one.
    _retain_keys(original, patch)
    _merge_ordered(original, patch, node)
    for name, value in patch.items():
        key = name.removeprefix(_DELETE_FROM)
        deleting = key != name
        if value is None:
            original.pop(key, None)
        # There is nothing to merge with. The value is stored as it is, without nulls and directives: these
        # only have a meaning for an existing value. A deletion from a missing list has no effect.
        elif key not in original or type(original[key]) is not type(value):
            if not deleting:
                _discard_nulls(value)
                _set(original, key, value)
        elif isinstance(value, dict):
            kind, strategies = _member(node, key)
            original[key] = value if "replace" in strategies else _merge_map(original[key], value, kind)
        elif isinstance(value, list):
            kind, _ = _member(node, key)
            original[key] = _merge_lists(original[key], value, kind, deleting)
        else:
            original[key] = value
    return original


def _set(original: JsonObject, key: str, value: Any) -> None:
    kept, keep = _without_directives(value)
    if keep:
        original[key] = kept
    else:
        original.pop(key, None)


def _unknown_directive(directive: Any, found: JsonObject) -> PatchError:
    return _internal_error(f"unknown patch type: {go_text(directive)} in map: {go_value(found)}")


def _merge_lists(current: list[Any], value: list[Any], kind: Node, deleting: bool = False) -> list[Any]:
    if not isinstance(kind, ListNode):
        raise _internal_error(f"expected slice or array type, but got: {_go_kind(kind)}")
    if deleting or "merge" in kind.strategies:
        return _merge_list(current, value, kind, deleting)
    return value


def _go_kind(node: Node) -> str:
    return {Struct: "struct", MapNode: "map"}.get(type(node), "string")


def _retain_keys(original: JsonObject, patch: JsonObject) -> None:
    if _RETAIN not in patch:
        return
    keep = patch.pop(_RETAIN)
    if not isinstance(keep, list):
        raise _invalid_patch("invalid patch format of retainKeys")
    keep = {one for one in keep if isinstance(one, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER)) and key not in keep:
            raise _invalid_patch("invalid patch format of retainKeys")
    for key in [key for key in original if key not in keep]:
        del original[key]


def _merge_ordered(original: JsonObject, patch: JsonObject, node: Node | None) -> None:
    """Merge lists that the patch also orders with ``$setElementOrder``."""
    for marker in [key for key in patch if key.startswith(_ORDER)]:
        order = _list(patch.pop(marker))
        key = marker.removeprefix(_ORDER)
        current, wanted = original.get(key), patch.get(key)
        for value in (holder[key] for holder in (original, patch) if key in holder):
            _list(value)
        kind, _ = _member(node, key)
        if not isinstance(kind, ListNode):
            raise _internal_error(f"expected slice or array type, but got: {_go_kind(kind)}")
        # Upstream's checks run in this order, and clients see the first error: the patch's own order, then
        # the keys of the merged items, then the keys of the ordering items, then the types of all items. A
        # list that neither side has is skipped after the first check.
        _check_order(wanted or [], order, kind.merge_key)
        if current is None and wanted is None:
            continue
        server_order = list(current or ())
        if wanted is None:
            merged = list(server_order)
        elif current is None:
            merged, _ = _without_directives(wanted)
        else:
            merged = _merge_lists(current, wanted, kind)
        _check_keys(merged, order, kind.merge_key)
        _check_keys([one for one in order if not isinstance(one, dict)], [], kind.merge_key)
        _element_type(server_order, wanted or [])
        original[key] = _sort_merged(merged, order, server_order, kind.merge_key)
        patch.pop(key, None)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        found = go_text(None) if value is None else go_type(value)
        raise _internal_error(f"expected a []interface {{}}, but received a {found}")
    return value


def _check_order(items: list[Any], order: list[Any], merge_key: str) -> None:
    """Check that the patch's items are in the order that it states itself."""
    if not items or not order:
        return
    left = items
    if merge_key:
        left = [one for one in items if not (isinstance(one, dict) and one.get(_PATCH) == "delete")]
    # Two pointers: `at` in the patch's items, `position` in the order. Each item must be found at or after
    # the position of its predecessor. Items with a directive have no position. If the order is used up before
    # the items, the next item is out of order.
    at = position = 0
    while at < len(left) and position < len(order):
        if isinstance(left[at], dict) and _PATCH in left[at]:
            at += 1
            continue
        if _equal_keys(left[at], order[position], merge_key):
            at += 1
        position += 1
    if at < len(left) and position >= len(order):
        shown = f"{go_value(items)}\n doesn't match $setElementOrder list:\n{go_value(order)}"
        raise _internal_error(f"The order in patch list:\n{shown}\n")


def _equal_keys(left: Any, right: Any, merge_key: str) -> bool:
    if not merge_key:
        return _is(left, right)
    for one in (left, right):
        if not isinstance(one, dict):
            found = go_text(None) if one is None else go_type(one)
            raise _internal_error(f"expected a map[string]interface {{}}, but received a {found}")
        if merge_key not in one:
            raise _keyless(one, merge_key)
    return _is(left[merge_key], right[merge_key])


def _keyless(item: JsonObject, merge_key: str) -> PatchError:
    return _internal_error(f"map: {go_value(item)} does not contain declared merge key: {merge_key}")


def _is(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def _check_keys(items: list[Any], others: list[Any], merge_key: str) -> None:
    """Check the keys of a list that is put in order: its items have keys, and the ordering items are objects."""
    if not merge_key:
        return
    # Upstream searches the others for each item, so an item that is found first hides an invalid one after
    # it.
    bad = next((index for index, one in enumerate(others) if not isinstance(one, dict)), None)
    found = set() if bad is None else {_mark(one, merge_key) for one in others[:bad]}
    for item in items:
        if not isinstance(item, dict):
            shown = go_text(None) if item is None else go_type(item)
            raise _internal_error(f"expected a map[string]interface {{}}, but received a {shown}")
        if merge_key not in item:
            raise _keyless(item, merge_key)
        if bad is not None and _mark(item, merge_key) not in found:
            raise _internal_error(f"value for key {bad} is not a map")


def _element_type(*lists: list[Any]) -> type:
    """Return the type of all items.

    Raises:
        PatchError: the items have several types, or there are none.
    """
    kinds = [type(one) for items in lists for one in items]
    if not kinds:
        raise _internal_error("no elements in any of the given slices")
    if kinds[0] is list:
        raise PatchError(UNPROCESSABLE, 422, "Invalid")
    if len(set(kinds)) > 1:
        raise _internal_error(f"list element types are not identical: {go_value(list(lists))}")
    return kinds[0]


def _merge_list(original: list[Any], patch: list[Any], node: ListNode, deleting: bool) -> list[Any]:
    if not original and not patch:
        return original
    key = node.merge_key
    # A list of scalars is a set: deletions and duplicates compare whole values. setdefault keeps the first
    # occurrence, so the server's item wins over an equal one of the patch.
    if _element_type(original, patch) is not dict:
        if deleting:
            gone = {_mark(one, "") for one in patch}
            return [one for one in original if _mark(one, "") not in gone]
        known: dict[Any, Any] = {}
        for one in [*original, *patch]:
            known.setdefault(_mark(one, ""), one)
        return _sort_merged(list(known.values()), patch, original, "")
    if not key:
        raise _internal_error(f"cannot merge lists without merge key for {_go_kind(node.item)}")
    original, patch = _special_items(original, patch, key)
    # Directives are applied first, so `patch` now only has plain items. Each of them is merged into the first
    # item with the same key, or appended. The index by key keeps this linear. Two items of the patch with the
    # same key are both merged into the same item, as upstream does.
    merged = [*original]
    places: dict[Any, deque[int]] = {}
    for index, one in enumerate(merged):
        places.setdefault(_mark(one, key), deque()).append(index)
    for item in patch:
        if key not in item:
            raise _keyless(item, key)
        mark = _mark(item, key)
        found = places.setdefault(mark, deque())
        if not found:
            found.append(len(merged))
            merged.append(item)
            continue
        merged[found[0]] = _merge_map(merged[found[0]], item, node.item)
        if _mark(merged[found[0]], key) != mark:
            # The patch removed the item's merge key.
            found.popleft()
    _check_keys(merged, patch, key)
    return _sort_merged(merged, patch, original, key)


def _special_items(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Apply the ``$patch: delete`` and ``$patch: replace`` items of a list."""
    plain: list[Any] = []
    gone = set()
    replace = False
    for item in patch:
        if _PATCH not in item:
            plain.append(item)
            continue
        directive = item[_PATCH]
        if directive == "delete":
            if key not in item:
                raise _keyless(item, key)
            gone.add(_mark(item, key))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise _internal_error("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(directive, item)
    if replace:
        return plain, []
    return [one for one in original if _mark(one, key) not in gone] if gone else original, plain


def _mark(item: Any, key: str) -> Any:
    """Return a key that matching list items share: equal scalars, or objects with equal merge keys.

    None for an item without the merge key.
    """
    if not key:
        return type(item), _freeze(item)
    if not isinstance(item, dict) or key not in item:
        return None
    value = item[key]
    return value if type(value) is str else (type(value), _freeze(value))


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return frozenset((key, _freeze(one)) for key, one in value.items())
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def _places(items: list[Any], key: str) -> dict[Any, int]:
    """Return the position of each item in a list, by its mark."""
    places: dict[Any, int] = {}
    for index, one in enumerate(items):
        places.setdefault(_mark(one, key), index)
    places.pop(None, None)
    return places


def _sort_merged(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """Sort items like upstream: the patch's items in the patch's order, with the server's own items merged in by
    their old positions.
    """
    # Upstream sorts the patch's items by the patch's order, and the server's own items by their old
    # positions. Then it merges the two lists: a server's own item precedes the next item of the patch only if
    # it preceded it in the old list. New items of the patch have the old position -1, so nothing is moved in
    # front of them.
    wanted, stood = _places(order, key), _places(server, key)
    ours: list[tuple[int, int, Any]] = []
    others: list[tuple[int, Any]] = []
    for one in merged:
        mark = _mark(one, key)
        before = stood.get(mark, -1)
        if mark in wanted:
            ours.append((wanted[mark], before, one))
        else:
            others.append((before, one))
    ours.sort(key=itemgetter(0))
    others.sort(key=itemgetter(0))
    made: list[Any] = []
    left = right = 0
    while left < len(others) or right < len(ours):
        if left < len(others) and right < len(ours):
            take_left = 0 <= others[left][0] < ours[right][1]
        else:
            take_left = left < len(others)
        if take_left:
            made.append(others[left][-1])
            left += 1
        else:
            made.append(ours[right][-1])
            right += 1
    return made


def _discard_nulls(value: Any) -> None:
    """Remove null members, also below lists."""
    if isinstance(value, dict):
        for key in [key for key, one in value.items() if one is None]:
            del value[key]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _discard_nulls(one)


def _without_directives(value: Any) -> tuple[Any, bool]:
    """Return a value without objects that carry a directive, and whether the value itself is kept."""
    if isinstance(value, dict):
        if _PATCH in value:
            return None, False
        for key in list(value):
            _set(value, key, value[key])
        return value, True
    if isinstance(value, list):
        return [kept for kept, keep in map(_without_directives, value) if keep], True
    return value, True

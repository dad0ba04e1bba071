"""Typed configurations as in structured-merge-diff's `typed`: list their fields, and merge them."""

import functools
from typing import Any

from dra_apiserver.patch.fieldset import SELF, FieldSet, is_member, key_step, value_step
from dra_apiserver.schema.gotext import go_syntax, go_type, go_value
from dra_apiserver.schema.types import ListNode, ListType, MapNode, Node, Scalar, Struct, is_whole


class TypedError(Exception):
    """A configuration does not match its type. The text starts with the path."""


def _child(node: Struct | MapNode, key: str) -> tuple[Node | None, bool]:
    """Return the type of a member or value, and whether it is atomic (has one owner); None if its type is unknown."""
    if isinstance(node, MapNode):
        return node.value, is_whole(node.value)
    member = node.fields.get(key)
    return (None, True) if member is None else (member.node, member.whole)


def item_step(node: ListNode, item: Any) -> str | None:
    """Return the step to a list item; None for an item without any key."""
    if node.list_type is ListType.SET:
        return value_step(item)
    if not isinstance(item, dict):
        return None
    keys = {}
    for key in node.keys:
        value = item.get(key)
        if value is None:
            value = _key_default(node.item, key)
        if value is not None:
            keys[key] = value
    return key_step(keys) if keys else None


def _key_default(item: Node, key: str) -> Any:
    return item.default(key) if isinstance(item, Struct) else None


def field_set(node: Struct, config: dict[str, Any]) -> FieldSet:
    """Return the fields in an applied configuration.

    Raises:
        TypedError: a field is unknown or of the wrong type, or a list names an item twice.
    """
    problems: list[str] = []
    _check_members(node, config, "", problems)
    if len(problems) == 1:
        raise TypedError(problems[0])
    if problems:
        raise TypedError("\n  ".join(["errors:", *problems]))
    return _named_members(node, config)


def _named_members(node: Struct | MapNode, value: dict[str, Any]) -> FieldSet:
    made: FieldSet = {}
    for key, one in value.items():
        kind, whole = _child(node, key)
        if kind is None:
            made[f"f:{key}"] = {}
            continue
        below = _field_set(kind, whole, one)
        if one is None or one == {} or isinstance(node, MapNode):
            below = _as_member(below)
        if below is not None:
            made[f"f:{key}"] = below
    return made


def _field_set(node: Node, whole: bool, value: Any) -> FieldSet | None:
    """Return the fields at and below a value; None if there are none."""
    if whole:
        return {}
    if value is None:
        return None
    if isinstance(node, ListNode):
        return _named_items(node, value) or None
    assert isinstance(node, Struct | MapNode)
    return _named_members(node, value) or None


def _named_items(node: ListNode, items: list[Any]) -> FieldSet:
    whole = is_whole(node.item)
    return {item_step(node, item) or "": _as_member(_field_set(node.item, whole, item)) for item in items}


def _as_member(below: FieldSet | None) -> FieldSet:
    return {**below, SELF: {}} if below else {}


def _check(node: Node, value: Any, text: str, problems: list[str]) -> None:
    """Append the type errors of a value and everything below it."""
    if value is None:
        return
    if isinstance(node, Scalar):
        if problem := _check_scalar(node, value):
            problems.append(f"{text}: {problem}")
    elif isinstance(node, ListNode):
        if isinstance(value, list):
            _check_items(node, value, text, problems)
        else:
            problems.append(f"{text}: expected list, got &{{{go_value(value)}}}")
    elif isinstance(value, dict):
        _check_members(node, value, text, problems)
    else:
        problems.append(f"{text}: expected map, got &{{{go_value(value)}}}")


def _check_members(node: Struct | MapNode, value: dict[str, Any], text: str, problems: list[str]) -> None:
    for key, one in value.items():
        kind, _ = _child(node, key)
        if kind is not None:
            _check(kind, one, f"{text}.{key}", problems)
        elif isinstance(node, Struct) and not node.open:
            problems.append(f"{text}.{key}: field not declared in schema")
            return


def _check_items(node: ListNode, items: list[Any], text: str, problems: list[str]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(items):
        if node.list_type is ListType.ATOMIC:
            _check(node.item, item, f"{text}[{index}]", problems)
            continue
        step = item_step(node, item)
        if step is None:
            problems.append(f"{text}: element {index}: {_unkeyed_message(node, item)}")
            return
        if step in seen:
            problems.append(f"{text}: duplicate entries for key {_key_text(step)}")
        seen.add(step)
        _check(node.item, item, text + _key_text(step), problems)


def _unkeyed_message(node: ListNode, item: Any) -> str:
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    keys = " ".join(map(_quote, node.keys))
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] "
        "(and doesn't have default values for any key fields)"
    )


def _quote(text: str) -> str:
    return '"' + text + '"'


@functools.lru_cache(maxsize=512)
def _key_text(step: str) -> str:
    from dra_apiserver.patch.fieldset import path_text

    return path_text((step,))


def _check_scalar(node: Scalar, value: Any) -> str:
    if node in _NUMERIC and type(value) not in (int, float):
        return f"expected numeric (int or float), got {go_type(value)}"
    if node in _TEXTUAL and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}"
    if node is Scalar.BOOL and not isinstance(value, bool):
        return f"expected boolean, got &{{{go_value(value)}}}"
    if node in _UNTYPED and isinstance(value, list | dict):
        return f"expected any scalar, got &{{{go_value(value)}}}"
    return ""


_NUMERIC = frozenset({Scalar.INT32, Scalar.INT64, Scalar.FLOAT})
_TEXTUAL = frozenset({Scalar.STRING, Scalar.BYTES})
_UNTYPED = frozenset({Scalar.QUANTITY, Scalar.INT_OR_STRING, Scalar.TIME, Scalar.MICRO_TIME})


def merge(node: Node | None, live: Any, config: Any, whole: bool = False) -> Any:
    """Merge ``config`` into ``live``. Neither is changed, and the result may share parts with both."""
    if live is None or whole:
        return config
    if config is None:
        # Set to an empty value: fields of other managers below it are kept.
        return live if isinstance(live, list | dict) and not isinstance(node, Scalar) else config
    if isinstance(node, ListNode):
        return (
            _merge_items(node, live, config)
            if isinstance(live, list) and isinstance(config, list)
            else config
        )
    if not isinstance(live, dict) or not isinstance(config, dict):
        return config
    assert isinstance(node, Struct | MapNode)
    made = dict(live)
    for key, value in config.items():
        kind, owned = _child(node, key)
        made[key] = merge(kind, live[key], value, owned) if key in live else value
    return made


def _merge_items(node: ListNode, live: list[Any], config: list[Any]) -> list[Any]:
    """Merge lists: the configuration's items in its order, and the live object's own items at their old positions."""
    wanted = {item_step(node, item): item for item in config}
    whole = is_whole(node.item)
    current: dict[str | None, Any] = {}
    for item in live:
        current.setdefault(item_step(node, item), item)
    # Upstream's order: walk the live list. The live object's own items stay in place. At an item that is also
    # in the configuration, first emit the configuration's items up to it, in their order. The rest of the
    # configuration's items follow at the end. So both orders are kept as far as they agree, and the
    # configuration's order wins if they do not.
    made: list[Any] = []
    done: set[str | None] = set()
    pending = iter(wanted.items())
    for step, item in ((item_step(node, one), one) for one in live):
        if step not in wanted:
            made.append(item)
            continue
        while step not in done:
            name, value = next(pending)
            done.add(name)
            made.append(merge(node.item, current[name], value, whole) if name in current else value)
    made += [
        merge(node.item, current[name], value, whole) if name in current else value for name, value in pending
    ]
    return made


def remove(node: Node | None, value: Any, gone: FieldSet, whole: bool = False) -> Any:
    """Return ``value`` without the members of ``gone``. Containers that become empty are removed too."""
    below = {step: child for step, child in gone.items() if step != SELF}
    if not below or whole:
        return value
    if isinstance(node, ListNode) and isinstance(value, list):
        kept = []
        whole = is_whole(node.item)
        for item in value:
            child = below.get(item_step(node, item) or "")
            if child is None:
                kept.append(item)
            elif not is_member(child):
                kept.append(remove(node.item, item, child, whole))
        return kept or None
    if isinstance(node, Struct | MapNode) and isinstance(value, dict):
        made = {}
        for key, one in value.items():
            child = below.get(f"f:{key}")
            if child is None:
                made[key] = one
            elif not is_member(child):
                kind, owned = _child(node, key)
                left = remove(kind, one, child, owned)
                if left is not None:
                    made[key] = left
        return made or None
    return value


def with_named_parents(node: Node | None, tree: FieldSet) -> FieldSet:
    """Return ``tree`` with the parents of its members added, if these are struct fields and not keys or items."""
    made: FieldSet = {}
    for step, child in tree.items():
        if step == SELF:
            made[SELF] = {}
            continue
        kind: Node | None = None
        named = False
        if step.startswith("f:") and isinstance(node, Struct | MapNode):
            kind, _ = _child(node, step[2:])
            named = isinstance(node, Struct) and kind is not None
        elif isinstance(node, ListNode):
            kind = node.item
        below = with_named_parents(kind, child)
        if below and named:
            below[SELF] = {}
        made[step] = below
    return made

"""Sets of fields in the format of managedFields (FieldsV1).

A set is a tree of dicts. Keys name a step: ``f:<name>``, ``k:<JSON of a list item's keys>``, ``v:<JSON of a
list item>``. A step leads to a member of the set if its dict is empty or has ``"."``. Otherwise, or in
addition, it has children.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
from dra_shared.jsontext import dumps

FieldSet = dict[str, Any]

SELF = "."
_INDEX = re.compile(r"[-+]?[0-9]{1,18}").fullmatch


def decode(value: Any) -> FieldSet:
    """Return the set that JSON describes. Steps of unknown kinds are dropped (structured-merge-diff's FromJSON).

    Raises:
        ValueError: it is not a set.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("a set of fields must be an object")
    made: FieldSet = {}
    for step, child in value.items():
        if step == SELF:
            made[SELF] = {}
        elif _is_step(step):
            made[step] = decode(child)
    return made


def _is_step(step: str) -> bool:
    if step[1:2] != ":":
        raise ValueError("a step must have a kind and a colon")
    text = step[2:]
    match step[0]:
        case "f":
            return True
        case "k":
            if not isinstance(orjson.loads(text), dict | None):
                raise ValueError("keys must be an object")
        case "v":
            orjson.loads(text)
        case "i":
            if not _INDEX(text):
                raise ValueError("an index must be a number")
        case _:
            return False
    return True


def is_member(node: FieldSet) -> bool:
    """True if the path that leads to ``node`` is in the set."""
    return not node or SELF in node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths that are in either set."""
    # Sets are never changed after they are made, so a subtree that only one side has is shared and not copied.
    # A subtree in both is merged without its own ``"."``, because that follows from both sides: the path is a
    # member if either side has it. Only a node with children gets the ``"."``; an empty one is a member already.
    made = dict(left)
    for step, child in right.items():
        if step == SELF:
            made[SELF] = {}
            continue
        mine = made.get(step)
        if mine == child:
            continue
        if mine is None:
            made[step] = child
            continue
        merged = union(
            {k: v for k, v in mine.items() if k != SELF}, {k: v for k, v in child.items() if k != SELF}
        )
        if merged and (is_member(mine) or is_member(child)):
            merged[SELF] = {}
        made[step] = merged
    return made


def union_all(trees: Iterable[FieldSet]) -> FieldSet:
    """Return the paths that are in any of the sets."""
    # Collect the subtrees of each step first, and merge each step once. Merging the sets pair by pair would walk
    # the growing result again for each set.
    made: FieldSet = {}
    below: dict[str, list[FieldSet]] = {}
    for tree in trees:
        for step, child in tree.items():
            if step == SELF:
                made[SELF] = {}
            else:
                below.setdefault(step, []).append(child)
    for step, children in below.items():
        if len(children) == 1:
            made[step] = children[0]
            continue
        merged = union_all(children)
        merged.pop(SELF, None)
        if merged and any(map(is_member, children)):
            merged[SELF] = {}
        made[step] = merged
    return made


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths of ``left`` that are not in ``right``."""
    # Subtract below a step first: whether the step itself stays depends on what is left there. A step that is no
    # longer a member and has nothing below it is left out, because an empty dict would make it a member again.
    made: FieldSet = {}
    for step, child in left.items():
        if step == SELF:
            continue
        other = right.get(step)
        if other is None:
            made[step] = child
            continue
        below = difference(child, other) if child else {}
        if is_member(child) and not is_member(other):
            made[step] = {**below, SELF: {}} if below else {}
        elif below:
            made[step] = below
    return made


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths that are in both sets."""
    if len(right) < len(left):
        left, right = right, left
    # As in `difference`: a step without common paths below it is only kept if both sides have it as a member.
    made: FieldSet = {}
    for step, child in left.items():
        other = right.get(step)
        if step == SELF or other is None:
            continue
        below = intersection(child, other) if child and other else {}
        if is_member(child) and is_member(other):
            made[step] = {**below, SELF: {}} if below else {}
        elif below:
            made[step] = below
    return made


def without(tree: FieldSet, paths: Sequence[tuple[str, ...]]) -> FieldSet:
    """Return ``tree`` without the given paths and everything below them."""
    # Each level on the way to a path is copied before it is changed, because the set may share it with others.
    # A parent whose last child is removed is removed too, unless it is a member itself.
    made = dict(tree)
    for path in paths:
        child = made.get(path[0])
        if child is None:
            continue
        if len(path) == 1:
            del made[path[0]]
            continue
        below = without({k: v for k, v in child.items() if k != SELF}, [path[1:]])
        if below and SELF in child:
            below[SELF] = {}
        if below or is_member(child):
            made[path[0]] = below
        else:
            del made[path[0]]
    return made


def members(tree: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield all paths of a set in upstream's order: those of a level before any below it."""
    # Two passes keep upstream's order, which clients see in the messages of conflicts.
    steps = sorted(step for step in tree if step != SELF)
    for step in steps:
        if is_member(tree[step]):
            yield (*prefix, step)
    for step in steps:
        yield from members(tree[step], (*prefix, step))


def sort_steps(tree: FieldSet) -> FieldSet:
    """Return the set with its steps in the order of managedFields."""
    if len(tree) == 1:
        return {step: sort_steps(child) if child else {} for step, child in tree.items()}
    return {step: sort_steps(tree[step]) if tree[step] else {} for step in sorted(tree)}


def path_text(path: tuple[str, ...]) -> str:
    """Format a path as in messages of conflicts: ``.spec.containers[name="a"].image``."""
    text = ""
    for step in path:
        kind, value = step[:2], step[2:]
        if kind == "f:":
            text += f".{value}"
        elif kind == "k:":
            keys = orjson.loads(value) or {}
            text += "[" + ",".join(f"{key}={_json(keys[key])}" for key in sorted(keys)) + "]"
        elif kind == "v:":
            text += f"[={value}]"
        else:
            text += f"[{value}]"
    return text


def key_step(keys: dict[str, Any]) -> str:
    """Return the step to an item of a keyed list."""
    return "k:" + _escape_html(dumps(keys, option=orjson.OPT_SORT_KEYS).decode())


def value_step(value: Any) -> str:
    """Return the step to an item of a set."""
    return "v:" + _escape_html(_json(value))


def _escape_html(text: str) -> str:
    """Escape characters with a meaning in HTML, like Go's encoder."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _json(value: Any) -> str:
    return dumps(value).decode()

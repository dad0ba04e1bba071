"""Compare objects field by field (structured-merge-diff's `typed/compare.go`)."""

from dataclasses import dataclass, field
from typing import Any

from dra_apiserver.patch.fieldset import SELF, FieldSet
from dra_apiserver.patch.typed import item_step
from dra_apiserver.schema.semantic import equal_by_type
from dra_apiserver.schema.types import Field, ListNode, MapNode, Node, Scalar, Struct, is_whole

_ABSENT = object()


@dataclass(slots=True)
class Comparison:
    """The fields in which two objects differ."""

    added: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)
    literal: bool = False
    """True if an empty list or map on the new side counts as present, as in an applied configuration."""

    native: bool = True
    """True if the objects have Go types, which omit empty values when they are encoded."""

    def below(self) -> "Comparison":
        """Return an empty comparison for the fields below a path."""
        return Comparison(literal=self.literal, native=self.native)

    def differs(self, node: Node, old: Any, new: Any) -> bool:
        """True if two atomic values, which have one owner, differ. The values are not the same object."""
        return self.literal or not self.native or not equal_by_type(node, old, new)


def compare(node: Struct, old: dict[str, Any], new: dict[str, Any], literal: bool = False) -> Comparison:
    """Return the fields that ``new`` adds to, changes in and removes from ``old``."""
    result = Comparison(literal=literal, native=node.native)
    _compare_members(node, old, new, result)
    return result


def _void(member: Field, value: Any) -> bool:
    """True if an empty value counts as absent: a list or map that the encoded object omits."""
    return member.droppable and isinstance(value, list | dict) and bool(member.go)


def _compare_members(node: Struct, old: Any, new: Any, result: Comparison) -> None:
    fields = node.fields
    void = set()
    for key, value in new.items():
        member = fields.get(key)
        before = old.get(key, _ABSENT)
        if member is None:
            if not node.native and before != value:
                (result.added if before is _ABSENT else result.modified)[f"f:{key}"] = {}
        elif not value and not result.literal and _void(member, value):
            void.add(key)
        elif value is None and before is _ABSENT and result.native:
            # A pointer without a value is null in some versions, and omitted in others.
            continue
        elif before is _ABSENT:
            result.added[member.step] = {} if member.whole else _everything(member.node, value)
        elif before != value:
            if member.whole:
                if isinstance(member.node, Scalar) or result.differs(member.node, before, value):
                    result.modified[member.step] = {}
            else:
                _compare(member.node, before, value, member.step, result)
    for key, value in old.items():
        if key in new and key not in void:
            continue
        member = fields.get(key)
        if member is None:
            if not node.native:
                result.removed[f"f:{key}"] = {}
        elif value or not (_void(member, value) or (value is None and result.native)):
            result.removed[member.step] = {} if member.whole else _everything(member.node, value)


def _compare_entries(node: MapNode, old: Any, new: Any, result: Comparison) -> None:
    kind = node.value
    for key, value in new.items():
        before = old.get(key, _ABSENT)
        if before is _ABSENT:
            result.added[f"f:{key}"] = _everything(kind, value)
        elif before != value:
            _compare(kind, before, value, f"f:{key}", result)
    for key, value in old.items():
        if key not in new:
            result.removed[f"f:{key}"] = _everything(kind, value)


def _everything(node: Node, value: Any) -> FieldSet:
    """Return all fields of a value that only one object has, including the path of the value itself."""
    if not value or is_whole(node):
        return {}
    made: FieldSet = {}
    if isinstance(node, Struct):
        if isinstance(value, dict):
            made = _every_member(node, value)
    elif isinstance(node, ListNode):
        if isinstance(value, list):
            for item in value:
                step = item_step(node, item)
                if step is not None:
                    made[step] = {} if step in made else _everything(node.item, item)
    elif isinstance(node, MapNode) and isinstance(value, dict):
        for key, one in value.items():
            made[f"f:{key}"] = _everything(node.value, one)
    if made:
        made[SELF] = {}
    return made


def _every_member(node: Struct, value: dict[str, Any]) -> FieldSet:
    made: FieldSet = {}
    fields = node.fields
    for key, one in value.items():
        member = fields.get(key)
        if member is None:
            if not node.native:
                made[f"f:{key}"] = {}
        elif not one:
            if not _void(member, one):
                made[member.step] = {}
        else:
            made[member.step] = {} if member.whole else _everything(member.node, one)
    return made


def _compare(node: Node, old: Any, new: Any, step: str, result: Comparison) -> None:
    """Compare two different values at one path."""
    shape = list if isinstance(node, ListNode) else dict
    comparable = (old is None or isinstance(old, shape)) and (new is None or isinstance(new, shape))
    if is_whole(node) or not comparable or not (old or new):
        if not is_whole(node) or isinstance(node, Scalar) or result.differs(node, old, new):
            result.modified[step] = {}
        return
    below = result.below()
    if isinstance(node, Struct):
        _compare_members(node, old or {}, new or {}, below)
    elif isinstance(node, ListNode):
        _compare_items(node, old or (), new or (), below)
    elif isinstance(node, MapNode):
        _compare_entries(node, old or {}, new or {}, below)
    for found, target in (
        (below.added, result.added),
        (below.modified, result.modified),
        (below.removed, result.removed),
    ):
        if found:
            target[step] = found


def _by_step(node: ListNode, items: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        step = item_step(node, item)
        if step is not None:
            found.setdefault(step, []).append(item)
    return found


def _compare_items(node: ListNode, old: Any, new: Any, result: Comparison) -> None:
    before, after = _by_step(node, old), _by_step(node, new)
    for step in dict.fromkeys([*before, *after]):
        left, right = before.get(step, []), after.get(step, [])
        if left == right:
            continue
        if not left:
            result.added[step] = _everything(node.item, right[0]) if len(right) == 1 else {}
        elif not right:
            result.removed[step] = _everything(node.item, left[0]) if len(left) == 1 else {}
        elif len(left) > 1 or len(right) > 1:
            result.modified[step] = {}
        else:
            _compare(node.item, left[0], right[0], step, result)

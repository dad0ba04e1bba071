"""Fields behind feature gates: dropped while the gate is off, unless the object already uses the feature.

A path is a list of keys from the object's root. `*` represents every entry of a list or map.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import VERSIONS, Version


# Compare rules by identity, which is fast and enough because they are constants.
@dataclass(frozen=True, eq=False)
class GatedFields:
    """The fields of one feature.

    The feature is on if all `gates` are on, and in use if the old object has any of the fields `in_use`.
    `structs`: an empty object counts as a struct that is set, not as an empty map. Versions from `since` on and
    before `until` drop the fields. Other versions do not change them.
    """

    gates: tuple[str, ...]
    fields: tuple[str, ...]
    also_in_use: tuple[str, ...] = ()
    structs: bool = False
    since: Version = VERSIONS[0]
    until: Version | None = None

    def is_of(self, kubernetes: Version) -> bool:
        """True if the version drops the fields."""
        return self.since <= kubernetes and (self.until is None or kubernetes < self.until)

    def is_used_by(self, obj: JsonObject) -> bool:
        """True if the object has one of the fields that show that the feature is in use."""
        empty: tuple[Any, ...] = ([],) if self.structs else ([], {})
        return any(value not in empty for path in self._in_use for value in _walk(obj, path))

    def below(self, path: str) -> GatedFields:
        """Return the same fields of the object at `path`."""
        fields, also = (
            tuple(f"{path}.{name}" for name in names) for names in (self.fields, self.also_in_use)
        )
        return replace(self, fields=fields, also_in_use=also)

    @functools.cached_property
    def _in_use(self) -> Sequence[Sequence[str]]:
        return [path.split(".") for path in (*self.fields, *self.also_in_use)]


class _Node:
    """A node of the tree of gated fields: the fields at one path, and child nodes by key, or for every entry."""

    __slots__ = ("children", "every", "fields")

    def __init__(self) -> None:
        self.fields: dict[str, list[GatedFields]] = {}
        self.children: dict[str, _Node] = {}
        self.every: _Node | None = None

    def collect(self, value: Any, found: list[tuple[GatedFields, JsonObject, str]]) -> None:
        """Append each gated field that is set below the value, with its rule and the object that has it."""
        if isinstance(value, dict):
            for name, rules in self.fields.items():
                if name in value:
                    found.extend((rule, value, name) for rule in rules)
            for name, child in self.children.items():
                if below := value.get(name):
                    child.collect(below, found)
        if self.every is not None:
            entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            for entry in entries:
                self.every.collect(entry, found)


@functools.lru_cache(maxsize=256)
def _tree(rules: tuple[GatedFields, ...]) -> _Node:
    """Return the fields of all rules as one tree, so that an object is walked only once."""
    root = _Node()
    for rule in rules:
        for path in rule.fields:
            node = root
            *parents, name = path.split(".")
            for key in parents:
                if key == "*":
                    node.every = node = node.every or _Node()
                else:
                    node = node.children.setdefault(key, _Node())
            node.fields.setdefault(name, []).append(rule)
    return root


def drop_disabled(
    rules: Sequence[GatedFields], obj: JsonObject, old: JsonObject | None, features: FeatureGates
) -> None:
    """Drop the fields of every feature that is off and was not in use.

    In a version without the gate, the fields do not exist, and decoding has already dropped them.
    """
    found: list[tuple[GatedFields, JsonObject, str]] = []
    tree = _tree(tuple(rules))
    if old is None or tree.fields or tree.every:
        tree.collect(obj, found)
    else:
        for name, child in tree.children.items():
            # Skip a member that is identical to the stored one, because its gated fields were in use before.
            if (member := obj.get(name)) and member is not old.get(name):
                child.collect(member, found)
    kept: dict[int, bool] = {}
    for rule, parent, name in found:
        if id(rule) not in kept:
            kept[id(rule)] = _is_kept(rule, old, features)
        if not kept[id(rule)]:
            parent.pop(name, None)


def _is_kept(rule: GatedFields, old: JsonObject | None, features: FeatureGates) -> bool:
    if features.all_enabled(rule.gates) or not features.has(rule.gates) or not rule.is_of(features.version):
        return True
    return old is not None and rule.is_used_by(old)


def _walk(value: Any, path: Sequence[str]) -> Iterator[Any]:
    if not path:
        yield value
        return
    head, *rest = path
    if head == "*":
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for child in children:
            yield from _walk(child, rest)
    elif isinstance(value, dict) and value.get(head) is not None:
        yield from _walk(value[head], rest)


def set_gated_defaults(
    defaults: Mapping[str, Callable[[JsonObject], None]],
    obj: JsonObject,
    old: JsonObject | None,
    features: FeatureGates,
) -> None:
    """Set the defaults that apply while their gate is enabled.

    An object that was stored without such a default does not get it, so that an update without changes changes
    nothing.
    """
    for gate, complete in defaults.items():
        if features.enabled(gate) and (old is None or _is_complete(complete, old)):
            complete(obj)


def _is_complete(complete: Callable[[JsonObject], None], obj: JsonObject) -> bool:
    completed = copy.deepcopy(obj)
    complete(completed)
    return completed == obj

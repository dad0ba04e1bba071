"""Fields behind feature gates: dropped while the gate is off, unless the object already uses the feature.

A path has keys from the object's root. `*` represents every entry of a list or map.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import VERSIONS, Version


@dataclass(frozen=True)
class GatedFields:
    """The fields of one feature. It is on if all `gates` are on, and in use if any of `in_use` was set before.

    Versions from `since` on and before `until` drop the fields. Other versions do not change them.
    """

    gates: tuple[str, ...]
    fields: tuple[str, ...]
    also_in_use: tuple[str, ...] = ()
    since: Version = VERSIONS[0]
    until: Version | None = None

    def is_of(self, kubernetes: Version) -> bool:
        """True if the version drops the fields."""
        return self.since <= kubernetes and (self.until is None or kubernetes < self.until)

    def drop(self, obj: JsonObject, old: JsonObject | None) -> None:
        """Remove the fields from `obj`, unless `old` uses the feature."""
        if old is not None and any(_holds(old, path) for path in self._in_use):
            return
        for parents, names in self._droppable:
            for parent in _walk(obj, parents):
                if isinstance(parent, dict):
                    for name in names:
                        parent.pop(name, None)

    def below(self, path: str) -> GatedFields:
        """Return the same fields of the object at `path`."""
        fields, also = (
            tuple(f"{path}.{name}" for name in names) for names in (self.fields, self.also_in_use)
        )
        return replace(self, fields=fields, also_in_use=also)

    @functools.cached_property
    def _in_use(self) -> Sequence[Sequence[str]]:
        return [path.split(".") for path in (*self.fields, *self.also_in_use)]

    @functools.cached_property
    def _droppable(self) -> Sequence[tuple[Sequence[str], Sequence[str]]]:
        """The fields grouped by their parent, so that an object is walked once for each group."""
        found: dict[tuple[str, ...], list[str]] = {}
        for path in self._in_use[: len(self.fields)]:
            found.setdefault(tuple(path[:-1]), []).append(path[-1])
        return list(found.items())


def drop_disabled(
    rules: Sequence[GatedFields], obj: JsonObject, old: JsonObject | None, features: FeatureGates
) -> None:
    """Drop the fields of every feature that is off and was not in use.

    A version without the gate does not have the fields either: decoding has dropped them.
    """
    for rule in rules:
        if not features.all_enabled(rule.gates) and features.has(rule.gates) and rule.is_of(features.version):
            rule.drop(obj, old)


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


def _holds(obj: JsonObject, path: Sequence[str]) -> bool:
    return any(value not in ([], {}) for value in _walk(obj, path))

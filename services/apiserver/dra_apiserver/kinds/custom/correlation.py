"""Find the old value that a new one replaces, so that only changes are validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dra_apiserver.kinds.custom.listtypes import identity

ABSENT: Any = object()
"""Used instead of an old value if there is none, or none that corresponds to the new one."""


def correlate(schema: Mapping[str, Any], old: Any) -> Callable[[Any], Any]:
    """Return a function that finds the old item for a new one. This is only possible for lists with keys."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda item: ABSENT
    known = {tuple(identity(one.get(key)) for key in keys): one for one in old if isinstance(one, dict)}

    def find(item: Any) -> Any:
        if not isinstance(item, dict):
            return ABSENT
        return known.get(tuple(identity(item.get(key)) for key in keys), ABSENT)

    return find

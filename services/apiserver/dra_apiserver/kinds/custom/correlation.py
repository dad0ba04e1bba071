"""Which old value a new one comes from, so that only what changed is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dra_apiserver.kinds.custom.listtypes import identity

ABSENT: Any = object()
"""In place of an old value: there is none that the new one is known to come from."""


def correlated(schema: Mapping[str, Any], old: Any) -> Callable[[Any], Any]:
    """Finds the old item of a list that a new one comes from: only lists with keys tell."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda item: ABSENT
    known = {tuple(identity(one.get(key)) for key in keys): one for one in old if isinstance(one, dict)}

    def find(item: Any) -> Any:
        if not isinstance(item, dict):
            return ABSENT
        return known.get(tuple(identity(item.get(key)) for key in keys), ABSENT)

    return find

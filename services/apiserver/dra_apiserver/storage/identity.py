"""No object is stored under another kind, namespace or name than its own.

Lists put stored objects together as they are: one of another kind would make them unreadable. Everything that changes
an object checks what it changes. This check comes last, and covers what none of them has thought of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra_apiserver.errors import internal
from dra_apiserver.kindkit.kind import Kind, split_api_version
from dra_apiserver.storage.records import Record, Resource, object_key

JsonObject = dict[str, Any]


class Identity:
    """Check an object's kind, namespace and name; `find` returns the kind that is stored as a resource."""

    def __init__(self, find: Callable[[str, str], Kind | None]) -> None:
        self._find = find

    def check(self, resource: Resource, key: str, obj: JsonObject, current: Record | None) -> None:
        """Check the object to be stored under a key, where `current` is.

        Raises:
            StatusError: 500, it is another object than the key says.
        """
        meta = obj["metadata"]
        found = object_key(meta.get("namespace") or "", meta.get("name") or "")
        if found != key:
            raise internal(f"{obj['kind']} {found!r} cannot be stored as {key!r} of {'/'.join(resource)}")
        kind = self._find(*resource)
        if kind is None:
            return
        group, _ = split_api_version(obj["apiVersion"])
        if (group, obj["kind"]) == (resource[0], kind.kind):
            return
        # A definition may have renamed its kind since.
        if current is not None and current.object()["kind"] == obj["kind"]:
            return
        stated = f"{obj['apiVersion']} {obj['kind']}"
        raise internal(f"{stated} {found!r} cannot be stored as {kind.kind} of {'/'.join(resource)}")

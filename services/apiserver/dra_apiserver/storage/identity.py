"""Ensure that no object is stored under the kind, namespace or name of another.

Lists concatenate stored objects unchanged: one of another kind would make a list unreadable. Everything that
changes an object checks its own change. This check is the last one, for cases that the other checks miss.
"""

from __future__ import annotations

from collections.abc import Callable

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import internal
from dra_apiserver.kindkit.kind import Kind, split_api_version
from dra_apiserver.storage.records import Record, Resource, object_key


class Identity:
    """Checks an object's kind, namespace and name.

    `find` returns the kind whose objects are stored under a resource.
    """

    def __init__(self, find: Callable[[str, str], Kind | None]) -> None:
        self._find = find

    def check(self, resource: Resource, key: str, obj: JsonObject, current: Record | None) -> None:
        """Check an object that is to be stored under a key in place of `current`.

        Raises:
            StatusError: 500, the object does not belong under the key.
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

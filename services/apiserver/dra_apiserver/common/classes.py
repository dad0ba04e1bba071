"""Common code of admission plugins that set a default class, such as DefaultStorageClass."""

from __future__ import annotations

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import GroupResource
from dra_apiserver.kindkit.strategy import Context

PODS = GroupResource("", "pods")


def is_new(ctx: Context, group: str, plural: str, operation: str) -> bool:
    """True if the request creates an object of the kind."""
    return (
        operation == "CREATE" and not ctx.subresource and (ctx.kind.group, ctx.kind.plural) == (group, plural)
    )


def all_of(ctx: Context, group: str, plural: str) -> list[JsonObject]:
    """Return all objects of a cluster-scoped kind."""
    return [orjson.loads(data) for data in ctx.listing(group, plural, "")]


def name_of(obj: JsonObject) -> str:
    """Return the object's name; "" if it has none yet."""
    name: str = obj["metadata"].get("name", "")
    return name


def default_class(found: list[JsonObject], annotations: tuple[str, ...]) -> JsonObject | None:
    """Return the default class. Of several, return the newest; of equally old ones, the first by name."""

    def is_marked(one: JsonObject) -> bool:
        marks = one["metadata"].get("annotations") or {}
        return any(marks.get(annotation) == "true" for annotation in annotations)

    defaults = sorted((one for one in found if is_marked(one)), key=name_of)
    defaults.sort(key=lambda one: str(one["metadata"].get("creationTimestamp", "")), reverse=True)
    return defaults[0] if defaults else None

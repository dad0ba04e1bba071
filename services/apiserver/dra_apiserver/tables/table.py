"""``meta.k8s.io/v1`` Tables and metadata-only objects."""

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dra_apiserver.registry import KindInfo
from dra_apiserver.tables.columns import DESCRIPTIONS, TABLES, Cells
from dra_apiserver.tables.custom import custom_table
from dra_apiserver.tables.pods import row_conditions

Object = dict[str, Any]

META_V1 = "meta.k8s.io/v1"


def table(
    kind: KindInfo,
    version: str,
    items: Sequence[Object],
    *,
    metadata: Mapping[str, Any],
    include_object: str = "Metadata",
    now: datetime,
    headers: bool = True,
) -> Object:
    """The Table that shows ``items``.

    ``metadata`` is the list's own. ``include_object`` says what each row carries beside its cells: ``Metadata``,
    ``Object`` or ``None``. Later events of a watch go without ``headers``.
    """
    columns, cells = _columns(kind, version)
    if (kind.group, kind.kind) == ("flowcontrol.apiserver.k8s.io", "FlowSchema"):
        items = sorted(items, key=_precedence)
    rows = []
    for item in items:
        row: Object = {"cells": cells(item, now)}
        conditions = row_conditions(item) if (kind.group, kind.kind) == ("", "Pod") else None
        if conditions:
            row["conditions"] = conditions
        row["object"] = _row_object(item, include_object)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": META_V1,
        "metadata": dict(metadata),
        "columnDefinitions": columns if headers else None,
        "rows": rows,
    }


def _precedence(schema: Object) -> tuple[int, str]:
    """In the order that requests are matched."""
    spec = schema.get("spec") or {}
    return spec.get("matchingPrecedence", 0), schema["metadata"]["name"]


def _row_object(item: Object, include: str) -> Object | None:
    if include == "Object":
        return item
    return partial_metadata(item) if include != "None" else None


def partial_metadata(obj: Mapping[str, Any]) -> Object:
    """The PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": META_V1, "metadata": obj.get("metadata") or {}}


def partial_metadata_list(items: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> Object:
    """The PartialObjectMetadataList of several objects."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": META_V1,
        "metadata": dict(metadata),
        "items": [partial_metadata(item) for item in items],
    }


def _columns(kind: KindInfo, version: str) -> tuple[list[Object], Cells]:
    if kind.custom is not None:
        return custom_table(kind, version)
    return _builtin(kind.group, kind.kind)


@functools.cache
def _builtin(group: str, kind: str) -> tuple[list[Object], Cells]:
    found = TABLES.get((group, kind))
    if found is None:
        return [_column("Name"), _column("Created At", "date")], _created
    names, cells = found
    return [_parse(text) for text in names.split("|")], cells


def _created(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    metadata = obj.get("metadata") or {}
    return [metadata.get("name", ""), metadata.get("creationTimestamp")]


def _parse(text: str) -> Object:
    priority = 1 if text.endswith("*") else 0
    text = text.removesuffix("*")
    kind = {"#": "integer", "?": "boolean"}.get(text[-1], "string")
    return _column(text.rstrip("#?"), kind, priority)


def _column(name: str, kind: str = "string", priority: int = 0) -> Object:
    return {
        "name": name,
        "type": kind,
        "format": "name" if name in ("Name", "Attacher") else "",
        "description": DESCRIPTIONS.get(name, name),
        "priority": priority,
    }

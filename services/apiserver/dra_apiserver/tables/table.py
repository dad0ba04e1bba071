"""``meta.k8s.io/v1`` Tables and metadata-only objects."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.serving import Column, Printer

META_V1 = "meta.k8s.io/v1"


def table(
    kind: Kind,
    version: str,
    items: Sequence[JsonObject],
    *,
    metadata: Mapping[str, Any],
    include_object: str = "Metadata",
    now: datetime,
    headers: bool = True,
) -> JsonObject:
    """Return the Table of ``items``.

    ``metadata`` is that of the list. ``include_object`` selects what each row has besides its cells:
    ``Metadata``, ``Object`` or ``None``. Later events of a watch omit ``headers``.
    """
    printer = kind.printers.get(version) or kind.printers.get("") or _USUAL
    if printer.sort_key is not None:
        items = sorted(items, key=printer.sort_key)
    rows = []
    for item in items:
        row: JsonObject = {"cells": printer.cells(item, now)}
        if printer.row_conditions is not None and (conditions := printer.row_conditions(item)):
            row["conditions"] = conditions
        row["object"] = _row_object(item, include_object)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": META_V1,
        "metadata": dict(metadata),
        "columnDefinitions": [_definition(column) for column in printer.columns] if headers else None,
        "rows": rows,
    }


@functools.lru_cache(maxsize=1024)
def _definition(column: Column) -> JsonObject:
    """Return a column's definition in a Table. All responses share it."""
    return asdict(column)


def _row_object(item: JsonObject, include: str) -> JsonObject | None:
    if include == "Object":
        return item
    return partial_metadata(item) if include != "None" else None


def partial_metadata(obj: Mapping[str, Any]) -> JsonObject:
    """Return the PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": META_V1, "metadata": obj.get("metadata") or {}}


def partial_metadata_list(items: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> JsonObject:
    """Return the PartialObjectMetadataList of several objects."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": META_V1,
        "metadata": dict(metadata),
        "items": [partial_metadata(item) for item in items],
    }


def _default_cells(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    metadata = obj.get("metadata") or {}
    return [metadata.get("name", ""), metadata.get("creationTimestamp")]


_USUAL = Printer(
    (
        Column(
            "Name",
            format="name",
            description="The object's name, unique among its kind within its namespace.",
        ),
        Column("Created At", "date", description="When the object was created."),
    ),
    _default_cells,
)
"""The columns of kinds without columns of their own."""

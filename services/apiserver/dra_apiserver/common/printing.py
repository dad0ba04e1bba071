"""Declare the columns of a kind's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.serving import Cells, Column, Printer

_DESCRIPTIONS: Mapping[str, str] = {
    "Name": "The object's name, unique among its kind within its namespace.",
    "Age": "How long ago the object was created.",
    "State": "A summary of the current state (allocated, pending, reserved, etc.).",
    "Node": "The node that this is on or for.",
    "Driver": "The DRA driver that publishes the devices.",
    "Pool": "The pool that the devices belong to.",
    "Containers": "The names of the containers.",
    "Images": "The images of the containers.",
    "Selector": "The labels that select the pods.",
}


def printer(
    columns: str,
    cells: Cells,
    *,
    sort_key: Callable[[JsonObject], Any] | None = None,
    row_conditions: Callable[[JsonObject], list[JsonObject] | None] | None = None,
) -> Printer:
    """Return a printer with columns like ``Name|Replicas#|Age``.

    ``Name#`` is a number, ``Name?`` a boolean, and a trailing ``*`` means that only wide output shows the
    column.
    """
    return Printer(tuple(map(_column, columns.split("|"))), cells, sort_key, row_conditions)


def _column(text: str) -> Column:
    priority = 1 if text.endswith("*") else 0
    text = text.removesuffix("*")
    kind = {"#": "integer", "?": "boolean"}.get(text[-1], "string")
    name = text.rstrip("#?")
    form = "name" if name in ("Name", "Attacher") else ""
    return Column(name, kind, form, _DESCRIPTIONS.get(name, name), priority)

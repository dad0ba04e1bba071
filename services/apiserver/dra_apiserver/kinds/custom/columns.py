"""Tables of custom resources: their definition selects the columns by JSON path."""

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dra_shared.durations import UNKNOWN, since
from dra_shared.jsonpath import PathError, Template
from dra_shared.jsonpath.template import format_result

from dra_apiserver.kindkit.serving import Column, Printer

_NAME = Column("Name", "string", "name", "The object's name.")
_AGE = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "The time since the object was created.",
}
_INVALID = "<invalid>"


def custom_printer(additional: Sequence[Mapping[str, Any]]) -> Printer:
    """Return the printer of a version with these ``additionalPrinterColumns``, or with name and age if it has
    none.
    """
    chosen = additional or (_AGE,)
    columns = [_NAME, *map(_column, chosen)]
    paths = [(one.get("type", "string"), one["jsonPath"]) for one in chosen]

    def cells(obj: Mapping[str, Any], now: datetime) -> list[Any]:
        made: list[Any] = [(obj.get("metadata") or {}).get("name", "")]
        return made + [_cell(kind, path, obj, now) for kind, path in paths]

    return Printer(columns, cells)


def _column(one: Mapping[str, Any]) -> Column:
    return Column(
        one["name"],
        one.get("type", "string"),
        one.get("format", ""),
        one.get("description")
        or f"Custom resource definition column (in JSONPath format): {one['jsonPath']}",
        one.get("priority", 0),
    )


def _read(path: str, obj: Mapping[str, Any]) -> list[Any]:
    """Return the first value at the path, if there is one. A missing key is not an error."""
    try:
        found = _template(path).results(obj)
    except PathError:
        return []
    return found[0][:1] if found else []


@functools.lru_cache(maxsize=4096)
def _template(path: str) -> Template:
    return Template(f"{{{path}}}")


def _cell(kind: str, path: str, obj: Mapping[str, Any], now: datetime) -> Any:
    """Return the cell for a column of this type. A value of another type has no cell."""
    found = _read(path, obj)
    if kind == "string":
        return format_result(found[0]) if found else None
    match (kind, *found):
        case "integer", bool() | str() | None:
            return None
        case "integer", int() | float() as number:
            return int(number)
        case "number", bool():
            return None
        case "number", int() | float() as number:
            return number
        case "boolean", bool() as value:
            return value
        case "date", str() as text:
            shown = since(text, now)
            return _INVALID if text and shown == UNKNOWN else shown
    return None

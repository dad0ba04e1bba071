"""Tables of custom resources: their definition selects the columns by JSON path."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dra_shared.durations import since
from dra_shared.numerals import integer, is_digits

from dra_apiserver.kindkit.serving import Column, Printer

_STEP = re.compile(r"\.?([A-Za-z0-9_\-/\\.]+?)(?=\.|\[|$)|\[(\d+|\*)\]|\['((?:[^'\\]|\\.)*)'\]")
_NAME = Column("Name", "string", "name", "The object's name.")
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def custom_printer(additional: Sequence[Mapping[str, Any]]) -> Printer:
    """Return the printer of a version with these ``additionalPrinterColumns``, or with name and age if it has
    none.
    """
    chosen = additional or (_AGE,)
    columns = [_NAME, *map(_column, chosen)]
    readers = [(one.get("type", "string"), json_path(one["jsonPath"])) for one in chosen]

    def cells(obj: Mapping[str, Any], now: datetime) -> list[Any]:
        made: list[Any] = [(obj.get("metadata") or {}).get("name", "")]
        return made + [_cell(kind, read(obj), now) for kind, read in readers]

    return Printer(columns, cells)


def _column(one: Mapping[str, Any]) -> Column:
    return Column(
        one["name"],
        one.get("type", "string"),
        one.get("format", ""),
        one.get("description", ""),
        one.get("priority", 0),
    )


def json_path(path: str) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Return a reader for the simple JSON paths of printer columns (``.spec.items[0].name``)."""
    steps = [
        next(part for part in match if part) for match in _STEP.findall(path.strip("{}").removeprefix("$"))
    ]
    keys = [step.replace("\\.", ".") for step in steps]

    def read(obj: Mapping[str, Any]) -> list[Any]:
        found: list[Any] = [obj]
        for key in keys:
            found = [below for one in found for below in _below(one, key)]
        return found

    return read


def _below(value: Any, key: str) -> list[Any]:
    if isinstance(value, Mapping):
        if key == "*":
            return list(value.values())
        return [value[key]] if key in value else []
    if isinstance(value, list):
        if key == "*":
            return value
        index = integer(key) if is_digits(key) else len(value)
        return [value[index]] if index < len(value) else []
    return []


def _cell(kind: str, found: list[Any], now: datetime) -> Any:
    if not found or found[0] is None:
        return None
    if kind == "date":
        return since(found[0], now)
    if kind == "string":
        text = [one if isinstance(one, str) else _text(one) for one in found]
        return " ".join(text)
    return found[0]


def _text(value: Any) -> str:
    from dra_shared.jsontext import dumps

    if isinstance(value, bool):
        return "true" if value else "false"
    return dumps(value).decode() if isinstance(value, dict | list) else str(value)

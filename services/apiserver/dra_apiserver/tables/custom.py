"""Tables of custom resources: their definition says which columns, by JSON path."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dra_apiserver.registry import KindInfo, PrinterColumn
from dra_apiserver.tables.text import since

Object = dict[str, Any]

_STEP = re.compile(r"\.?([A-Za-z0-9_\-/\\.]+?)(?=\.|\[|$)|\[(\d+|\*)\]|\['((?:[^'\\]|\\.)*)'\]")
_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")


def custom_table(
    kind: KindInfo, version: str
) -> tuple[list[Object], Callable[[Mapping[str, Any], datetime], list[Any]]]:
    """Columns and cells of a custom resource in ``version``; name and age where its definition names none."""
    assert kind.custom is not None
    columns = kind.custom[version].columns or (_AGE,)
    definitions = [_definition("Name", "string", "name", 0, "The object's name.")]
    definitions += [
        _definition(one.name, one.type, one.format, one.priority, one.description) for one in columns
    ]
    readers = [(one, json_path(one.json_path)) for one in columns]

    def cells(obj: Mapping[str, Any], now: datetime) -> list[Any]:
        made: list[Any] = [(obj.get("metadata") or {}).get("name", "")]
        return made + [_cell(column, read(obj), now) for column, read in readers]

    return definitions, cells


def _definition(name: str, kind: str, form: str, priority: int, description: str) -> Object:
    return {"name": name, "type": kind, "format": form, "description": description, "priority": priority}


def json_path(path: str) -> Callable[[Mapping[str, Any]], list[Any]]:
    """A reader for the simple JSON paths that printer columns use (``.spec.items[0].name``)."""
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
        return [value[int(key)]] if key.isdecimal() and int(key) < len(value) else []
    return []


def _cell(column: PrinterColumn, found: list[Any], now: datetime) -> Any:
    if not found or found[0] is None:
        return None
    if column.type == "date":
        return since(found[0], now)
    if column.type == "string":
        text = [one if isinstance(one, str) else _text(one) for one in found]
        return " ".join(text)
    return found[0]


def _text(value: Any) -> str:
    import orjson

    if isinstance(value, bool):
        return "true" if value else "false"
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else str(value)

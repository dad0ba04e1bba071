"""Table cells that many kinds have: name, age, a selector, an amount."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.durations import since
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity, QuantityError


def part(obj: JsonObject, name: str) -> JsonObject:
    """Return a member that is an object, or an empty one."""
    found: JsonObject = obj.get(name) or {}
    return found


def name(obj: JsonObject) -> str:
    """Return the object's name."""
    return str(part(obj, "metadata").get("name", ""))


def age(obj: JsonObject, now: datetime) -> str:
    """Return the object's age."""
    return since(part(obj, "metadata").get("creationTimestamp"), now)


def quantity_text(value: Any) -> str:
    """Return a quantity in its canonical form."""
    try:
        return str(Quantity.parse(str(value)))
    except QuantityError:
        return str(value)


def name_and_age(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells for name and age only."""
    return [name(obj), age(obj, now)]

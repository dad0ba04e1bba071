"""Reading the objects of vectors, which are JSON as Go writes it."""

import copy
from typing import Any

from dra_shared.api.codec import convert
from dra_shared.api.resources import Resource
from dra_shared.jsontypes import JsonObject


def typed(resource: Resource[Any], obj: JsonObject) -> Any:
    """The object as a service has it."""
    return convert(resource, without_nulls(copy.deepcopy(obj)))


def without_nulls(value: Any) -> Any:
    """``value`` without null fields: for an empty list, as Go writes it, null means the same as nothing."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value

"""Reading the objects of recorded cases, which are JSON as Go encodes it."""

import copy
from typing import Any

from dra_shared.api.codec import convert
from dra_shared.api.resources import Resource
from dra_shared.jsontypes import JsonObject


def decode(resource: Resource[Any], obj: JsonObject) -> Any:
    """Return the object as a service has it."""
    return convert(resource, without_nulls(copy.deepcopy(obj)))


def without_nulls(value: Any) -> Any:
    """Return ``value`` without null fields. For an empty list, Go encodes null, which is equivalent."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value

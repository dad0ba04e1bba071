"""Validate opaque configuration: a driver's name and a JSON object that only the driver understands."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version

from dra_apiserver.common import names
from dra_apiserver.errors import FieldError, invalid, missing_field, too_long

PARAMETERS_LENGTH = 10 * 1024


def check_configuration(
    config: JsonObject, path: str, kubernetes: Version, stored: bool = False
) -> list[FieldError]:
    """Validate the `opaque` part, which is required because there is no other."""
    opaque = config.get("opaque")
    if opaque is None:
        return [missing_field(f"{path}.opaque")]
    errors = names.driver_name(opaque.get("driver", ""), f"{path}.opaque.driver", kubernetes)
    parameters = opaque.get("parameters")
    return errors + check_object(parameters, f"{path}.opaque.parameters", PARAMETERS_LENGTH, stored)


def check_object(value: Any, path: str, limit: int, stored: bool = False) -> list[FieldError]:
    """Check a JSON object of at most `limit` bytes, unless it was `stored` before the limit was introduced."""
    if value is None:
        return [missing_field(path)]
    if not stored and len(dumps(value)) > limit:
        return [too_long(path, limit)]
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []

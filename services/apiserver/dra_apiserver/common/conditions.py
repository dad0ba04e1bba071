"""Validate status conditions (apimachinery's `ValidateConditions`)."""

from __future__ import annotations

import re

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, Version

from dra_apiserver.common import names
from dra_apiserver.errors import FieldError, duplicate, invalid, missing_field, not_supported, too_long

_STATUSES = ("False", "True", "Unknown")
REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
    f"regex used for validation is '{REASON}')"
)
_REASON_LENGTH = 1024
_NO_TIMES = (None, "", "0001-01-01T00:00:00Z")
_MESSAGE_LENGTH = 32 * 1024


def check_conditions(conditions: list[JsonObject] | None, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate conditions: each type once, and each complete."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions or ()):
        at = f"{path}[{index}]"
        kind = condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(at if kubernetes >= V1_37 else f"{at}.type", kind))
        seen.add(kind)
        errors += _check_condition(condition, at, kubernetes)
    return errors


def _check_condition(condition: JsonObject, path: str, kubernetes: Version) -> list[FieldError]:
    kind, status, reason = (condition.get(name, "") for name in ("type", "status", "reason"))
    # Earlier releases also report an empty value as invalid.
    are_required = kubernetes >= V1_37
    if are_required and not kind:
        errors = [missing_field(f"{path}.type", "is required")]
    else:
        errors = names.label_name(kind, f"{path}.type")
    if are_required and not status:
        errors.append(missing_field(f"{path}.status"))
    elif status not in _STATUSES:
        errors.append(not_supported(f"{path}.status", status, _STATUSES))
    if (condition.get("observedGeneration") or 0) < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.observedGeneration", condition["observedGeneration"], text))
    if condition.get("lastTransitionTime") in _NO_TIMES:
        errors.append(missing_field(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(missing_field(f"{path}.reason"))
    else:
        if not re.fullmatch(REASON, reason):
            errors.append(invalid(f"{path}.reason", reason, REASON_TEXT))
        if len(reason.encode()) > _REASON_LENGTH:
            errors.append(too_long(f"{path}.reason", _REASON_LENGTH))
    if len(condition.get("message", "").encode()) > _MESSAGE_LENGTH:
        errors.append(too_long(f"{path}.message", _MESSAGE_LENGTH))
    return errors

"""Validate the health of volumes, in the status of pods and of volume claims."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.conditions import REASON, REASON_TEXT
from dra_apiserver.errors import (
    FieldError,
    duplicate,
    field_not_found,
    invalid,
    missing_field,
    not_supported,
    too_long,
    too_many,
)

_STATUSES = ("DataLoss", "Degraded", "Inaccessible")
MOST_CONDITIONS = 16
"""The most conditions of a volume, or of the storage of a driver."""
_REASON_LENGTH = 256
_MESSAGE_LENGTH = 1024


def check_volume_health(volumes: Sequence[JsonObject], spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the health of a pod's volumes (`validatePodVolumeHealth`, and what the type declares)."""
    known = {volume.get("name", "") for volume in spec.get("volumes") or ()}
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name", "")
        if not name:
            errors.append(missing_field(f"{at}.name"))
        elif name not in known:
            errors.append(field_not_found(f"{at}.name", name))
        errors += check_health_conditions(volume.get("healthConditions") or (), f"{at}.healthConditions")
    return errors


def check_health_conditions(conditions: Sequence[JsonObject], path: str) -> list[FieldError]:
    """Validate the conditions of one volume, which differ in status or reason."""
    if len(conditions) > MOST_CONDITIONS:
        return [too_many(path, len(conditions), MOST_CONDITIONS)]
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, condition in enumerate(conditions):
        at = f"{path}[{index}]"
        status, reason = condition.get("status", ""), condition.get("reason", "")
        if (status, reason) in seen:
            errors.append(duplicate(at, {"status": status, "reason": reason}))
        seen.add((status, reason))
        if not status:
            errors.append(missing_field(f"{at}.status"))
        elif status not in _STATUSES:
            errors.append(not_supported(f"{at}.status", status, _STATUSES))
        errors += check_reason(reason, f"{at}.reason")
        errors += check_message(condition.get("message", ""), f"{at}.message")
    return errors


def check_reason(reason: str, path: str) -> list[FieldError]:
    """Validate the reason of a condition of health, which is required."""
    if not reason:
        return [missing_field(path)]
    errors = [] if re.fullmatch(REASON, reason) else [invalid(path, reason, REASON_TEXT)]
    return errors + ([too_long(path, _REASON_LENGTH)] if len(reason.encode()) > _REASON_LENGTH else [])


def check_message(message: str, path: str) -> list[FieldError]:
    """Validate the length of the message of a condition of health."""
    return [too_long(path, _MESSAGE_LENGTH)] if len(message.encode()) > _MESSAGE_LENGTH else []

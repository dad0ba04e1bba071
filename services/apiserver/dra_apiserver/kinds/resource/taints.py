"""Validate taints of devices, and the tolerations of requests."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, Version

from dra_apiserver.common import names
from dra_apiserver.errors import FieldError, invalid, missing_field, not_supported
from dra_apiserver.kinds.resource.declared import values

TAINTS = 16
TAINTS_OF_1_34 = 4
_EFFECTS = values("DeviceTaint", "effect")
_WITHOUT_EFFECT = "None"
_OPERATORS = values("DeviceToleration", "operator")


def _effects(kubernetes: Version) -> list[str]:
    """Return the effects that a taint may have. The effect None was added in 1.35."""
    return [effect for effect in _EFFECTS if kubernetes >= V1_35 or effect != _WITHOUT_EFFECT]


def check_taint(
    taint: JsonObject, path: str, kubernetes: Version, old: JsonObject | None = None
) -> list[FieldError]:
    """Validate a taint. From 1.35 on, an unchanged effect is not validated again."""
    effects = _effects(kubernetes)
    errors = names.label_name(taint.get("key", ""), f"{path}.key")
    value = taint.get("value", "")
    if value:
        errors += names.label_text(value, f"{path}.value")
    effect = taint.get("effect", "")
    if old is None or kubernetes < V1_35 or old.get("effect", "") != effect:
        if not effect:
            errors.append(missing_field(f"{path}.effect"))
        elif effect not in effects:
            errors.append(not_supported(f"{path}.effect", effect, effects))
    return errors


def check_toleration(toleration: JsonObject, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate a toleration of a request."""
    effects = _effects(kubernetes)
    errors: list[FieldError] = []
    key, value = toleration.get("key", ""), toleration.get("value", "")
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if key:
        errors += names.label_name(key, f"{path}.key")
    if operator == "Exists":
        if value:
            errors.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += names.label_text(value, f"{path}.value")
    elif not operator:
        errors.append(missing_field(f"{path}.operator"))
    else:
        errors.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    if effect and effect not in effects:
        errors.append(not_supported(f"{path}.effect", effect, effects))
    return errors

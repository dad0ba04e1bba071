"""DeviceTaintRule."""

from __future__ import annotations

from typing import Any

from dra_apiserver.errors import FieldError, too_many
from dra_apiserver.kinds.common import names
from dra_apiserver.kinds.common.conditions import check_conditions
from dra_apiserver.kinds.resource.taints import check_taint

JsonObject = dict[str, Any]
_CONDITIONS = 8


def check_rule(spec: JsonObject, old: JsonObject | None = None, path: str = "spec") -> list[FieldError]:
    """The spec of a rule: which devices, and the taint they get."""
    selector = spec.get("deviceSelector") or {}
    errors: list[FieldError] = []
    for name, check in (("driver", names.driver_name), ("pool", names.pool_name), ("device", names.label)):
        if selector.get(name) is not None:
            errors += check(selector[name], f"{path}.deviceSelector.{name}")
    old_taint = (old.get("taint") or {}) if old is not None else None
    return errors + check_taint(spec.get("taint") or {}, f"{path}.taint", old_taint)


def check_rule_status(status: JsonObject, path: str = "status") -> list[FieldError]:
    """The status of a rule: its conditions."""
    conditions = status.get("conditions") or []
    errors = check_conditions(conditions, f"{path}.conditions")
    if len(conditions) > _CONDITIONS:
        errors.append(too_many(f"{path}.conditions", len(conditions), _CONDITIONS))
    return errors

"""Validate DeviceTaintRules."""

from __future__ import annotations

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version

from dra_apiserver.common import names
from dra_apiserver.common.conditions import check_conditions
from dra_apiserver.errors import FieldError, too_many
from dra_apiserver.kinds.resource.selectors import check_selectors
from dra_apiserver.kinds.resource.taints import check_taint
from dra_apiserver.schema import same_items

_CONDITIONS = 8


def check_rule(
    spec: JsonObject, gates: FeatureGates, old: JsonObject | None = None, path: str = "spec"
) -> list[FieldError]:
    """Validate the spec of a rule: the selected devices, and their taint.

    Only 1.34 can select the devices of a class, and devices by expression.
    """
    selector, at = spec.get("deviceSelector") or {}, f"{path}.deviceSelector"
    errors: list[FieldError] = []
    if selector.get("deviceClassName") is not None:
        errors += names.subdomain(selector["deviceClassName"], f"{at}.deviceClassName")
    if selector.get("driver") is not None:
        errors += names.driver_name(selector["driver"], f"{at}.driver", gates.version)
    for name, check in (("pool", names.pool_name), ("device", names.label)):
        if selector.get(name) is not None:
            errors += check(selector[name], f"{at}.{name}")
    before = ((old or {}).get("deviceSelector") or {}).get("selectors") or []
    selectors = selector.get("selectors") or []
    stored = old is not None and same_items("io.k8s.api.resource.v1.DeviceSelector", selectors, before)
    errors += check_selectors(selectors, f"{at}.selectors", gates, stored)
    old_taint = (old.get("taint") or {}) if old is not None else None
    return errors + check_taint(spec.get("taint") or {}, f"{path}.taint", gates.version, old_taint)


def check_rule_status(status: JsonObject, kubernetes: Version, path: str = "status") -> list[FieldError]:
    """Validate the status of a rule: its conditions."""
    conditions = status.get("conditions") or []
    errors = check_conditions(conditions, f"{path}.conditions", kubernetes)
    if len(conditions) > _CONDITIONS:
        errors.append(too_many(f"{path}.conditions", len(conditions), _CONDITIONS))
    return errors

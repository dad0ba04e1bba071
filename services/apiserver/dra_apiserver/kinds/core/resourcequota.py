"""Validate resource quotas (`ValidateResourceQuota`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.goshapes import Shape, show
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, invalid, json_value, missing_field
from dra_apiserver.kinds.pods.quantities import amounts, check_amount, check_resource_name, is_standard

_PODS = frozenset({"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_VOLUMES = frozenset({"persistentvolumeclaims", "requests.storage"})
# The resources that can be counted for the pods or claims of a scope. Each scope has an error for each other
# resource, so for long lists the search ends after this many.
_ENOUGH = 1000
_SCOPES = {
    "Terminating": _PODS,
    "NotTerminating": _PODS,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _PODS,
    "PriorityClass": _PODS,
    "CrossNamespacePodAffinity": _PODS,
    "VolumeAttributesClass": _VOLUMES,
}
_ONLY_EXISTS = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
)
_EXCLUSIVE = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_REQUIREMENT: Shape = [
    ("ScopeName", "scopeName", None, ""),
    ("Operator", "operator", None, ""),
    ("Values", "values", None, "null"),
]
_SELECTOR: Shape = [("MatchExpressions", "matchExpressions", [_REQUIREMENT], "null")]


def check_quota_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the limits and the usage (upstream's `ValidateResourceQuotaStatusUpdate`)."""
    status = obj.get("status") or {}
    return [
        error for field in ("hard", "used") for error in check_amounts(status.get(field), f"status.{field}")
    ]


def check_amounts(given: JsonObject | None, path: str) -> list[FieldError]:
    """Validate names of countable resources, and their amounts."""
    errors: list[FieldError] = []
    for name, amount in amounts(given).items():
        at = f"{path}[{name}]"
        errors += check_resource_name(name, at)
        if "/" not in name and (not is_standard(name) or name == "storage"):
            errors.append(invalid(at, json_value(name), "must be a standard resource for quota"))
        errors += check_amount(name, amount, at)
    return errors


def check_quota(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a quota: amounts that its scopes can count, and unchanged scopes."""
    spec = obj.get("spec") or {}
    errors = check_amounts(spec.get("hard"), "spec.hard")
    errors += _check_scopes(spec) + _check_selector(spec)
    before = (old or {}).get("spec") or {}
    if old is not None and set(spec.get("scopes") or ()) != set(before.get("scopes") or ()):
        errors.append(invalid("spec.scopes", spec.get("scopes"), IMMUTABLE))
    return errors


def _count_mismatches(spec: JsonObject) -> dict[str, int]:
    """Return, for each scope, the number of the quota's resources that the scope cannot count."""
    names = [name for name in spec.get("hard") or () if "/" not in name and is_standard(name)]
    return {
        scope: 0 if known is None else len([name for name in names if name not in known])
        for scope, known in _SCOPES.items()
    }


def _check_scopes(spec: JsonObject) -> list[FieldError]:
    path, scopes = "spec.scopes", spec.get("scopes") or []
    errors: list[FieldError] = []
    uncounted = _count_mismatches(spec)
    unsupported = invalid(path, scopes, "unsupported scope applied to resource")
    for scope in scopes:
        if len(errors) > _ENOUGH:
            break
        if scope not in _SCOPES:
            errors.append(invalid(path, scopes, "unsupported scope"))
        errors += [unsupported] * uncounted.get(scope, 0)
    conflicts = [pair for pair in _EXCLUSIVE if pair <= set(scopes)]
    return errors + [invalid(path, scopes, "conflicting scopes")] * len(conflicts)


def _check_selector(spec: JsonObject) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return []
    path = "spec.scopeSelector.matchExpressions"
    errors: list[FieldError] = []
    scopes = set()
    uncounted = _count_mismatches(spec)
    unsupported = invalid(path, show(selector, _SELECTOR), "unsupported scope applied to resource")
    for requirement in selector.get("matchExpressions") or ():
        if len(errors) > _ENOUGH:
            break
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", json_value(scope), "unsupported scope"))
        errors += [unsupported] * uncounted.get(scope, 0)
        if scope in _ONLY_EXISTS and operator != "Exists":
            text = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort "
                "or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(invalid(f"{path}.operator", json_value(operator), text))
        errors += _check_values(operator, requirement.get("values") or [], path)
        scopes.add(scope)
    conflicts = [pair for pair in _EXCLUSIVE if pair <= scopes]
    return errors + [invalid(path, spec.get("scopes"), "conflicting scopes")] * len(conflicts)


def _check_values(operator: str, values: list[str], path: str) -> list[FieldError]:
    if operator in ("In", "NotIn"):
        text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [missing_field(f"{path}.values", text)]
    if operator in ("Exists", "DoesNotExist"):
        text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{path}.values", values, text)] if values else []
    return [invalid(f"{path}.operator", json_value(operator), "not a valid selector operator")]

"""Validate roles and bindings."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain, path_segment

from dra_apiserver.common.labelselectors import check_label_selector
from dra_apiserver.errors import FieldError, invalid, missing_field, not_supported
from dra_apiserver.schema import same

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def check_role(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a namespaced role."""
    return _check_rules(obj, namespaced=True)


def check_cluster_role(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a cluster role: its rules, or the selectors of the roles that it aggregates."""
    errors = _check_rules(obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        at, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            errors.append(
                missing_field(at, "at least one clusterRoleSelector required if aggregationRule is non-nil")
            )
        for index, selector in enumerate(selectors):
            errors += check_label_selector(selector, f"{at}[{index}]")
    return errors


def _check_rules(obj: JsonObject, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(obj.get("rules") or ()):
        at, paths = f"rules[{index}]", rule.get("nonResourceURLs") or []
        if not rule.get("verbs"):
            errors.append(missing_field(f"{at}.verbs", "verbs must contain at least one value"))
        if paths:
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid(f"{at}.nonResourceURLs", paths, text))
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid(f"{at}.nonResourceURLs", paths, text))
            continue
        if not rule.get("apiGroups"):
            text = "resource rules must supply at least one api group"
            errors.append(missing_field(f"{at}.apiGroups", text))
        if not rule.get("resources"):
            text = "resource rules must supply at least one resource"
            errors.append(missing_field(f"{at}.resources", text))
    return errors


def check_role_binding(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a role binding."""
    return _check_binding(obj, old, ("Role", "ClusterRole"), namespaced=True)


def check_cluster_role_binding(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a cluster role binding."""
    return _check_binding(obj, old, ("ClusterRole",), namespaced=False)


def _check_binding(
    obj: JsonObject, old: JsonObject | None, kinds: tuple[str, ...], *, namespaced: bool
) -> list[FieldError]:
    role = obj.get("roleRef") or {}
    errors: list[FieldError] = []
    group, kind, name = (role.get(field) or "" for field in ("apiGroup", "kind", "name"))
    if group != _GROUP:
        errors.append(not_supported("roleRef.apiGroup", group, (_GROUP,)))
    if kind not in kinds:
        errors.append(not_supported("roleRef.kind", kind, kinds))
    if not name:
        errors.append(missing_field("roleRef.name"))
    errors += [invalid("roleRef.name", name, text) for text in path_segment(name) if name]
    for index, subject in enumerate(obj.get("subjects") or ()):
        errors += _check_subject(subject, f"subjects[{index}]", namespaced)
    if old is not None and not same("io.k8s.api.rbac.v1.RoleRef", role, old.get("roleRef")):
        shown = {"APIGroup": group, "Kind": kind, "Name": name}
        errors.append(invalid("roleRef", shown, "cannot change roleRef"))
    return errors


def _check_subject(subject: JsonObject, path: str, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, name, group = (subject.get(field) or "" for field in ("kind", "name", "apiGroup"))
    if not name:
        errors.append(missing_field(f"{path}.name"))
    if kind not in _SUBJECTS:
        return [*errors, not_supported(f"{path}.kind", kind, _SUBJECTS)]
    wanted = "" if kind == "ServiceAccount" else _GROUP
    if kind == "ServiceAccount":
        errors += [invalid(f"{path}.name", name, text) for text in dns_subdomain(name) if name]
    if group != wanted:
        errors.append(not_supported(f"{path}.apiGroup", group, (wanted,)))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        errors.append(missing_field(f"{path}.namespace"))
    return errors

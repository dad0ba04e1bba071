"""The kinds of rbac.authorization.k8s.io (upstream's `pkg/registry/rbac`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import path_segment_name

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Rewind, Validation, Writes
from dra_apiserver.kinds.rbac import columns, validation
from dra_apiserver.kinds.rbac.escalation import check_escalation

_RBAC = "rbac.authorization.k8s.io"


def _complete_role_binding(obj: JsonObject, _version: str, _now: str) -> None:
    reference = obj.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _RBAC
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = _RBAC


def _without_aggregated_rules(role: JsonObject) -> None:
    """Remove rules that a controller aggregates from other roles."""
    if "aggregationRule" in role:
        role.pop("rules", None)


KINDS = (
    builtin(
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
        writes=Writes(check_escalation=check_escalation, allow_create_on_update=True),
        strategy=CheckedStrategy(validation.check_cluster_role_binding),
        default=_complete_role_binding,
        printer=printer("Name|Role|Age|Users*|Groups*|ServiceAccounts*", columns.role_binding),
        validation=Validation(name_rule=path_segment_name),
    ),
    builtin(
        "rbac.authorization.k8s.io",
        "clusterroles",
        writes=Writes(check_escalation=check_escalation, allow_create_on_update=True),
        strategy=CheckedStrategy(validation.check_cluster_role),
        validation=Validation(name_rule=path_segment_name),
        rewind=Rewind(passing=_without_aggregated_rules),
    ),
    builtin(
        "rbac.authorization.k8s.io",
        "rolebindings",
        writes=Writes(check_escalation=check_escalation, allow_create_on_update=True),
        strategy=CheckedStrategy(validation.check_role_binding),
        default=_complete_role_binding,
        printer=printer("Name|Role|Age|Users*|Groups*|ServiceAccounts*", columns.role_binding),
        validation=Validation(name_rule=path_segment_name),
    ),
    builtin(
        "rbac.authorization.k8s.io",
        "roles",
        writes=Writes(check_escalation=check_escalation, allow_create_on_update=True),
        strategy=CheckedStrategy(validation.check_role),
        validation=Validation(name_rule=path_segment_name),
    ),
)

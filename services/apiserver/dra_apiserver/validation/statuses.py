"""The statuses that controllers and kubelets write of kinds that run no pods."""

from __future__ import annotations

from typing import Any

from dra_shared.names import label_key
from dra_shared.quantity import Quantity

from dra_apiserver.errors import FieldError, duplicate, invalid, json_value, not_supported
from dra_apiserver.validation import names
from dra_apiserver.validation.addresses import check_legacy_address, parse_address
from dra_apiserver.validation.conditions import check_conditions
from dra_apiserver.validation.gojson import Shape, show
from dra_apiserver.validation.jobstatus import check_job_status
from dra_apiserver.validation.quantities import amounts, check_amount, is_native
from dra_apiserver.validation.resourcequota import check_amounts
from dra_apiserver.validation.workloadstatus import WORKLOADS, Check, check_counts

JsonObject = dict[str, Any]
_RESIZE_STATUSES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_ADDRESS: Shape = [("Type", "type", None, ""), ("Address", "address", None, "")]
_ZERO = Quantity.parse("0")


def check_node_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Amounts that can be counted, and each address once."""
    status = obj.get("status") or {}
    errors: list[FieldError] = []
    for field in ("capacity", "allocatable"):
        for name, amount in amounts(status.get(field)).items():
            errors += check_amount(name, amount, f"status.{field}.{name}")
    seen: list[JsonObject] = []
    for index, address in enumerate(status.get("addresses") or ()):
        if address in seen:
            errors.append(duplicate(f"status.addresses[{index}]", show(address, _ADDRESS)))
        seen.append(address)
    return errors


def check_claim_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """How large a volume is, and how far it has grown."""
    status = obj.get("status") or {}
    errors: list[FieldError] = []
    for name, amount in amounts(status.get("capacity")).items():
        errors += _check_size(amount, f"status.capacity[{name}]")
    path = "status.allocatedResourceStatuses"
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        errors += _check_storage(name, path)
        if state not in _RESIZE_STATUSES:
            errors.append(not_supported(path, name, _RESIZE_STATUSES))
    path = "status.allocatedResources"
    for name, amount in amounts(status.get("allocatedResources")).items():
        errors += _check_storage(name, path) or _check_size(amount, f"{path}[{name}]")
    return errors


def _check_size(amount: Quantity, path: str) -> list[FieldError]:
    return [invalid(path, amount.value(), "must be a valid resource quantity")] if amount < _ZERO else []


def _check_storage(name: str, path: str) -> list[FieldError]:
    """A resource that a volume may have: storage, or somebody's own."""
    if problems := label_key(name):
        return [invalid(path, name, text) for text in problems]
    return [not_supported(path, name, ("storage",))] if is_native(name) and name != "storage" else []


def check_namespace_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """The phase follows from whether the namespace is being deleted."""
    deleted = obj["metadata"].get("deletionTimestamp") is not None
    wanted = "Terminating" if deleted else "Active"
    phase = (obj.get("status") or {}).get("phase", "")
    if phase == wanted:
        return []
    text = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if deleted else ''}empty"
    return [invalid("status.Phase", json_value(phase), text)]


def check_budget_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """How many pods may be disturbed."""
    status = obj.get("status") or {}
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    conditions = check_conditions(status.get("conditions"), "status.conditions")
    return conditions + check_counts(status, counts, "status")


def check_autoscaler_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """How many replicas there are and should be."""
    return check_counts(obj.get("status") or {}, ("currentReplicas", "desiredReplicas"), "status")


def check_ingress_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Where an ingress is reached."""

    def points(ingress: JsonObject) -> list[JsonObject]:
        return ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []

    known = [point.get("ip", "") for point in points(old)]
    errors: list[FieldError] = []
    for index, point in enumerate(points(obj)):
        at = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            errors += check_legacy_address(point["ip"], f"{at}.ip", known)
        host = point.get("hostname", "")
        if host:
            errors += names.subdomain(host, f"{at}.hostname")
            if parse_address(host) is not None:
                errors.append(invalid(f"{at}.hostname", host, "must be a DNS name, not an IP address"))
    return errors


def check_quota_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """What is limited, and how much of it is used."""
    status = obj.get("status") or {}
    return [
        error for field in ("hard", "used") for error in check_amounts(status.get(field), f"status.{field}")
    ]


STATUS_CHECKS: dict[tuple[str, str], Check] = {
    **WORKLOADS,
    ("", "nodes"): check_node_status,
    ("", "persistentvolumeclaims"): check_claim_status,
    ("", "resourcequotas"): check_quota_status,
    ("autoscaling", "horizontalpodautoscalers"): check_autoscaler_status,
    ("batch", "jobs"): check_job_status,
    ("networking.k8s.io", "ingresses"): check_ingress_status,
    ("policy", "poddisruptionbudgets"): check_budget_status,
}
"""By (group, plural): the check of a status, new and old."""

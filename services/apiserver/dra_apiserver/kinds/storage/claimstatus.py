"""Validation of a volume claim's status (upstream's `ValidatePersistentVolumeClaimStatusUpdate`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import label_key
from dra_shared.quantity import Quantity

from dra_apiserver.common.gates import GatedFields
from dra_apiserver.errors import FieldError, invalid, not_supported
from dra_apiserver.kinds.pods.quantities import amounts, is_native
from dra_apiserver.kinds.pods.volumehealth import check_health_conditions

GATED = (GatedFields(("CSIVolumeHealth",), ("status.healthStatus",)),)

_RESIZE_STATUSES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_ZERO = Quantity.parse("0")


def check_claim_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the size of a claim's volume, and the state of its expansion."""
    status = obj.get("status") or {}
    errors: list[FieldError] = []
    for name, amount in amounts(status.get("capacity")).items():
        errors += _check_size(amount, f"status.capacity[{name}]")
    health = (status.get("healthStatus") or {}).get("healthConditions") or ()
    errors += check_health_conditions(health, "status.healthStatus.healthConditions")
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
    """Check that a volume can have the resource: storage, or a custom one."""
    if problems := label_key(name):
        return [invalid(path, name, text) for text in problems]
    return [not_supported(path, name, ("storage",))] if is_native(name) and name != "storage" else []

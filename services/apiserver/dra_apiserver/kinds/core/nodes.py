"""Validation of nodes and their status (upstream's `ValidateNode`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.common.addresses import check_legacy_range
from dra_apiserver.common.gates import GatedFields
from dra_apiserver.common.goshapes import Shape, show
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.errors import (
    ErrorType,
    FieldError,
    duplicate,
    forbidden_field,
    missing_field,
    not_supported,
)
from dra_apiserver.kinds.pods.quantities import amounts, check_amount

GATED = (GatedFields(("InPlacePodVerticalScalingSchedulerPreemption",), ("spec.podPreemptionPolicy",)),)

_NODE_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_node(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a node: each taint key once per effect, and immutable fields of clouds and networks.

    Upstream's errors say `metadata.taints`, because taints once were an annotation.
    """
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    taints = _check_node_taints(spec)
    errors = [*taints]
    known = set(before.get("podCIDRs") or ())
    for index, one in enumerate(spec.get("podCIDRs") or ()):
        errors += check_legacy_range(one, f"spec.podCIDRs[{index}]", known)
    if before.get("podCIDRs") and (spec.get("podCIDRs") or []) != before["podCIDRs"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden_field("spec.podCIDRs", text))
    if before.get("providerID") and spec.get("providerID", "") != before["providerID"]:
        text = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden_field("spec.providerID", text))
    # Upstream validates the taints of a changed node twice.
    return errors + (taints if old is not None else [])


def _check_node_taints(spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        at = f"metadata.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        errors += names.label_name(key, f"{at}.key")
        errors += names.label_text(taint.get("value", ""), f"{at}.value")
        if not effect:
            errors.append(missing_field(f"{at}.effect"))
        elif effect not in _NODE_EFFECTS:
            errors.append(not_supported(f"{at}.effect", effect, _NODE_EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect}
            text = "taints must be unique by key and effect pair"
            errors.append(
                FieldError(ErrorType.DUPLICATE, at, {**shown, "TimeAdded": taint.get("timeAdded")}, text)
            )
        seen.add((key, effect))
    return errors


_ADDRESS: Shape = [("Type", "type", None, ""), ("Address", "address", None, "")]


def check_node_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate a node's status: countable amounts, and each address once."""
    status = obj.get("status") or {}
    errors: list[FieldError] = []
    for field in ("capacity", "allocatable"):
        for name, amount in amounts(status.get(field)).items():
            errors += check_amount(name, amount, f"status.{field}.{name}")
    addresses = status.get("addresses") or ()
    for index in sorted(find_repeated(addresses)):
        errors.append(duplicate(f"status.addresses[{index}]", show(addresses[index], _ADDRESS)))
    return errors


def without_heartbeats(node: JsonObject) -> None:
    """Remove the times at which the node last reported each condition."""
    for condition in (node.get("status") or {}).get("conditions") or ():
        condition.pop("lastHeartbeatTime", None)

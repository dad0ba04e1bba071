"""Validate the status of a pod that kubelets, the scheduler and controllers write (`ValidatePodStatusUpdate`)."""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, Version

from dra_apiserver.common import names
from dra_apiserver.common.addresses import check_legacy_address, parse_address
from dra_apiserver.common.goshapes import Shape, show
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, forbidden_field, invalid, json_value
from dra_apiserver.kinds.pods.allocatable import check_node_allocatable
from dra_apiserver.kinds.pods.claims import check_claim_statuses, check_extended_resources
from dra_apiserver.kinds.pods.health import check_allocated_resources, check_users
from dra_apiserver.kinds.pods.volumehealth import check_volume_health

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_ADDRESS: Shape = [("IP", "ip", None, "")]
_NEGATIVE = "must be a non-negative integer"


def check_status_update(
    pod: JsonObject, old: JsonObject, kubernetes: Version, path: str = "status"
) -> list[FieldError]:
    """Return the errors of the new status, and of its changes from the old one."""
    status, before = pod.get("status") or {}, old.get("status") or {}
    spec = old.get("spec") or {}
    errors = _check_conditions(status.get("conditions") or (), f"{path}.conditions")
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        errors += names.subdomain(nominated, f"{path}.nominatedNodeName")
        if spec.get("nodeName"):
            text = "may not be set on pods that are already bound to a node"
            errors.append(forbidden_field(f"{path}.nominatedNodeName", text))
    if status.get("observedGeneration", 0) < 0:
        errors.append(invalid(f"{path}.observedGeneration", status["observedGeneration"], _NEGATIVE))
    if status.get("qosClass", "") != before.get("qosClass", ""):
        errors.append(invalid(f"{path}.qosClass", json_value(status.get("qosClass", "")), IMMUTABLE))
    errors += _check_ends(status, before, spec, path)
    claims = spec.get("resourceClaims") or ()
    made = status.get("resourceClaimStatuses") or ()
    errors += check_claim_statuses(made, claims, f"{path}.resourceClaimStatuses")
    extended = status.get("extendedResourceClaimStatus")
    if extended is not None:
        errors += check_extended_resources(extended, spec, f"{path}.extendedResourceClaimStatus")
    allocatable = status.get("nodeAllocatableResourceClaimStatuses") or ()
    where = f"{path}.nodeAllocatableResourceClaimStatuses"
    # The claim for extended resources is not named anywhere else (kubernetes/kubernetes#141556, right after
    # 1.37.2).
    backed = (extended,) if extended is not None and kubernetes >= V1_37 else ()
    errors += check_node_allocatable(allocatable, [*claims, *made, *backed], where, kubernetes)
    errors += check_volume_health(status.get("volumeHealth") or (), spec, f"{path}.volumeHealth")
    errors += _check_addresses(status, before, "podIPs", path)
    hosts = status.get("hostIPs") or ()
    if hosts and hosts[0].get("ip", "") != status.get("hostIP", ""):
        errors.append(invalid(f"{path}.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`"))
    errors += _check_addresses(status, before, "hostIPs", path)
    return errors + check_users(status, spec, path) + check_allocated_resources(status, spec, path)


def _check_conditions(conditions: Sequence[JsonObject], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate(conditions):
        seen = condition.get("observedGeneration", 0)
        if seen < 0:
            errors.append(invalid(f"{path}[{index}].observedGeneration", seen, _NEGATIVE))
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            errors += names.label_name(kind, f"{path}[{index}].Type")
    return errors


def _check_ends(status: JsonObject, before: JsonObject, spec: JsonObject, path: str) -> list[FieldError]:
    """Check that a container that has ended and is not restarted keeps its terminated state."""
    errors: list[FieldError] = []
    containers = {"": spec.get("containers") or (), "init": spec.get("initContainers") or ()}
    rules = (
        rule
        for members in containers.values()
        for container in members
        for rule in container.get("restartPolicyRules") or ()
    )
    # With a rule that restarts all containers, any container may be restarted.
    all_restart = any(rule.get("action") == "RestartAllContainers" for rule in rules)
    for field, members in (
        ("containerStatuses", containers[""]),
        ("initContainerStatuses", containers["init"]),
        ("ephemeralContainerStatuses", ()),
    ):
        if all_restart and field != "ephemeralContainerStatuses":
            continue
        running = {
            one.get("name")
            for one in status.get(field) or ()
            if (one.get("state") or {}).get("terminated") is None
        }
        known = {container.get("name"): container for container in members}
        for index, one in enumerate(before.get(field) or ()):
            ended = (one.get("state") or {}).get("terminated")
            if ended is None or one.get("name") not in running:
                continue
            container = known.get(one.get("name"))
            if container is None or not _restarts(container, spec, ended.get("exitCode", 0)):
                text = "may not be transitioned to non-terminated state"
                errors.append(forbidden_field(f"{path}.{field}[{index}].state", text))
    return errors


def _restarts(container: JsonObject, spec: JsonObject, code: int) -> bool:
    """True if a container that ended with the code is restarted (`ContainerShouldRestart`)."""
    policy = container.get("restartPolicy")
    if policy is not None:
        for rule in container.get("restartPolicyRules") or ():
            exits = rule.get("exitCodes") or {}
            if (exits.get("operator") == "In") == (code in (exits.get("values") or ())):
                return True
    policy = policy or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _check_addresses(status: JsonObject, before: JsonObject, field: str, path: str) -> list[FieldError]:
    """Validate the addresses, at most one of each family."""
    given = status.get(field) or ()
    if not given:
        return []
    known = {one.get("ip", "") for one in before.get(field) or ()}
    errors: list[FieldError] = []
    for index, one in enumerate(given):
        errors += check_legacy_address(one.get("ip", ""), f"{path}.{field}[{index}]", known)
    if len(given) > 1 and not errors:
        families = {address.version for one in given if (address := parse_address(one.get("ip", "")))}
        if len(given) > len(families):
            text = "may specify no more than one IP for each IP family"
            errors.append(invalid(f"{path}.{field}", show(list(given), [_ADDRESS]), text))
    return errors

"""Validate the spec of pods and pod templates (`ValidatePodSpec`)."""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.common.objectmeta import validate_annotations, validate_labels
from dra_apiserver.common.validspecs import KnownGood
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, not_supported
from dra_apiserver.kinds.pods.claims import check_pod_claims
from dra_apiserver.kinds.pods.containers import ContainerCheck, check_image
from dra_apiserver.kinds.pods.responders import check_responders
from dra_apiserver.kinds.pods.scheduling import (
    check_affinity,
    check_gates,
    check_spreading,
    check_tolerations,
)
from dra_apiserver.kinds.pods.security import (
    check_dns,
    check_host_aliases,
    check_hostname_override,
    check_os,
    check_pod_context,
)
from dra_apiserver.kinds.pods.volumes import check_volumes

_RESTARTS = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_LONGEST = 2**31 - 1

_good = KnownGood()


def check_pod(pod: JsonObject, path: str = "spec") -> list[FieldError]:
    """Validate a pod's spec, with the rules that do not apply to templates."""
    spec = pod.get("spec") or {}
    errors = check_pod_spec(spec, path, is_pod=True)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            errors += check_image(container, f"{path}.{field}[{index}]")
    return errors


def check_new_pod(pod: JsonObject, path: str = "spec") -> list[FieldError]:
    """Validate a new pod: the rules of `check_pod`, and that fields which are only set later are absent."""
    spec = pod.get("spec") or {}
    return _good.check(spec, lambda: _check_new_spec(spec, path))


def _check_new_spec(spec: JsonObject, path: str) -> list[FieldError]:
    errors = check_pod({"spec": spec}, path)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden_field(f"{path}.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden_field(f"{path}.nodeName", text))
    return errors


def check_template(template: JsonObject, path: str, with_spec: bool = True) -> list[FieldError]:
    """Validate a pod template: labels, annotations and, except for kinds that add to it, the spec."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = validate_labels(meta.get("labels") or {}, f"{path}.labels")
    errors += validate_annotations(meta.get("annotations") or {}, f"{path}.annotations")
    if not with_spec:
        return errors
    errors += check_pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(forbidden_field(f"{path}.spec.ephemeralContainers", text))
    return errors


def check_pod_spec(spec: JsonObject, path: str, is_pod: bool = False) -> list[FieldError]:
    """Validate the spec of a pod or of a template."""
    grace = spec.get("terminationGracePeriodSeconds")
    errors: list[FieldError] = []
    if grace is None:
        errors.append(missing_field(f"{path}.terminationGracePeriodSeconds"))
    found, volumes = check_volumes(spec.get("volumes") or (), f"{path}.volumes")
    errors += found
    pod_claims = spec.get("resourceClaims") or ()
    errors += check_pod_claims(pod_claims, f"{path}.resourceClaims")
    claims = {claim["name"] for claim in pod_claims if claim.get("name")}
    check = ContainerCheck(volumes, claims, grace, spec.get("restartPolicy", ""))
    regular, first = spec.get("containers") or (), spec.get("initContainers") or ()
    errors += check.check_regular(regular, f"{path}.containers")
    errors += check.check_init(first, regular, f"{path}.initContainers")
    ephemeral = spec.get("ephemeralContainers") or ()
    errors += check.check_ephemeral(ephemeral, [*regular, *first], f"{path}.ephemeralContainers")
    if (spec.get("resources") or {}).get("claims") is not None:
        text = "claims may not be set for Resources at pod-level"
        errors.append(forbidden_field(f"{path}.resources.claims", text))
    if spec.get("hostNetwork"):
        errors += _check_host_network(regular, f"{path}.containers", is_pod)
    errors += _check_choice(spec.get("restartPolicy", ""), _RESTARTS, f"{path}.restartPolicy")
    errors += _check_choice(spec.get("dnsPolicy", ""), _DNS, f"{path}.dnsPolicy")
    errors += validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    errors += check_pod_context(spec.get("securityContext") or {}, f"{path}.securityContext")
    errors += check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    errors += check_dns(spec.get("dnsConfig"), spec.get("dnsPolicy", ""), f"{path}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        errors += names.label_name(
            gate.get("conditionType", ""), f"{path}.readinessGates[{index}].conditionType"
        )
    errors += check_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    constraints = spec.get("topologySpreadConstraints") or ()
    errors += check_spreading(constraints, f"{path}.topologySpreadConstraints")
    errors += check_hostname_override(spec, path)
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            errors += names.subdomain(spec[field], f"{path}.{field}")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST:
        text = f"must be between 1 and {_LONGEST}, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += names.label(spec[field], f"{path}.{field}")
    errors += check_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    errors += check_host_aliases(spec.get("hostAliases") or (), f"{path}.hostAliases")
    if spec.get("priorityClassName"):
        errors += names.subdomain(spec["priorityClassName"], f"{path}.priorityClassName")
    if spec.get("runtimeClassName") is not None:
        errors += names.subdomain(spec["runtimeClassName"], f"{path}.runtimeClassName")
    if spec.get("preemptionPolicy") is not None:
        errors += _check_choice(spec["preemptionPolicy"], _PREEMPTION, f"{path}.preemptionPolicy")
    errors += check_os(spec.get("os"), f"{path}.os")
    return errors + check_responders(spec, path) if spec.get("evictionResponders") else errors


def _check_choice(value: str, known: Sequence[str], path: str) -> list[FieldError]:
    if not value:
        return [missing_field(path)]
    return [] if value in known else [not_supported(path, value, known)]


def _check_host_network(containers: Sequence[JsonObject], path: str, is_pod: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            own, hosts = port.get("containerPort") or 0, port.get("hostPort") or 0
            # A template may omit the host port, because the default is set when the pod is created.
            if (is_pod or hosts) and own != hosts:
                text = "must match `containerPort` when `hostNetwork` is true"
                errors.append(invalid(f"{path}[{number}].ports[{index}].hostPort", hosts, text))
    return errors

"""The strategies of namespaces and pods."""

from __future__ import annotations

from typing import Any

from dra_shared.names import dns_label, dns_subdomain
from dra_shared.quantity import Quantity

from dra_apiserver.errors import (
    ErrorType,
    FieldError,
    duplicate,
    field_not_found,
    forbidden_field,
    invalid,
    required,
)
from dra_apiserver.strategy import Context
from dra_apiserver.strategy.generic import GenericStrategy

JsonObject = dict[str, Any]

_NAME_LABEL = "kubernetes.io/metadata.name"
_SPEC_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class NamespaceStrategy(GenericStrategy):
    """A namespace is active until it is deleted, and goes when its finalizers have."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Active, with Kubernetes' own finalizer and the label of its name."""
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        self._label(obj)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Finalizers change through `finalize` only, the phase through `status` only."""
        if ctx.subresource == "finalize":
            obj["status"] = old.get("status", {})
            return
        finalizers = (old.get("spec") or {}).get("finalizers")
        obj["spec"] = {"finalizers": finalizers} if finalizers else {}
        if ctx.subresource != "status":
            obj["status"] = old.get("status", {})
        self._label(obj)

    def _label(self, obj: JsonObject) -> None:
        meta = obj["metadata"]
        if meta.get("name"):
            meta["labels"] = {**(meta.get("labels") or {}), _NAME_LABEL: meta["name"]}


def qos_class(spec: JsonObject) -> str:
    """The pod's quality of service, from its containers' CPU and memory (ComputePodQOS)."""
    any_set = False
    guaranteed = True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        requests = _positive(resources.get("requests"))
        limits = _positive(resources.get("limits"))
        any_set = any_set or bool(requests or limits)
        if limits.keys() != {"cpu", "memory"} or any(
            requests.get(name, amount) != amount for name, amount in limits.items()
        ):
            guaranteed = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amounts: JsonObject | None) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for name in ("cpu", "memory"):
        if amounts and name in amounts:
            try:
                amount = Quantity.parse(str(amounts[name]))
            except ValueError:
                continue
            if amount > Quantity.parse("0"):
                found[name] = amount
    return found


class PodStrategy(GenericStrategy):
    """A pod starts pending; little of its spec may change later."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Pending, of generation 1."""
        obj["metadata"]["generation"] = 1
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata and spec."""
        return super().validate_create(obj, ctx) + _validate_spec(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of the new pod, and of what changed."""
        errors = super().validate_update(obj, old, ctx)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors += _validate_spec(obj)
        for field in ("containers", "initContainers"):
            if len(spec.get(field) or ()) != len(before.get(field) or ()):
                detail = "pod updates may not add or remove containers"
                return [*errors, forbidden_field(f"spec.{field}", detail)]
        errors += _validate_tolerations(spec, before)
        errors += _validate_gates(spec, before)
        if _fixed(spec, before) != _fixed(before, before):
            errors.append(forbidden_field("spec", _SPEC_FIXED))
        return errors


class PodStatusStrategy(GenericStrategy):
    """Only a pod's status changes, and of its metadata what kubelets write."""

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep the spec, the owners and the quality of service."""
        obj["spec"] = old["spec"]
        owners = old["metadata"].get("ownerReferences")
        if owners:
            obj["metadata"]["ownerReferences"] = owners
        else:
            obj["metadata"].pop("ownerReferences", None)
        qos = (old.get("status") or {}).get("qosClass")
        status = obj.setdefault("status", {})
        if qos and not status.get("qosClass"):
            status["qosClass"] = qos

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata and of the status' claims."""
        errors = super().validate_update(obj, old, ctx)
        known = {claim.get("name") for claim in obj["spec"].get("resourceClaims") or ()}
        seen: set[str] = set()
        for index, item in enumerate((obj.get("status") or {}).get("resourceClaimStatuses") or ()):
            path = f"status.resourceClaimStatuses[{index}]"
            name = item.get("name", "")
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
            if name not in known:
                errors.append(
                    invalid(f"{path}.name", name, "must match the name of an entry in `spec.resourceClaims`")
                )
            if item.get("resourceClaimName") is not None:
                wanted = item["resourceClaimName"]
                errors += [
                    invalid(f"{path}.resourceClaimName", wanted, text) for text in dns_subdomain(wanted)
                ]
        return errors


def _validate_spec(pod: JsonObject) -> list[FieldError]:
    spec = pod.get("spec") or {}
    errors, claims = _validate_claims(spec.get("resourceClaims") or (), pod["metadata"].get("name") or "")
    containers = spec.get("containers") or ()
    if not containers:
        errors.append(required("spec.containers"))
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{index}]"
            name = container.get("name") or ""
            if not name:
                errors.append(required(f"{path}.name"))
            else:
                errors += [invalid(f"{path}.name", name, text) for text in dns_label(name)]
                if name in names:
                    errors.append(duplicate(f"{path}.name", name))
                names.add(name)
            if not container.get("image"):
                errors.append(required(f"{path}.image"))
            errors += _validate_container_claims(container, claims, f"{path}.resources.claims")
    return errors


def _validate_claims(claims: Any, pod_name: str) -> tuple[list[FieldError], list[str]]:
    errors: list[FieldError] = []
    names: list[str] = []
    for index, claim in enumerate(claims):
        path = f"spec.resourceClaims[{index}]"
        name = claim.get("name") or ""
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if not name:
            errors.append(required(f"{path}.name"))
        elif name in names:
            errors.append(duplicate(f"{path}.name", name))
        else:
            problems = dns_label(name)
            errors += [invalid(f"{path}.name", name, text) for text in problems]
            if not problems and template is not None:
                final = f"{pod_name}-{name}"
                errors += [
                    invalid(f"{path}.name", final, f"final ResourceClaim name: {text}")
                    for text in dns_subdomain(final)
                ]
            names.append(name)
        if direct is not None and template is not None:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(path, claim, detail))
        if direct is None and template is None:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(path, claim, detail))
        for field, value in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
            if value is not None:
                errors += [invalid(f"{path}.{field}", value, text) for text in dns_subdomain(value)]
    return errors, names


def _validate_container_claims(container: JsonObject, known: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate((container.get("resources") or {}).get("claims") or ()):
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            errors.append(required(f"{path}[{index}].name"))
            continue
        if (name, request) in seen or (name, "") in seen:
            errors.append(duplicate(f"{path}[{index}]", f"{name}/{request}" if request else name))
        seen.add((name, request))
        if name not in known:
            found = field_not_found(f"{path}[{index}].name", name)
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(FieldError(ErrorType.NOT_FOUND, found.field, name, detail))
    return errors


def _validate_tolerations(spec: JsonObject, before: JsonObject) -> list[FieldError]:
    def plain(toleration: JsonObject) -> JsonObject:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [plain(toleration) for toleration in spec.get("tolerations") or ()]
    if all(plain(toleration) in kept for toleration in before.get("tolerations") or ()):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_field("spec.tolerations", detail)]


def _validate_gates(spec: JsonObject, before: JsonObject) -> list[FieldError]:
    known = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    added = [gate.get("name") for gate in spec.get("schedulingGates") or () if gate.get("name") not in known]
    detail = "only deletion is allowed, but found new scheduling gate"
    return [forbidden_field("spec.schedulingGates", f"{detail} '{name}'") for name in added]


def _fixed(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The part of a spec that can't change."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if before.get("schedulingGates"):
        # A pod that isn't to be scheduled yet may still be told where.
        free |= {"nodeSelector", "affinity"}
    if (before.get("terminationGracePeriodSeconds") or 0) < 0:
        free.add("terminationGracePeriodSeconds")
    kept = {key: value for key, value in spec.items() if key not in free}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in kept[field] or ()
            ]
    return kept

"""The strategies of pods."""

from __future__ import annotations

from types import MappingProxyType

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity
from dra_shared.version import V1_37, Version

from dra_apiserver.common.gates import drop_disabled, set_gated_defaults
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.errors import FieldError, invalid, json_value
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.pods.defaults import default_protocols
from dra_apiserver.kinds.pods.gates import POD, POD_STATUS
from dra_apiserver.kinds.pods.podresources import default_pod_resources, has_own_quality, keep_pod_resources
from dra_apiserver.kinds.pods.resize import check_resize
from dra_apiserver.kinds.pods.spec import check_new_pod, check_pod
from dra_apiserver.kinds.pods.status import check_status_update
from dra_apiserver.kinds.pods.update import check_ephemeral_update, check_spec_update
from dra_apiserver.schema import same

_CONTAINERS = ("containers", "initContainers")
_RESIZED = ("resources", "resizePolicy")
_CLAIM_FIELDS = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)


# Set the condition here, because the scheduler ignores pods with scheduling gates.
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def qos_class(spec: JsonObject, features: FeatureGates) -> str:
    """Return the pod's quality of service, from its own or its containers' CPU and memory (ComputePodQOS)."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if has_own_quality(spec, features):
        containers = [{"resources": spec["resources"]}]
    any_set = False
    guaranteed = True
    for container in containers:
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
    """The strategy of pods. Only a few fields of the spec may change later."""

    gated_defaults = MappingProxyType({"H2CContainerProbe": default_protocols})

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set the phase Pending and generation 1."""
        obj["metadata"]["generation"] = 1
        spec = obj.get("spec") or {}
        drop_disabled(POD, obj, None, ctx.features)
        set_gated_defaults(self.gated_defaults, obj, None, ctx.features)
        default_pod_resources(spec, ctx.features)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec, ctx.features)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": ctx.now}]

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Prepare like every kind, and drop disabled fields that the old pod did not use."""
        super().prepare_for_update(obj, old, ctx)
        drop_disabled(POD, obj, old, ctx.features)
        keep_pod_resources(obj.get("spec") or {}, old.get("spec") or {}, ctx.features)

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        return super().validate_create(obj, ctx) + check_new_pod(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate the new pod and its changes."""
        errors = super().validate_update(obj, old, ctx) + check_pod(obj)
        return errors + check_spec_update(obj.get("spec") or {}, old.get("spec") or {})


class PodStatusStrategy(GenericStrategy):
    """The strategy of pods' status. Only the status changes, and the metadata that kubelets write."""

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
        if _omitted_claims_stay(ctx.features.version):
            _keep_claims(status, old.get("status") or {})
        drop_disabled(POD_STATUS, obj, old, ctx.features)
        _align_addresses(status)
        _keep_generations(status, old.get("status") or {})

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and status."""
        return super().validate_update(obj, old, ctx) + check_status_update(obj, old, ctx.features.version)


def _omitted_claims_stay(kubernetes: Version) -> bool:
    """True if a status update that omits the claim statuses keeps them, because the client may not know the field."""
    return kubernetes >= V1_37


def _keep_claims(status: JsonObject, before: JsonObject) -> None:
    """Keep the claims unless the new value is empty."""
    for name in _CLAIM_FIELDS:
        if status.get(name) is None:
            status.pop(name, None)
            if before.get(name) is not None:
                status[name] = before[name]
        elif not status[name]:
            del status[name]


def _align_addresses(status: JsonObject) -> None:
    """Set `podIP` and the first of `podIPs` from each other. If they differ, `podIP` wins."""
    first, given = status.get("podIP", ""), status.get("podIPs") or []
    if first and (not given or given[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif given:
        status["podIP"] = given[0].get("ip", "")


def _keep_generations(status: JsonObject, before: JsonObject) -> None:
    """Keep the old observed generation if the status has none (`preserveOldObservedGeneration`)."""
    if not status.get("observedGeneration") and before.get("observedGeneration"):
        status["observedGeneration"] = before["observedGeneration"]
    known: dict[str, list[int]] = {}
    for condition in before.get("conditions") or ():
        known.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        seen = known.get(condition.get("type", ""))
        observed = seen.pop(0) if seen else 0
        if observed and not condition.get("observedGeneration"):
            condition["observedGeneration"] = observed


class PodEphemeralContainersStrategy(GenericStrategy):
    """The strategy of ephemeral containers. They are added to a running pod; nothing else changes."""

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep everything but the ephemeral containers."""
        _keep_but(obj, old, {"ephemeralContainers": (obj.get("spec") or {}).get("ephemeralContainers") or []})

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate the pod, and that existing ephemeral containers are unchanged."""
        errors = super().validate_update(obj, old, ctx) + check_pod(obj)
        return errors + check_ephemeral_update(obj["spec"], old["spec"])


class PodResizeStrategy(GenericStrategy):
    """The strategy of resizes. Only the resources of a pod and its containers change."""

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep everything but resources and resize policies. Other containers are rejected later."""
        spec, before = obj.get("spec") or {}, old["spec"]
        if any(len(spec.get(field) or ()) != len(before.get(field) or ()) for field in _CONTAINERS):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
            return
        changed: JsonObject = {
            field: _apply_resize(before[field], spec[field]) for field in _CONTAINERS if before.get(field)
        }
        resized = {**spec, **changed}
        keep_pod_resources(resized, before, ctx.features, resized=True)
        _keep_but(obj, old, {**changed, "resources": resized.get("resources")})

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate the pod, and that its quality of service is unchanged."""
        errors = super().validate_update(obj, old, ctx) + check_pod(obj)
        spec = obj.get("spec") or {}
        if qos_class(spec, ctx.features) != qos_class(old["spec"], ctx.features):
            text = "Pod QOS Class may not change as a result of resizing"
            shown = json_value((obj.get("status") or {}).get("qosClass", ""))
            errors.append(invalid("spec", shown, text))
        return errors + check_resize({**obj, "spec": spec}, old, ctx.features.version)


def _apply_resize(before: list[JsonObject], wanted: list[JsonObject]) -> list[JsonObject]:
    found = []
    for container, new in zip(before, wanted, strict=True):
        if container.get("name") != new.get("name"):
            return wanted
        kept = {name: value for name, value in container.items() if name not in _RESIZED}
        found.append(kept | {name: new[name] for name in _RESIZED if name in new})
    return found


def _keep_but(obj: JsonObject, old: JsonObject, changed: JsonObject) -> None:
    """Copy all fields of the old object to ``obj``, except the spec fields ``changed``."""
    generation = old["metadata"].get("generation", 0)
    spec = {name: value for name, value in {**old["spec"], **changed}.items() if value is not None}
    if not same("io.k8s.api.core.v1.PodSpec", spec, old["spec"]):
        generation += 1
    obj["metadata"] = {**old["metadata"], "managedFields": obj["metadata"].get("managedFields") or []}
    obj["metadata"]["generation"] = generation
    obj["spec"], obj["status"] = spec, old.get("status") or {}

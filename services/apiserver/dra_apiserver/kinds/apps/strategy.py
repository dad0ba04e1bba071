"""The strategies of kinds with a pod template (``pkg/registry/{apps,batch,core}`` upstream)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label
from dra_shared.numerals import integer
from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.common.gates import GatedFields
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.labelselectors import check_label_selector, format_selector
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, Verbatim, forbidden_field, invalid, missing_field, not_supported
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.apps.rollouts import check_strategy
from dra_apiserver.kinds.pods import gates
from dra_apiserver.kinds.pods.spec import check_template
from dra_apiserver.kinds.pods.volumeclaims import check_claim_spec
from dra_apiserver.schema import same, same_members

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_NEGATIVE = "must be greater than or equal to 0"
_SET_MAY_CHANGE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_SET_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)

_MAX_UNAVAILABLE = GatedFields(
    ("MaxUnavailableStatefulSet",), ("spec.updateStrategy.rollingUpdate.maxUnavailable",)
)


class WorkloadStrategy(GenericStrategy):
    """The strategy of Deployments and similar kinds.

    The selector is immutable and must match the template's labels.
    """

    gated = gates.template("spec.template")

    def __init__(self, word: str = "deployment", fixed_rest: bool = False) -> None:
        if word == "statefulset":
            self.gated = (*self.gated, _MAX_UNAVAILABLE)
            self.gated_defaults = {_MAX_UNAVAILABLE.gates[0]: _default_max_unavailable}
        self._word = word
        self._fixed_rest = fixed_rest

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        return super().validate_create(obj, ctx) + self._validate_spec(obj.get("spec") or {})

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate the new object, and that immutable fields are unchanged."""
        errors = super().validate_update(obj, old, ctx)
        if ctx.subresource == "status":
            return errors
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if self._fixed_rest:
            errors += self._validate_spec(spec, before)
            if not same("io.k8s.api.apps.v1.StatefulSetSpec", _immutable_part(spec), _immutable_part(before)):
                errors.append(forbidden_field("spec", _SET_FIXED))
            return errors
        fixed = []
        if not same_members("io.k8s.api.apps.v1.DeploymentSpec", spec, before, "selector"):
            fixed.append(invalid("spec.selector", format_selector(spec.get("selector")), IMMUTABLE))
        found = self._validate_spec(spec)
        return errors + (fixed + found if self._word == "daemonset" else found + fixed)

    def _validate_spec(self, spec: JsonObject, before: JsonObject | None = None) -> list[FieldError]:
        """Validate a spec.

        For an update of a StatefulSet (``before`` is the old spec), validate only mutable fields.
        """
        errors = [
            invalid(f"spec.{name}", spec[name], _NEGATIVE)
            for name in (
                "replicas",
                "minReadySeconds",
                *(() if self._fixed_rest else ("revisionHistoryLimit",)),
            )
            if isinstance(spec.get(name), int) and spec[name] < 0
        ]
        selector = spec.get("selector")
        if selector is None:
            if self._word != "daemonset":
                errors.append(missing_field("spec.selector"))
        else:
            errors += check_label_selector(selector, "spec.selector")
            if not selector.get("matchLabels") and not selector.get("matchExpressions"):
                errors.append(invalid("spec.selector", {}, f"empty selector is invalid for {self._word}"))
        template = spec.get("template") or {}
        # Upstream adds no detail for the selector of a StatefulSet.
        errors += selector_mismatch(selector, template, "" if self._fixed_rest else "invalid label selector")
        if self._fixed_rest:
            found, template = _with_claims(spec, template)
            if before is None:
                service = spec.get("serviceName") or ""
                errors += [
                    invalid("spec.serviceName", service, text) for text in dns_label(service) if service
                ]
                errors += found
        errors += check_template(template, "spec.template")
        pods = template.get("spec") or {}
        policy = pods.get("restartPolicy", "Always")
        if policy != "Always":
            errors.append(not_supported("spec.template.spec.restartPolicy", policy, ["Always"]))
        if pods.get("activeDeadlineSeconds") is not None:
            owner = "DaemonSet" if self._word == "daemonset" else "ReplicaSet"
            text = f"activeDeadlineSeconds in {owner} is not Supported"
            errors.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", text))
        errors += check_strategy(self._word, spec)
        deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
        if deadline is not None and deadline <= ready:
            text = "must be greater than minReadySeconds"
            errors.append(invalid("spec.progressDeadlineSeconds", deadline, text))
        return errors


class DeploymentStrategy(WorkloadStrategy):
    """The strategy of Deployments.

    Changes of annotations increment the generation, because the controller reads some annotations.
    """

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Increment the generation if only annotations changed."""
        super().prepare_for_update(obj, old, ctx)
        meta, before = obj["metadata"], old["metadata"]
        changed = (meta.get("annotations") or {}) != (before.get("annotations") or {})
        if ctx.subresource != "status" and changed and meta.get("generation") == before.get("generation"):
            meta["generation"] = before.get("generation", 0) + 1


class ReplicationControllerStrategy(GenericStrategy):
    """The strategy of ReplicationControllers, which select by plain labels."""

    gated = gates.template("spec.template")

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        return super().validate_create(obj, ctx) + self._validate_spec(obj.get("spec") or {})

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        errors = super().validate_update(obj, old, ctx)
        return errors if ctx.subresource else errors + self._validate_spec(obj.get("spec") or {})

    def _validate_spec(self, spec: JsonObject) -> list[FieldError]:
        errors = [
            invalid(f"spec.{name}", spec[name], _NEGATIVE)
            for name in ("minReadySeconds", "replicas")
            if isinstance(spec.get(name), int) and spec[name] < 0
        ]
        selector, template = spec.get("selector") or {}, spec.get("template")
        if not selector:
            errors.append(missing_field("spec.selector"))
        if template is None:
            return [*errors, missing_field("spec.template")]
        labels = (template.get("metadata") or {}).get("labels") or {}
        if selector and any(labels.get(key) != value for key, value in selector.items()):
            text = "`selector` does not match template `labels`"
            given = (template.get("metadata") or {}).get("labels")
            shown = Verbatim("null") if given is None else given
            errors.append(invalid("spec.template.metadata.labels", shown, text))
        errors += check_template(template, "spec.template")
        policy = (template.get("spec") or {}).get("restartPolicy", "Always")
        if policy != "Always":
            errors.append(not_supported("spec.template.spec.restartPolicy", policy, ["Always"]))
        return errors


class DaemonSetStrategy(WorkloadStrategy):
    """The strategy of DaemonSets.

    An annotation counts the changes of the template, because apps/v1 has no field for that.
    """

    def __init__(self) -> None:
        super().__init__("daemonset")

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set the template's generation to 1."""
        super().prepare_for_create(obj, ctx)
        _count_template(obj, max(1, _template_generation(obj)))

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Increment the template's generation if the template changed."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource == "status":
            return
        spec, before = obj.get("spec"), old.get("spec")
        changed = not same_members("io.k8s.api.apps.v1.DaemonSetSpec", spec, before, "template")
        _count_template(obj, _template_generation(old) + (1 if changed else 0))


def _template_generation(obj: JsonObject) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
    return integer(text) if text.isascii() and text.isdigit() else 0


def _count_template(obj: JsonObject, generation: int) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(generation)}


def _default_max_unavailable(obj: JsonObject) -> None:
    """Default `maxUnavailable` to 1 if the StatefulSet has a rolling update strategy."""
    strategy = (obj.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("maxUnavailable", 1)


def _immutable_part(spec: JsonObject) -> JsonObject:
    """Return the immutable part of a StatefulSet's spec. The apiVersion and kind of its claim templates are ignored."""
    made = _without(spec, _SET_MAY_CHANGE)
    claims = made.get("volumeClaimTemplates") or ()
    return {**made, "volumeClaimTemplates": [_without(one, ("apiVersion", "kind")) for one in claims]}


def _with_claims(spec: JsonObject, template: JsonObject) -> tuple[list[FieldError], JsonObject]:
    """Return the errors of a StatefulSet's claims, and its template with the volumes of these claims."""
    errors: list[FieldError] = []
    names = []
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        errors += check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
        names.append((claim.get("metadata") or {}).get("name", ""))
    pods = template.get("spec") or {}
    own = [one for one in pods.get("volumes") or () if one.get("name", "") not in names]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return errors, {**template, "spec": {**pods, "volumes": made + own}}


def _without(spec: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {key: value for key, value in spec.items() if key not in names}


def selector_mismatch(
    selector: JsonObject | None, template: JsonObject, text: str = "invalid label selector"
) -> list[FieldError]:
    labels = (template.get("metadata") or {}).get("labels") or {}
    # Upstream treats a missing selector as one that selects nothing.
    matches = False
    if selector is not None:
        try:
            matches = label_selector(selector).matches(labels)
        except SelectorError:
            return [invalid("spec.selector", format_selector(selector), text)]
    if matches:
        return []
    text = "`selector` does not match template `labels`"
    given = (template.get("metadata") or {}).get("labels")
    return [invalid("spec.template.metadata.labels", Verbatim("null") if given is None else labels, text)]

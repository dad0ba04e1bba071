"""The strategies of the kinds that make pods from a template (``pkg/registry/{apps,batch,core}`` upstream)."""

from __future__ import annotations

from typing import Any

from dra_shared.names import dns_label
from dra_shared.numerals import integer
from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.labelselectors import check_label_selector, shown_selector
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, Verbatim, forbidden_field, invalid, not_supported, required
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.apps.rollouts import check_strategy
from dra_apiserver.kinds.pods import gates
from dra_apiserver.kinds.pods.spec import check_template
from dra_apiserver.kinds.pods.volumeclaims import check_claim_spec
from dra_apiserver.schema import same, same_members

JsonObject = dict[str, Any]

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


class WorkloadStrategy(GenericStrategy):
    """Deployments and their like: a selector that never changes and that the template's labels match."""

    gated = gates.template("spec.template")

    def __init__(self, word: str = "deployment", fixed_rest: bool = False) -> None:
        self._word = word
        self._fixed_rest = fixed_rest

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata and spec."""
        return super().validate_create(obj, ctx) + self._validate_spec(obj.get("spec") or {})

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The new object's errors, and what may not have changed."""
        errors = super().validate_update(obj, old, ctx)
        if ctx.subresource == "status":
            return errors
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if self._fixed_rest:
            errors += self._validate_spec(spec, before)
            if not same("io.k8s.api.apps.v1.StatefulSetSpec", _fixed(spec), _fixed(before)):
                errors.append(forbidden_field("spec", _SET_FIXED))
            return errors
        fixed = []
        if not same_members("io.k8s.api.apps.v1.DeploymentSpec", spec, before, "selector"):
            fixed.append(invalid("spec.selector", shown_selector(spec.get("selector")), IMMUTABLE))
        found = self._validate_spec(spec)
        return errors + (fixed + found if self._word == "daemonset" else found + fixed)

    def _validate_spec(self, spec: JsonObject, before: JsonObject | None = None) -> list[FieldError]:
        """The errors of a spec; of a set's, which was ``before``, only in what may change."""
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
                errors.append(required("spec.selector"))
        else:
            errors += check_label_selector(selector, "spec.selector")
            if not selector.get("matchLabels") and not selector.get("matchExpressions"):
                errors.append(invalid("spec.selector", {}, f"empty selector is invalid for {self._word}"))
        template = spec.get("template") or {}
        # Upstream says nothing more to a set's selector.
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
    """Counts changes of its annotations too, as some of them matter to its controller."""

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """One more generation where only annotations changed."""
        super().prepare_for_update(obj, old, ctx)
        meta, before = obj["metadata"], old["metadata"]
        changed = (meta.get("annotations") or {}) != (before.get("annotations") or {})
        if ctx.subresource != "status" and changed and meta.get("generation") == before.get("generation"):
            meta["generation"] = before.get("generation", 0) + 1


class ReplicationControllerStrategy(GenericStrategy):
    """Selects by plain labels."""

    gated = gates.template("spec.template")

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata and spec."""
        return super().validate_create(obj, ctx) + self._validate_spec(obj.get("spec") or {})

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata and spec."""
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
            errors.append(required("spec.selector"))
        if template is None:
            return [*errors, required("spec.template")]
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
    """Counts the changes of its template in an annotation, as the field for it is long gone from the API."""

    def __init__(self) -> None:
        super().__init__("daemonset")

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """The first template."""
        super().prepare_for_create(obj, ctx)
        _count_template(obj, max(1, _template_generation(obj)))

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """One more where the template changed."""
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


def _fixed(spec: JsonObject) -> JsonObject:
    """What never changes of a StatefulSet; that its claims are claims goes without saying."""
    made = _without(spec, _SET_MAY_CHANGE)
    claims = made.get("volumeClaimTemplates") or ()
    return {**made, "volumeClaimTemplates": [_without(one, ("apiVersion", "kind")) for one in claims]}


def _with_claims(spec: JsonObject, template: JsonObject) -> tuple[list[FieldError], JsonObject]:
    """The errors of a StatefulSet's claims, and its template with the volumes that its pods get from them."""
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
    # Upstream takes a missing selector for one that selects nothing.
    matches = False
    if selector is not None:
        try:
            matches = label_selector(selector).matches(labels)
        except SelectorError:
            return [invalid("spec.selector", shown_selector(selector), text)]
    if matches:
        return []
    text = "`selector` does not match template `labels`"
    given = (template.get("metadata") or {}).get("labels")
    return [invalid("spec.template.metadata.labels", Verbatim("null") if given is None else labels, text)]

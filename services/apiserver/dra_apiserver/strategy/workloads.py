"""The strategies of the kinds that make pods from a template (``pkg/registry/{apps,batch,core}`` upstream)."""

from __future__ import annotations

from typing import Any

from dra_shared.names import dns_label
from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.errors import FieldError, Verbatim, forbidden_field, invalid, not_supported, required
from dra_apiserver.strategy import Context
from dra_apiserver.strategy.generic import GenericStrategy
from dra_apiserver.validation.cronjob import check_cron_job
from dra_apiserver.validation.gojson import show
from dra_apiserver.validation.jobpolicies import JOB_POLICIES
from dra_apiserver.validation.jobspec import check_job_spec
from dra_apiserver.validation.labelselectors import check_label_selector, shown_selector
from dra_apiserver.validation.podspec import check_template
from dra_apiserver.validation.podupdate import same
from dra_apiserver.validation.rollouts import check_strategy
from dra_apiserver.validation.storage import check_claim_spec

JsonObject = dict[str, Any]

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_NEGATIVE = "must be greater than or equal to 0"
_IMMUTABLE = "field is immutable"
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
# Room for the time that a job's name ends in.
_CRON_JOB_NAME_LENGTH = 52
_JOB_FIXED = (
    "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy",
)  # fmt: skip
# What of a job's template may change while the job is suspended and has not started.
_DIRECTIVES = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


class WorkloadStrategy(GenericStrategy):
    """Deployments and their like: a selector that never changes and that the template's labels match."""

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
            if _fixed(spec) != _fixed(before):
                errors.append(forbidden_field("spec", _SET_FIXED))
            return errors
        fixed = []
        if spec.get("selector") != before.get("selector"):
            fixed.append(invalid("spec.selector", shown_selector(spec.get("selector")), _IMMUTABLE))
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
        errors += _mismatch(selector, template, "" if self._fixed_rest else "invalid label selector")
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
        changed = (obj.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template")
        _count_template(obj, _template_generation(old) + (1 if changed else 0))


def _template_generation(obj: JsonObject) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


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


class CronJobStrategy(GenericStrategy):
    """Jobs at certain times."""

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata and spec; the jobs' names must fit as well."""
        errors = super().validate_create(obj, ctx) + check_cron_job(obj.get("spec") or {})
        name = (obj.get("metadata") or {}).get("name", "")
        if len(name) > _CRON_JOB_NAME_LENGTH:
            text = f"must be no more than {_CRON_JOB_NAME_LENGTH} characters"
            errors.append(invalid("metadata.name", name, text))
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata and spec."""
        errors = super().validate_update(obj, old, ctx)
        return errors if ctx.subresource == "status" else errors + check_cron_job(obj.get("spec") or {})


class JobStrategy(GenericStrategy):
    """A job selects its pods by its own uid, unless it says that it selects by hand."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Generation 1, no status, and the selector and labels made from uid and name."""
        super().prepare_for_create(obj, ctx)
        spec = obj.setdefault("spec", {})
        if not spec.get("manualSelector"):
            _generate_selector(spec, obj["metadata"])

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata and spec."""
        return super().validate_create(obj, ctx) + self._validate_spec(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The new job's errors, and what may not have changed."""
        errors = super().validate_update(obj, old, ctx)
        if ctx.subresource == "status":
            return errors
        spec, before = obj.get("spec") or {}, dict(old.get("spec") or {})
        # Upstream judges the new job, and then the spec once more as that of a changed one.
        errors += self._validate_spec(obj) + self._validate_rest(spec)
        if spec.get("completions") != before.get("completions") and not _is_elastic(spec):
            tandem = "can only be modified in tandem with spec.parallelism"
            if spec.get("completionMode") != "Indexed":
                shown = Verbatim("null") if spec.get("completions") is None else spec["completions"]
                errors.append(invalid("spec.completions", shown, _IMMUTABLE))
            elif spec.get("completions") is not None:
                errors.append(invalid("spec.completions", spec["completions"], tandem))
        redirected = _may_change_template(old)
        if redirected:
            before["template"] = _redirected(before.get("template") or {}, spec.get("template") or {})
        for name in _JOB_FIXED:
            if spec.get(name) == before.get(name):
                continue
            if name == "template" and redirected:
                if same(spec.get(name), before.get(name)):
                    continue
                shown = (spec.get("template") or {}).get("spec")
                errors.append(invalid("spec.template.spec", shown, _IMMUTABLE))
            else:
                errors.append(invalid(f"spec.{name}", _shown_member(spec, name), _IMMUTABLE))
        return errors

    def _validate_spec(self, job: JsonObject) -> list[FieldError]:
        spec = job.get("spec") or {}
        errors = _generated_labels(job) + self._validate_rest(spec)
        name, completions = job["metadata"].get("name", ""), spec.get("completions") or 0
        host = f"{name}-{completions - 1}"
        if spec.get("completionMode") == "Indexed" and completions > 0 and dns_label(host):
            text = f"will not able to create pod with invalid DNS label: {host}"
            errors.append(invalid("metadata.name", name, text))
        return errors

    def _validate_rest(self, spec: JsonObject) -> list[FieldError]:
        errors = check_job_spec(spec, "spec")
        selector = spec.get("selector")
        if selector is None:
            errors.append(required("spec.selector"))
        else:
            errors += check_label_selector(selector, "spec.selector")
        return errors + _mismatch(selector, spec.get("template") or {})


def _shown_member(spec: JsonObject, name: str) -> Any:
    if name == "selector":
        return shown_selector(spec.get(name))
    if spec.get(name) is None:
        return Verbatim("null")
    return show(spec[name], JOB_POLICIES[name]) if name in JOB_POLICIES else spec[name]


def _generate_selector(spec: JsonObject, meta: JsonObject) -> None:
    template = spec.setdefault("template", {})
    template_meta = template.setdefault("metadata", {})
    given = template_meta.get("labels")
    labels = dict(given or {})
    name, uid = meta.get("name", ""), meta["uid"]
    for key, value in (
        ("job-name", name),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("batch.kubernetes.io/controller-uid", uid),
    ):
        labels.setdefault(key, value)
    template_meta["labels"] = labels
    if not meta.get("labels") or meta["labels"] is given:
        # Upstream's default, which finds the labels when the stored job is read, or has the two be one and the same.
        meta["labels"] = dict(labels)
    selector = spec["selector"] = dict(spec.get("selector") or {})
    selector["matchLabels"] = {
        "batch.kubernetes.io/controller-uid": uid,
        **(selector.get("matchLabels") or {}),
    }


def _mismatch(
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


def _without(spec: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {key: value for key, value in spec.items() if key not in names}


def _is_elastic(spec: JsonObject) -> bool:
    """An indexed job may grow and shrink, with as many pods at a time as it has indexes."""
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")


def _may_change_template(job: JsonObject) -> bool:
    """Whether the job is suspended and none of its pods is there (`shouldAllowMutablePodTemplate`)."""
    status = job.get("status") or {}
    suspended = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    waits = bool((job.get("spec") or {}).get("suspend")) and not status.get("active")
    return waits and (suspended or not status.get("startTime"))


def _take_resources(spec: JsonObject, wanted: JsonObject) -> None:
    """Give the containers of ``spec`` the resources of those in ``wanted``, where they are the same containers."""
    for field in ("containers", "initContainers"):
        old, new = spec.get(field) or [], wanted.get(field) or []
        if len(old) == len(new) and old:
            spec[field] = [
                {**container, "resources": other.get("resources")}
                if container.get("name") == other.get("name")
                else container
                for container, other in zip(old, new, strict=True)
            ]


def _generated_labels(job: JsonObject) -> list[FieldError]:
    """The labels that name a job on its pods, unless it selects by hand."""
    spec, meta = job.get("spec") or {}, job["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    errors = []
    for key, value in (
        ("controller-uid", meta.get("uid", "")),
        ("job-name", meta.get("name", "")),
        ("batch.kubernetes.io/controller-uid", meta.get("uid", "")),
        ("batch.kubernetes.io/job-name", meta.get("name", "")),
    ):
        path, text = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in labels:
            errors.append(required(path, text))
        elif labels[key] != value:
            errors.append(invalid(path, dict(sorted(labels.items())), text))
    return errors


def _redirected(template: JsonObject, wanted: JsonObject) -> JsonObject:
    """``template`` with the scheduling directives, resources, labels and annotations of ``wanted``."""
    meta = {**(template.get("metadata") or {})}
    spec = {**(template.get("spec") or {})}
    _take_resources(spec, wanted.get("spec") or {})
    for target, source, names in (
        (meta, wanted.get("metadata") or {}, ("labels", "annotations")),
        (spec, wanted.get("spec") or {}, _DIRECTIVES),
    ):
        for name in names:
            target.pop(name, None)
            if name in source:
                target[name] = source[name]
    wanted_meta = {
        **(wanted.get("metadata") or {}),
        **{name: meta.get(name) for name in ("labels", "annotations")},
    }
    return {**template, "metadata": wanted_meta, "spec": spec}

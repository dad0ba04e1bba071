"""The strategies of jobs and cron jobs (upstream's `pkg/registry/batch`)."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label

from dra_apiserver.common.gates import GatedFields
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.goshapes import show
from dra_apiserver.common.labelselectors import check_label_selector, format_selector
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, Verbatim, invalid, missing_field
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.apps.strategy import selector_mismatch
from dra_apiserver.kinds.batch.cronjob import check_cron_job
from dra_apiserver.kinds.batch.jobpolicies import JOB_POLICIES
from dra_apiserver.kinds.batch.jobspec import check_job_spec
from dra_apiserver.kinds.batch.scheduling import check_scheduling_update, with_declared
from dra_apiserver.kinds.pods import gates
from dra_apiserver.schema import same_members

_SCHEDULING = GatedFields(("WorkloadWithJob",), ("spec.scheduling",))
# The limit of a CronJob's name, so that 11 characters are left for the suffix of its jobs' names.
_CRON_JOB_NAME_LENGTH = 52
_JOB_FIXED = (
    "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy",
)  # fmt: skip
# Fields of a job's template that may change while the job is suspended and has not started.
_DIRECTIVES = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


class CronJobStrategy(GenericStrategy):
    """The strategy of CronJobs."""

    gated = (*gates.template("spec.jobTemplate.spec.template"), _SCHEDULING.below("spec.jobTemplate"))

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec. The name must leave room for the suffix of its Jobs' names."""
        errors = super().validate_create(obj, ctx) + check_cron_job(obj.get("spec") or {})
        name = (obj.get("metadata") or {}).get("name", "")
        if len(name) > _CRON_JOB_NAME_LENGTH:
            text = f"must be no more than {_CRON_JOB_NAME_LENGTH} characters"
            errors.append(invalid("metadata.name", name, text))
        return with_declared(errors, obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        errors = super().validate_update(obj, old, ctx)
        if ctx.subresource == "status":
            return errors
        errors += check_cron_job(obj.get("spec") or {})
        return with_declared(errors, obj, old, ctx)


class JobStrategy(GenericStrategy):
    """The strategy of Jobs. A job selects its pods by its own uid, unless it has a manual selector."""

    gated = (*gates.template("spec.template"), _SCHEDULING)

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set generation 1, clear the status, and set the selector and labels from uid and name."""
        super().prepare_for_create(obj, ctx)
        spec = obj.setdefault("spec", {})
        if not spec.get("manualSelector"):
            _generate_selector(spec, obj["metadata"])

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        return with_declared(super().validate_create(obj, ctx) + self._validate_spec(obj), obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate the new job, and that immutable fields are unchanged."""
        errors = super().validate_update(obj, old, ctx)
        if ctx.subresource == "status":
            return errors
        spec, before = obj.get("spec") or {}, dict(old.get("spec") or {})
        # Upstream validates the new job, and then the spec again for an update.
        errors += self._validate_spec(obj) + self._validate_rest(spec)
        if spec.get("completions") != before.get("completions") and not _is_elastic(spec):
            tandem = "can only be modified in tandem with spec.parallelism"
            if spec.get("completionMode") != "Indexed":
                shown = Verbatim("null") if spec.get("completions") is None else spec["completions"]
                errors.append(invalid("spec.completions", shown, IMMUTABLE))
            elif spec.get("completions") is not None:
                errors.append(invalid("spec.completions", spec["completions"], tandem))
        redirected = _may_change_template(old)
        if redirected:
            before["template"] = _apply_directives(before.get("template") or {}, spec.get("template") or {})
        for name in _JOB_FIXED:
            if same_members("io.k8s.api.batch.v1.JobSpec", spec, before, name):
                continue
            if name == "template" and redirected:
                shown = (spec.get("template") or {}).get("spec")
                errors.append(invalid("spec.template.spec", shown, IMMUTABLE))
            else:
                errors.append(invalid(f"spec.{name}", _shown_member(spec, name), IMMUTABLE))
        errors += check_scheduling_update(spec, before, "spec.scheduling")
        return with_declared(errors, obj, old, ctx)

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
            errors.append(missing_field("spec.selector"))
        else:
            errors += check_label_selector(selector, "spec.selector")
        return errors + selector_mismatch(selector, spec.get("template") or {})


def _shown_member(spec: JsonObject, name: str) -> Any:
    if name == "selector":
        return format_selector(spec.get(name))
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
        # Upstream's default copies the template's labels when the stored job is read, or uses the same map for
        # both.
        meta["labels"] = dict(labels)
    selector = spec["selector"] = dict(spec.get("selector") or {})
    selector["matchLabels"] = {
        "batch.kubernetes.io/controller-uid": uid,
        **(selector.get("matchLabels") or {}),
    }


def _is_elastic(spec: JsonObject) -> bool:
    """True for an indexed job with equal completions and parallelism, which may be scaled."""
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")


def _may_change_template(job: JsonObject) -> bool:
    """True if the job is suspended and has no active pods (`shouldAllowMutablePodTemplate`)."""
    status = job.get("status") or {}
    suspended = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    waits = bool((job.get("spec") or {}).get("suspend")) and not status.get("active")
    return waits and (suspended or not status.get("startTime"))


def _take_resources(spec: JsonObject, wanted: JsonObject) -> None:
    """Copy the resources of the containers in ``wanted`` to the containers of ``spec`` if their names match."""
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
    """Validate the labels that name a job on its pods, unless it has a manual selector."""
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
            errors.append(missing_field(path, text))
        elif labels[key] != value:
            errors.append(invalid(path, dict(sorted(labels.items())), text))
    return errors


def _apply_directives(template: JsonObject, wanted: JsonObject) -> JsonObject:
    """Return ``template`` with the scheduling directives, resources, labels and annotations of ``wanted``."""
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

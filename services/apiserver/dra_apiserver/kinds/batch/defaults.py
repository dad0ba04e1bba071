"""Defaults of batch/v1, as ``pkg/apis/batch/v1/defaults.go`` sets them."""

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kinds.pods.defaults import pod_template

_MAX_INT32 = (1 << 31) - 1


def job(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32)
    template = spec.setdefault("template", {})
    labels = (template.get("metadata") or {}).get("labels")
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        # Use the same dict and not a copy, because labels that the strategy adds to a new job must appear in
        # both.
        metadata["labels"] = labels
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    policy = spec.get("podFailurePolicy")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    pod_template(template)


def cron_job(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    pod_template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {}))

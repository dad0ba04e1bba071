"""Validate the spec of jobs, and of the job template of CronJobs (`validateJobSpec`)."""

from __future__ import annotations

import re

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain, regex_message

from dra_apiserver.common.counts import check_counts
from dra_apiserver.common.goshapes import show
from dra_apiserver.errors import FieldError, invalid, json_value, missing_field, not_supported, too_long
from dra_apiserver.kinds.batch.jobpolicies import JOB_POLICIES, check_pod_failure_policy, check_success_policy
from dra_apiserver.kinds.batch.scheduling import check_scheduling
from dra_apiserver.kinds.pods.spec import check_template

_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_RESTARTS = ("OnFailure", "Never")
_MANAGER_LENGTH = 63
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_MOST = 100_000
# The limit of parallelism and of failed indexes with more than `_MOST` completions and limits for each index.
_MOST_OF_MANY = 10_000


def check_job_spec(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate a job's spec, except for its selector."""
    errors = check_counts(spec, _COUNTS, path)
    per_index, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if failed is not None and per_index is None:
        errors.append(missing_field(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        errors += _check_manager(spec["managedBy"], f"{path}.managedBy")
    mode = spec.get("completionMode") or "NonIndexed"
    if mode not in _MODES:
        errors.append(not_supported(f"{path}.completionMode", mode, _MODES))
    if mode == "Indexed":
        errors += _check_indexed(spec, path)
    if mode == "NonIndexed":
        text = "requires indexed completion mode"
        errors += [
            invalid(f"{path}.{name}", spec[name], text)
            for name in ("backoffLimitPerIndex", "maxFailedIndexes")
            if spec.get(name) is not None
        ]
    if spec.get("podFailurePolicy") is not None:
        errors += check_pod_failure_policy(spec, f"{path}.podFailurePolicy")
    policy = spec.get("successPolicy")
    if policy is not None and mode != "Indexed":
        shown = show(policy, JOB_POLICIES["successPolicy"])
        errors.append(invalid(f"{path}.successPolicy", shown, "requires indexed completion mode"))
    elif policy is not None:
        errors += check_success_policy(spec, f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    known = _REPLACEMENTS[:1] if spec.get("podFailurePolicy") is not None else _REPLACEMENTS
    if replacement is not None and replacement not in known:
        errors.append(not_supported(f"{path}.podReplacementPolicy", replacement, known))
    errors += check_scheduling(spec, f"{path}.scheduling")
    errors += check_template(spec.get("template") or {}, f"{path}.template")
    return errors + _check_restarts(spec, f"{path}.template.spec.restartPolicy")


def _check_manager(name: str, path: str) -> list[FieldError]:
    """Validate the name of an external controller: a domain and a path."""
    domain, _, rest = name.partition("/")
    errors: list[FieldError] = []
    if not name:
        errors.append(missing_field(path))
    elif not domain or not rest:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        errors.append(invalid(path, name, text))
    else:
        errors += [invalid(path, domain, text) for text in dns_subdomain(domain)]
        if not re.fullmatch(_PATH, rest):
            errors.append(invalid(path, rest, regex_message("Invalid path", _PATH)))
    if len(name.encode()) > _MANAGER_LENGTH:
        errors.append(too_long(path, _MANAGER_LENGTH))
    return errors


def _check_indexed(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate a job whose pods have an index each."""
    errors: list[FieldError] = []
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        errors.append(missing_field(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MOST:
        text = f"must be less than or equal to {_MOST} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, text))
    if completions is not None and failed is not None and failed > completions:
        text = "must be less than or equal to completions"
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, text))
    if failed is not None and failed > _MOST:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST}"))
    if completions is None or completions <= _MOST or spec.get("backoffLimitPerIndex") is None:
        return errors
    if failed is None:
        text = f"must be specified when completions is above {_MOST}"
        errors.append(missing_field(f"{path}.maxFailedIndexes", text))
    text = (
        f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MOST} and used with backoff "
        "limit per index"
    )
    return errors + [
        invalid(f"{path}.{name}", spec[name], text)
        for name in ("parallelism", "maxFailedIndexes")
        if (spec.get(name) or 0) > _MOST_OF_MANY
    ]


def _check_restarts(spec: JsonObject, path: str) -> list[FieldError]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "Always")
    if policy in ("Always", ""):
        return [missing_field(path, 'valid values: "OnFailure", "Never"')]
    if policy not in _RESTARTS:
        return [not_supported(path, policy, _RESTARTS)]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(path, json_value(policy), text)]
    return []

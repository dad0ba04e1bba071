"""Validate the policies by which a job fails or succeeds before all of its pods have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.common.goshapes import Shape
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.errors import (
    OMIT_VALUE,
    FieldError,
    Verbatim,
    duplicate,
    invalid,
    json_value,
    missing_field,
    not_supported,
    quote,
    too_long,
    too_many,
)
from dra_apiserver.kinds.batch.jobstatus import check_interval_list

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MOST_RULES, _MOST_CODES, _MOST_CONDITIONS = 20, 255, 20
_LONGEST_INDEXES = 64 * 1024
_EXIT_CODES: Shape = [
    ("ContainerName", "containerName", None, "null"),
    ("Operator", "operator", None, ""),
    ("Values", "values", None, "null"),
]
_CONDITION: Shape = [("Type", "type", None, ""), ("Status", "status", None, "")]
_FAILURE_RULE: Shape = [
    ("Action", "action", None, ""),
    ("OnExitCodes", "onExitCodes", _EXIT_CODES, "null"),
    ("OnPodConditions", "onPodConditions", [_CONDITION], "null"),
]
_SUCCESS_RULE: Shape = [
    ("SucceededIndexes", "succeededIndexes", None, "null"),
    ("SucceededCount", "succeededCount", None, "null"),
]
JOB_POLICIES: dict[str, Shape] = {
    "podFailurePolicy": [("Rules", "rules", [_FAILURE_RULE], "null")],
    "successPolicy": [("Rules", "rules", [_SUCCESS_RULE], "null")],
}
"""The structure of a job's policies in messages."""


def _check_choice(value: str, known: Sequence[str], path: str) -> list[FieldError]:
    if not value:
        return [missing_field(path, f"valid values: [{' '.join(quote(one) for one in known)}]")]
    return [] if value in known else [not_supported(path, value, known)]


def check_pod_failure_policy(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the job's policy for failed pods."""
    pods = (spec.get("template") or {}).get("spec") or {}
    containers = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in pods.get(field) or ()
    }
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    errors: list[FieldError] = []
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        at, action = f"{path}.rules[{index}]", rule.get("action", "")
        if action != "FailIndex":
            errors += _check_choice(action, _ACTIONS, f"{at}.action")
        elif spec.get("backoffLimitPerIndex") is None:
            text = "requires the backoffLimitPerIndex to be set"
            errors.append(invalid(f"{at}.action", json_value(action), text))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if codes is not None:
            errors += _check_exit_codes(codes, containers, f"{at}.onExitCodes")
        errors += _check_conditions(conditions, f"{at}.onPodConditions")
        if codes is not None and conditions:
            text = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.append(invalid(at, OMIT_VALUE, text))
        if codes is None and not conditions:
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.append(invalid(at, OMIT_VALUE, text))
    return errors


def _check_exit_codes(codes: JsonObject, containers: set[Any], path: str) -> list[FieldError]:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    errors = _check_choice(operator, _OPERATORS, f"{path}.operator")
    name = codes.get("containerName")
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", name, text))
    if not values:
        shown = Verbatim("null") if codes.get("values") is None else values
        errors.append(invalid(f"{path}.values", shown, "at least one value is required"))
    elif len(values) > _MOST_CODES:
        errors.append(too_many(f"{path}.values", len(values), _MOST_CODES))
    again = find_repeated(values)
    for index, value in enumerate(values):
        at = f"{path}.values[{index}]"
        if operator == "In" and value == 0:
            errors.append(invalid(at, 0, "must not be 0 for the In operator"))
        if index in again:
            errors.append(duplicate(at, value))
    if values != sorted(values):
        errors.append(invalid(f"{path}.values", values, "must be ordered"))
    return errors


def _check_conditions(conditions: Sequence[JsonObject], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MOST_CONDITIONS))
    for index, pattern in enumerate(conditions):
        errors += names.label_name(pattern.get("type", ""), f"{path}[{index}].type")
        errors += _check_choice(pattern.get("status", ""), _STATUSES, f"{path}[{index}].status")
    return errors


def check_success_policy(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the indexes, or the number of indexes, with which an indexed job succeeds."""
    rules = (spec.get("successPolicy") or {}).get("rules") or ()
    # Without completions, upstream has an error already, and then panics.
    completions = spec.get("completions") or 0
    errors: list[FieldError] = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(missing_field(f"{path}.rules", text))
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        errors += _check_success_rule(rule, completions, f"{path}.rules[{index}]")
    return errors


def _check_success_rule(rule: JsonObject, completions: int, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(missing_field(path, text))
    total, at = 0, f"{path}.succeededIndexes"
    if indexes is not None:
        if len(indexes.encode()) > _LONGEST_INDEXES:
            errors.append(too_long(at, _LONGEST_INDEXES))
        total, problem = check_interval_list(indexes, completions)
        if problem:
            errors.append(invalid(at, indexes, f"error parsing succeededIndexes: {problem}"))
    if count is None:
        return errors
    at = f"{path}.succeededCount"
    if count < 0:
        errors.append(invalid(at, count, "must be greater than or equal to 0"))
    limits = [(completions, "completions")]
    if indexes is not None:
        limits.append((total, "indexes in the specified succeededIndexes field"))
    for limit, what in limits:
        if count > limit:
            of = f"the number of specified {what}" if what == "completions" else f"the number of {what}"
            errors.append(invalid(at, count, f"must be less than or equal to {limit} ({of})"))
    return errors

"""Validate the common parts of policies and webhooks: rules, selectors, conditions."""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.cel import types as t
from dra_shared.jsontypes import JsonObject
from dra_shared.names import path_segment_name

from dra_apiserver.common import names
from dra_apiserver.common.labelselectors import check_label_selector
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.errors import (
    FieldError,
    duplicate,
    internal_field,
    invalid,
    missing_field,
    not_supported,
    too_many,
)
from dra_apiserver.kinds.admissionregistration.dynamic.environment import Environment, Expression

Errors = list[FieldError]

FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MOST_CONDITIONS = 64


def among(value: str | None, allowed: Sequence[str], path: str) -> Errors:
    return [] if value is None or value in allowed else [not_supported(path, value, allowed)]


def _only_wildcard(values: Sequence[str], path: str, others: str) -> Errors:
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {others}")]
    return []


def check_rule(rule: JsonObject, path: str) -> Errors:
    operations, groups = rule.get("operations") or [], rule.get("apiGroups") or []
    versions, errors = rule.get("apiVersions") or [], []
    errors = [] if operations else [missing_field(f"{path}.operations")]
    errors += _only_wildcard(operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        errors += among(operation, _OPERATIONS, f"{path}.operations[{index}]")
    errors += [] if groups else [missing_field(f"{path}.apiGroups")]
    errors += _only_wildcard(groups, f"{path}.apiGroups", "API groups")
    errors += [] if versions else [missing_field(f"{path}.apiVersions")]
    errors += _only_wildcard(versions, f"{path}.apiVersions", "API versions")
    errors += [missing_field(f"{path}.apiVersions[{index}]") for index, one in enumerate(versions) if not one]
    errors += _check_resources(rule.get("resources") or [], f"{path}.resources")
    return errors + among(rule.get("scope"), _SCOPES, f"{path}.scope")


def _check_resources(resources: list[str], path: str) -> Errors:
    errors: Errors = [] if resources else [missing_field(path)]
    whole: set[str] = set()
    parts: set[str] = set()
    plain = False
    for index, one in enumerate(resources):
        at = f"{path}[{index}]"
        if not one:
            errors.append(missing_field(at))
            continue
        resource, slash, part = one.partition("/")
        if not slash:
            plain = one != "*"
            continue
        if resource in whole:
            errors.append(invalid(at, one, f"if '{resource}/*' is present, must not specify {one}"))
        if part in parts:
            errors.append(invalid(at, one, f"if '*/{part}' is present, must not specify {one}"))
        if part == "*":
            whole.add(resource)
        if resource == "*":
            parts.add(part)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def check_match(match: JsonObject | None, path: str) -> Errors:
    if match is None:
        return []
    errors = among(match.get("matchPolicy"), MATCH_POLICIES, f"{path}.matchPolicy")
    for field in ("namespaceSelector", "objectSelector"):
        errors += check_label_selector(match.get(field), f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            at = f"{path}.{field}[{index}]"
            errors += _check_names(rule.get("resourceNames") or (), f"{at}.resourceNames")
            errors += check_rule(rule, at)
    return errors


def _check_names(given: Sequence[str], path: str) -> Errors:
    errors: Errors = []
    again = find_repeated(given)
    for index, name in enumerate(given):
        errors += [invalid(f"{path}[{index}]", name, text) for text in path_segment_name(name, False)]
        if index in again:
            errors.append(duplicate(f"{path}[{index}]", name))
    return errors


def expression_errors(expression: Expression, path: str) -> Errors:
    if not expression.problem:
        return []
    if expression.internal:
        return [internal_field(path, expression.problem)]
    return [invalid(path, expression.text, expression.problem)]


def check_conditions(conditions: Sequence[JsonObject], path: str, params: bool) -> Errors:
    errors: Errors = []
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MOST_CONDITIONS))
    # New match conditions must not use variables, although variables work in conditions of stored policies.
    environment = Environment(params=params, composed=False)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, name = f"{path}[{index}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if expression:
            errors += expression_errors(environment.compile(expression, (t.BOOL,)), f"{at}.expression")
        else:
            errors.append(missing_field(f"{at}.expression"))
        errors += names.label_name(name, f"{at}.name") if name else [missing_field(f"{at}.name")]
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen |= {name} - {""}
    return errors

"""Validate admission policies and their bindings (pkg/apis/admissionregistration/validation)."""

from __future__ import annotations

import re
from collections.abc import Callable

from dra_shared.cel import types as t
from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_1035_label, dns_subdomain, path_segment_name

from dra_apiserver.common import names
from dra_apiserver.common.labelselectors import check_label_selector
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.errors import duplicate, forbidden_field, invalid, missing_field, not_supported
from dra_apiserver.kinds.admissionregistration.dynamic.environment import OBJECT, PATCHES, Environment
from dra_apiserver.kinds.admissionregistration.rules import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    Errors,
    among,
    check_conditions,
    check_match,
    expression_errors,
)
from dra_apiserver.schema import same_members

# The compared members have the same types in mutating policies.
_POLICY_SPEC = "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec"

_MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_MOST_ANNOTATIONS = 20
_LONGEST_ANNOTATION = 5 * 1024
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*").fullmatch
_RESERVED = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip


def _mutable_only(match: JsonObject | None, path: str) -> Errors:
    """Check that the operations do not include DELETE, which cannot be mutated."""
    every = [one for rule in (match or {}).get("resourceRules") or () for one in rule.get("operations") or ()]
    return [
        not_supported(f"{path}.resourceRules.operations", one, _MUTABLE)
        for one in every
        if one not in _MUTABLE
    ]


def _check_param_kind(kind: JsonObject, path: str) -> Errors:
    errors: Errors = []
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    group, _, plain = version.rpartition("/")
    at = f"{path}.apiVersion"
    if not version:
        errors.append(missing_field(at))
    elif "/" in group:
        errors.append(invalid(at, version, f"unexpected GroupVersion string: {version}"))
    else:
        if group and (problems := dns_subdomain(group)):
            errors.append(invalid(at, group, ",".join(problems)))
        if not plain:
            errors.append(invalid(at, version, "version must be specified"))
        elif problems := dns_1035_label(plain):
            errors.append(invalid(at, plain, ",".join(problems)))
    if not name:
        errors.append(missing_field(f"{path}.kind"))
    elif problems := dns_1035_label(name.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(problems)
        errors.append(invalid(f"{path}.kind", name, text))
    return errors


def _check_policy(
    spec: JsonObject, old: JsonObject | None, rest: Callable[[JsonObject, Environment], Errors]
) -> Errors:
    """Validate the common parts of both kinds of policies. `rest` validates their actions."""
    errors = among(spec.get("failurePolicy"), FAILURE_POLICIES, "spec.failurePolicy")
    params = spec.get("paramKind")
    if params is not None:
        errors += _check_param_kind(params, "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        errors.append(missing_field("spec.matchConstraints"))
    else:
        errors += check_match(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            errors.append(missing_field("spec.matchConstraints.resourceRules"))
        if "mutations" in spec or "reinvocationPolicy" in spec:
            errors += _mutable_only(match, "spec.matchConstraints")
    if old is None or not same_members(_POLICY_SPEC, spec, old["spec"], "paramKind", "matchConditions"):
        errors += check_conditions(
            spec.get("matchConditions") or (), "spec.matchConditions", params is not None
        )
    variables = spec.get("variables") or ()
    environment = Environment(params=params is not None, composed=bool(variables) or "mutations" in spec)
    for index, variable in enumerate(variables):
        errors += _check_variable(variable, environment, f"spec.variables[{index}]")
    return errors + rest(spec, environment)


def _check_variable(variable: JsonObject, environment: Environment, path: str) -> Errors:
    name, expression = variable.get("name") or "", variable.get("expression") or ""
    errors: Errors = []
    if not name.strip():
        errors.append(missing_field(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER(name) or name in _RESERVED:
        errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not expression.strip():
        return [*errors, missing_field(f"{path}.expression", "expression is not specified")]
    return errors + expression_errors(environment.add_variable(name, expression), f"{path}.expression")


def check_validating_policy(obj: JsonObject, old: JsonObject | None) -> Errors:
    """Validate a ValidatingAdmissionPolicy, and compile its expressions."""
    name = obj["metadata"].get("name") or ""

    def rest(spec: JsonObject, environment: Environment) -> Errors:
        validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
        if not validations and not annotations:
            text = "validations or auditAnnotations must contain at least one item"
            return [missing_field("spec.validations", text), missing_field("spec.auditAnnotations", text)]
        errors: Errors = []
        for index, one in enumerate(validations):
            errors += _check_validation(one, environment, f"spec.validations[{index}]")
        if len(annotations) > _MOST_ANNOTATIONS:
            text = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
            # Go prints this struct with the names of its Go fields, because they have no JSON tags.
            shown = [
                {"Key": one.get("key"), "ValueExpression": one.get("valueExpression")} for one in annotations
            ]
            errors.append(invalid("spec.auditAnnotations", shown, text))
        keys: set[str] = set()
        for index, one in enumerate(annotations):
            at, key = f"spec.auditAnnotations[{index}]", one.get("key") or ""
            errors += _check_annotation(one, name, environment, at)
            if key in keys:
                errors.append(duplicate(f"{at}.key", key))
            keys.add(key)
        return errors

    return _check_policy(obj.get("spec") or {}, old, rest)


def _check_validation(validation: JsonObject, environment: Environment, path: str) -> Errors:
    expression, message = validation.get("expression") or "", validation.get("message") or ""
    message_expression = validation.get("messageExpression") or ""
    empty = "must be non-empty if specified"
    errors: Errors = []
    if expression.strip():
        errors += expression_errors(environment.compile(expression, (t.BOOL,)), f"{path}.expression")
    else:
        errors.append(missing_field(f"{path}.expression", "expression is not specified"))
    if message_expression and not message_expression.strip():
        errors.append(invalid(f"{path}.messageExpression", message_expression, empty))
    elif message_expression:
        made = environment.compile(message_expression, (t.STRING,), authorizer=False)
        errors += expression_errors(made, f"{path}.messageExpression")
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, empty))
    elif re.search(r"[\n\r]", message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    return errors + among(validation.get("reason"), _REASONS, f"{path}.reason")


def _check_annotation(annotation: JsonObject, policy: str, environment: Environment, path: str) -> Errors:
    key, expression = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
    errors = names.label_name(f"{policy}/{key}", f"{path}.key")
    at = f"{path}.valueExpression"
    if not expression:
        return [*errors, missing_field(at, "valueExpression is not specified")]
    if len(expression.encode()) > _LONGEST_ANNOTATION:
        return [*errors, missing_field(at, f"must not exceed {_LONGEST_ANNOTATION} bytes in length")]
    return errors + expression_errors(environment.compile(expression, (t.STRING, t.NULL)), at)


def check_mutating_policy(obj: JsonObject, old: JsonObject | None) -> Errors:
    """Validate a MutatingAdmissionPolicy, and compile its expressions."""

    def rest(spec: JsonObject, environment: Environment) -> Errors:
        mutations, errors = spec.get("mutations") or (), []
        if not mutations:
            errors = [missing_field("spec.mutations", "mutations must contain at least one item")]
        for index, one in enumerate(mutations):
            errors += _check_mutation(one, environment, f"spec.mutations[{index}]")
        policy = spec.get("reinvocationPolicy")
        if not policy:
            return [*errors, missing_field("spec.reinvocationPolicy")]
        return errors + among(policy, REINVOCATION_POLICIES, "spec.reinvocationPolicy")

    return _check_policy({"mutations": None, **(obj.get("spec") or {})}, old, rest)


def _check_mutation(mutation: JsonObject, environment: Environment, path: str) -> Errors:
    kind = mutation.get("patchType") or ""
    if not kind:
        return [missing_field(f"{path}.patchType")]
    if kind not in _PATCH_TYPES:
        return [not_supported(f"{path}.patchType", kind, _PATCH_TYPES)]
    field, other = "jsonPatch", "applyConfiguration"
    accepted = PATCHES
    if kind == "ApplyConfiguration":
        field, other, accepted = other, field, OBJECT
    errors: Errors = []
    if mutation.get(field) is None:
        errors.append(missing_field(f"{path}.{field}", f"must be specified when patchType is {kind}"))
    elif expression := (mutation[field].get("expression") or "").strip():
        made = environment.compile(expression, (accepted,), patches=True)
        errors += expression_errors(made, f"{path}.{field}.expression")
    else:
        errors.append(missing_field(f"{path}.{field}.expression"))
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {kind}"
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", text))
    return errors


def _check_param_ref(reference: JsonObject | None, path: str) -> Errors:
    if reference is None:
        return []
    name, selector = reference.get("name") or "", reference.get("selector")
    both = "name and selector are mutually exclusive"
    errors: Errors = []
    if name:
        errors += [invalid(f"{path}.name", name, text) for text in path_segment_name(name, False)]
        if selector is not None:
            errors.append(forbidden_field(f"{path}.name", both))
    if selector is not None:
        errors += check_label_selector(selector, f"{path}.selector")
        if name:
            errors.append(forbidden_field(f"{path}.selector", both))
    if not name and selector is None:
        errors.append(missing_field(path, "one of name or selector must be specified"))
    at, action = f"{path}.parameterNotFoundAction", reference.get("parameterNotFoundAction")
    if not action:
        errors.append(missing_field(at))
    elif action not in ("Deny", "Allow"):
        errors.append(not_supported(at, action, ("Deny", "Allow")))
    return errors


def _check_binding(spec: JsonObject) -> Errors:
    name = spec.get("policyName") or ""
    errors: Errors = [invalid("spec.policyName", name, text) for text in dns_subdomain(name)] if name else []
    errors += [] if name else [missing_field("spec.policyName")]
    errors += _check_param_ref(spec.get("paramRef"), "spec.paramRef")
    return errors + check_match(spec.get("matchResources"), "spec.matchResources")


def check_validating_binding(obj: JsonObject, old: JsonObject | None) -> Errors:
    """Validate a ValidatingAdmissionPolicyBinding, which must have actions."""
    spec = obj.get("spec") or {}
    actions, path = spec.get("validationActions") or [], "spec.validationActions"
    errors = _check_binding(spec)
    again = find_repeated(actions)
    for index, action in enumerate(actions):
        errors += among(action, _ACTIONS, f"{path}[{index}]")
        if index in again:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, text))
    if not actions:
        errors.append(missing_field(path, "at least one validation action is required"))
    return errors


def check_mutating_binding(obj: JsonObject, old: JsonObject | None) -> Errors:
    """Validate a MutatingAdmissionPolicyBinding."""
    spec = obj.get("spec") or {}
    return _check_binding(spec) + _mutable_only(spec.get("matchResources"), "spec.matchResources")

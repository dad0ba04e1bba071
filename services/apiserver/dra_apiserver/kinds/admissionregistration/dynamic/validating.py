"""ValidatingAdmissionPolicy: evaluate compiled policies for a request (plugin/policy/validating)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dra_shared.cel import types as t
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import StatusError, go_json
from dra_apiserver.kinds.admissionregistration.dynamic import policies
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.kinds.admissionregistration.dynamic.environment import Expression
from dra_apiserver.kinds.admissionregistration.dynamic.expressions import (
    BUDGET,
    MATCH_BUDGET,
    Activation,
    OutOfBudget,
)

_LONGEST_MESSAGE = 5 * 1024
_LONGEST_ANNOTATION = 10 * 1024
_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class Decision:
    """The reason for denying a request."""

    message: str
    reason: str = ""
    index: int = 0
    """The position of its expression in the policy."""


class _Judgement(NamedTuple):
    """The outcome of a policy for one binding and one parameter."""

    decisions: list[Decision]
    annotation_errors: list[Decision]
    annotations: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Validation:
    source: JsonObject
    expression: Expression
    message: Expression | None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with its validations, compiled."""

    common: policies.Policy
    validations: tuple[_Validation, ...]
    annotations: tuple[Expression, ...]

    @property
    def ignore(self) -> bool:
        """True if failures are ignored."""
        return self.common.ignore


def compile_policy(policy: JsonObject, bindings: Sequence[JsonObject]) -> Policy:
    """Compile a policy. Compile errors become errors of each request that the policy matches."""
    common = policies.compile_policy(policy, bindings)
    compile = common.environment.compile
    validations = tuple(
        _Validation(
            one,
            compile(one.get("expression", ""), (t.BOOL,)),
            compile(one["messageExpression"], (t.STRING,), authorizer=False)
            if one.get("messageExpression")
            else None,
        )
        for one in common.spec.get("validations") or ()
    )
    annotations = tuple(
        compile(one.get("valueExpression", ""), (t.STRING, t.NULL))
        for one in common.spec.get("auditAnnotations") or ()
    )
    return Policy(common, validations, annotations)


def validate(every: Sequence[Policy], attributes: Attributes) -> None:
    """Validate a request with every policy that has a matching binding.

    Raises:
        StatusError: a policy denies the request.
    """
    denied: StatusError | None = None
    for policy in every:
        for binding, decision in _denials(policy, attributes):
            denied = denied or _denial(policy.common.name, binding, decision, attributes)
    if denied is not None:
        raise denied


def _denial(policy: str, binding: str, decision: Decision, attributes: Attributes) -> StatusError:
    by = f"ValidatingAdmissionPolicy '{policy}'" + (f" with binding '{binding}'" if binding else "")
    message = f"{by} denied request: {decision.message}"
    refused = attributes.create_refusal(message)
    reason = decision.reason or "Invalid"
    details = {**refused.status["details"], "causes": [{"message": message}]}
    return StatusError(_CODES.get(reason, 422), reason, refused.message, details)


def _denials(policy: Policy, attributes: Attributes) -> list[tuple[str, Decision]]:
    """Return the decisions against the request, each with its binding ("" for an error of the policy itself)."""
    found: list[tuple[str, Decision]] = []
    annotations: dict[str, dict[str, None]] = {}
    for one in policies.invocations(policy.common, attributes):
        if isinstance(one, policies.Misconfigured):
            if not policy.ignore:
                found.append((one.binding, Decision(one.text)))
            continue
        judgement = _judge(policy, attributes, one.place, one.params)
        found += _enforce(policy.common.name, one.binding, one.spec, judgement.decisions, attributes)
        found += [(one.binding, decision) for decision in judgement.annotation_errors]
        for key, value in judgement.annotations:
            annotations.setdefault(key, {})[value] = None
    for key, values in annotations.items():
        # A cached value is only used for the same parameters, because others may give another value.
        attributes.annotate(f"{policy.common.name}/{key}", ", ".join(values))
    return found


def _enforce(
    policy: str, binding: str, spec: JsonObject, decisions: list[Decision], attributes: Attributes
) -> list[tuple[str, Decision]]:
    """Apply the binding's actions to the decisions. Return those that deny the request."""
    found = []
    for decision in decisions:
        for action in spec.get("validationActions") or ():
            if action == "Deny":
                found.append((binding, decision))
            elif action == "Warn":
                by = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"
                attributes.warn([f"Validation failed for {by}: {decision.message}"])
            elif action == "Audit":
                failure = {
                    "message": decision.message,
                    "policy": policy,
                    "binding": binding,
                    "expressionIndex": decision.index,
                    "validationActions": spec.get("validationActions"),
                }
                attributes.annotate(_FAILURE, go_json([failure]))
    return found


def _judge(policy: Policy, attributes: Attributes, place: Place, params: JsonObject | None) -> _Judgement:
    """Evaluate the validations and the audit annotations."""

    def fail(text: str, index: int = 0) -> list[Decision]:
        return [] if policy.ignore else [Decision(text, index=index)]

    def activation(budget: int = BUDGET, namespace: JsonObject | None = None) -> Activation:
        return Activation(
            attributes, place, policy.common.variables, params=params, namespace=namespace, budget=budget
        )

    if policy.common.conditions.conditions:
        # Upstream passes no namespace to match conditions.
        matches, problem = policy.common.conditions.match(activation(MATCH_BUDGET))
        if problem:
            return _Judgement(fail(problem), [], [])
        if not matches:
            return _Judgement([], [], [])
    namespace = policies.namespace_of(attributes)
    values = activation(namespace=namespace)
    try:
        results = [values.evaluate(one.expression) for one in policy.validations]
    except OutOfBudget as error:
        return _Judgement(fail(str(error)), [], [])
    messages, exhausted = _messages(policy, activation(values.budget, namespace))
    decisions: list[Decision] = []
    for index, (validation, message, (value, problem)) in enumerate(
        zip(policy.validations, messages, results, strict=True)
    ):
        if problem:
            decisions += fail(problem, index)
        elif exhausted:
            decisions += fail(f"failed messageExpression: {exhausted}", index)
        elif value is not True:
            decisions.append(_failed_validation(validation.source, message, index))
    try:
        errors, annotations = _evaluate_annotations(policy, activation(namespace=namespace))
    except OutOfBudget as error:
        return _Judgement(fail(str(error)), [], [])
    return _Judgement(decisions, errors, annotations)


def _messages(policy: Policy, values: Activation) -> tuple[list[Any], str]:
    """Return the values of the message expressions, and the error if they could not be evaluated."""
    try:
        return [values.evaluate(one.message)[0] if one.message else None for one in policy.validations], ""
    except OutOfBudget as error:
        return [None] * len(policy.validations), str(error)


def _failed_validation(source: JsonObject, evaluated: Any, index: int) -> Decision:
    message = evaluated.strip() if isinstance(evaluated, str) else ""
    if len(message.encode()) > _LONGEST_MESSAGE or "\n" in message:
        message = ""
    message = message or (source.get("message") or "").strip()
    message = message or f"failed expression: {source.get('expression', '').strip()}"
    return Decision(message, source.get("reason") or "Invalid", index)


def _evaluate_annotations(policy: Policy, values: Activation) -> tuple[list[Decision], list[tuple[str, str]]]:
    """Return the errors of the audit annotations, and the keys and values of the others."""
    errors: list[Decision] = []
    annotations: list[tuple[str, str]] = []
    sources = policy.common.spec.get("auditAnnotations") or ()
    for source, expression in zip(sources, policy.annotations, strict=True):
        value, problem = values.evaluate(expression)
        if problem:
            errors += [] if policy.ignore else [Decision(problem)]
        elif isinstance(value, str) and (text := value.strip()):
            cut = text.encode()[:_LONGEST_ANNOTATION].decode(errors="replace")
            annotations.append((source.get("key") or "", cut))
    return errors, annotations

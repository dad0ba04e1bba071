"""ValidatingAdmissionPolicy: a compiled policy, and what it says of a request (plugin/policy/validating)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dra_shared.cel import types as t

from dra_apiserver.errors import StatusError
from dra_apiserver.kinds.admissionregistration.dynamic import policies
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.kinds.admissionregistration.dynamic.environment import Expression
from dra_apiserver.kinds.admissionregistration.dynamic.expressions import (
    BUDGET,
    MATCH_BUDGET,
    Activation,
    OutOfBudget,
)

JsonObject = dict[str, Any]

_LONGEST_MESSAGE = 5 * 1024
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a request is not admitted."""

    message: str
    reason: str = ""


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
        """Whether what goes wrong is ignored."""
        return self.common.ignore


def compile_policy(policy: JsonObject, bindings: Sequence[JsonObject]) -> Policy:
    """What does not compile is an error of each request that gets there."""
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
    """Judge a request by every policy whose binding is for it.

    Raises:
        StatusError: one of them denies it.
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
    refused = attributes.refused(message)
    reason = decision.reason or "Invalid"
    details = {**refused.status["details"], "causes": [{"message": message}]}
    return StatusError(_CODES.get(reason, 422), reason, refused.message, details)


def _denials(policy: Policy, attributes: Attributes) -> list[tuple[str, Decision]]:
    """The decisions against the request, each with its binding ("": the policy itself is at fault)."""
    found: list[tuple[str, Decision]] = []
    for one in policies.invocations(policy.common, attributes):
        if isinstance(one, policies.Misconfigured):
            if not policy.ignore:
                found.append((one.binding, Decision(one.text)))
            continue
        decisions, annotated = _judge(policy, attributes, one.place, one.params)
        found += _acted(policy.common.name, one.binding, one.spec, decisions, attributes)
        found += [(one.binding, decision) for decision in annotated]
    return found


def _acted(
    policy: str, binding: str, spec: JsonObject, decisions: list[Decision], attributes: Attributes
) -> list[tuple[str, Decision]]:
    """What the binding makes of the decisions: those that deny; the others are warned of; none is audited."""
    found = []
    for decision in decisions:
        for action in spec.get("validationActions") or ():
            if action == "Deny":
                found.append((binding, decision))
            elif action == "Warn":
                by = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"
                attributes.warn([f"Validation failed for {by}: {decision.message}"])
    return found


def _judge(
    policy: Policy, attributes: Attributes, place: Place, params: JsonObject | None
) -> tuple[list[Decision], list[Decision]]:
    """What the validations say, and what goes wrong with the audit annotations."""

    def failed(text: str) -> list[Decision]:
        return [] if policy.ignore else [Decision(text)]

    def activation(budget: int = BUDGET, namespace: JsonObject | None = None) -> Activation:
        return Activation(
            attributes, place, policy.common.variables, params=params, namespace=namespace, budget=budget
        )

    if policy.common.conditions.conditions:
        # Upstream hands no namespace to match conditions.
        matches, problem = policy.common.conditions.match(activation(MATCH_BUDGET))
        if problem:
            return failed(problem), []
        if not matches:
            return [], []
    namespace = policies.namespace_of(attributes)
    values = activation(namespace=namespace)
    try:
        results = [values.evaluate(one.expression) for one in policy.validations]
    except OutOfBudget as error:
        return failed(str(error)), []
    messages, exhausted = _messages(policy, activation(values.budget, namespace))
    decisions: list[Decision] = []
    for validation, message, (value, problem) in zip(policy.validations, messages, results, strict=True):
        if problem:
            decisions += failed(problem)
        elif exhausted:
            decisions += failed(f"failed messageExpression: {exhausted}")
        elif value is not True:
            decisions.append(_broken(validation.source, message))
    try:
        annotated = _annotated(policy, activation(namespace=namespace))
    except OutOfBudget as error:
        return failed(str(error)), []
    return decisions, annotated


def _messages(policy: Policy, values: Activation) -> tuple[list[Any], str]:
    """The values of the message expressions, and why there are none."""
    try:
        return [values.evaluate(one.message)[0] if one.message else None for one in policy.validations], ""
    except OutOfBudget as error:
        return [None] * len(policy.validations), str(error)


def _broken(source: JsonObject, evaluated: Any) -> Decision:
    message = evaluated.strip() if isinstance(evaluated, str) else ""
    if len(message.encode()) > _LONGEST_MESSAGE or "\n" in message:
        message = ""
    message = message or (source.get("message") or "").strip()
    message = message or f"failed expression: {source.get('expression', '').strip()}"
    return Decision(message, source.get("reason") or "Invalid")


def _annotated(policy: Policy, values: Activation) -> list[Decision]:
    # There is no audit log; what goes wrong with an annotation denies all the same.
    problems = [problem for one in policy.annotations if (problem := values.evaluate(one)[1])]
    return [] if policy.ignore else [Decision(problem) for problem in problems]

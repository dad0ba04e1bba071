"""ValidatingAdmissionPolicy: a compiled policy, and what it says of a request (plugin/policy/validating)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dra_shared.cel import types as t

from dra_apiserver.admission.dynamic.attributes import Attributes, Place
from dra_apiserver.admission.dynamic.environment import Environment, Expression
from dra_apiserver.admission.dynamic.expressions import (
    BUDGET,
    MATCH_BUDGET,
    Activation,
    MatchConditions,
    OutOfBudget,
)
from dra_apiserver.admission.dynamic.matching import matched_place
from dra_apiserver.admission.dynamic.params import ConfigurationError, collect, kind_of_params
from dra_apiserver.errors import StatusError

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
    said: JsonObject
    expression: Expression
    message: Expression | None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy, compiled, and its bindings."""

    name: str
    spec: JsonObject
    conditions: MatchConditions
    variables: dict[str, Expression]
    validations: tuple[_Validation, ...]
    annotations: tuple[Expression, ...]
    bindings: tuple[JsonObject, ...]

    @property
    def ignore(self) -> bool:
        """Whether what goes wrong is ignored."""
        return bool(self.spec.get("failurePolicy") == "Ignore")


def compile_policy(policy: JsonObject, bindings: Sequence[JsonObject]) -> Policy:
    """What does not compile is an error of each request that gets there."""
    spec = policy["spec"]
    environment = Environment(params=spec.get("paramKind") is not None)
    variables = {
        one["name"]: environment.add_variable(one["name"], one.get("expression", ""))
        for one in spec.get("variables") or ()
    }
    conditions = tuple(
        environment.compile(one.get("expression", ""), (t.BOOL,)) for one in spec.get("matchConditions") or ()
    )
    validations = tuple(
        _Validation(
            one,
            environment.compile(one.get("expression", ""), (t.BOOL,)),
            environment.compile(one["messageExpression"], (t.STRING,), authorizer=False)
            if one.get("messageExpression")
            else None,
        )
        for one in spec.get("validations") or ()
    )
    annotations = tuple(
        environment.compile(one.get("valueExpression", ""), (t.STRING, t.NULL))
        for one in spec.get("auditAnnotations") or ()
    )
    ignore = spec.get("failurePolicy") == "Ignore"
    return Policy(
        policy["metadata"]["name"],
        spec,
        MatchConditions(conditions, ignore),
        variables,
        validations,
        annotations,
        tuple(bindings),
    )


def validate(policies: Sequence[Policy], attributes: Attributes) -> None:
    """Judge a request by every policy whose binding is for it.

    Raises:
        StatusError: one of them denies it.
    """
    denied: StatusError | None = None
    for policy in policies:
        for binding, decision in _denials(policy, attributes):
            denied = denied or _denial(policy.name, binding, decision, attributes)
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
    try:
        place = matched_place(policy.spec.get("matchConstraints") or {}, attributes)
        if place is None:
            return []
        params = kind_of_params(attributes.registry, policy.spec.get("paramKind"))
    except (StatusError, ConfigurationError) as error:
        return [] if policy.ignore else [("", Decision(f"failed to configure policy: {error}"))]
    found: list[tuple[str, Decision]] = []
    for binding in policy.bindings:
        name, spec = binding["metadata"]["name"], binding["spec"]
        try:
            match = spec.get("matchResources")
            if match is not None and matched_place(match, attributes) is None:
                continue
            given = collect(params, spec.get("paramRef"), attributes.namespace, attributes.ctx)
        except (StatusError, ConfigurationError) as error:
            if not policy.ignore:
                found.append((name, Decision(f"failed to configure binding: {error}")))
            continue
        for one in given:
            decisions, annotated = _judge(policy, attributes, place, one)
            found += _acted(policy.name, name, spec, decisions, attributes)
            found += [(name, decision) for decision in annotated]
    return found


def _acted(
    policy: str, binding: str, spec: JsonObject, decisions: list[Decision], attributes: Attributes
) -> list[tuple[str, Decision]]:
    """What the binding makes of the decisions: those that deny; the others are warned of, or audited by nobody."""
    found = []
    for decision in decisions:
        for action in spec.get("validationActions") or ():
            if action == "Deny":
                found.append((binding, decision))
            elif action == "Warn":
                by = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"
                attributes.warn([f"Validation failed for {by}: {decision.message}"])
    return found


def namespace_of(attributes: Attributes) -> JsonObject | None:
    """The namespace that expressions see: none for what has none, nor for namespaces."""
    if attributes.is_namespace or not attributes.namespace:
        return None
    return attributes.ctx.lookup("", "namespaces", "", attributes.namespace)


def _judge(
    policy: Policy, attributes: Attributes, place: Place, params: JsonObject | None
) -> tuple[list[Decision], list[Decision]]:
    """What the validations say, and what goes wrong with the audit annotations."""

    def failed(text: str) -> list[Decision]:
        return [] if policy.ignore else [Decision(text)]

    def activation(budget: int = BUDGET, namespace: JsonObject | None = None) -> Activation:
        return Activation(
            attributes, place, policy.variables, params=params, namespace=namespace, budget=budget
        )

    if policy.conditions.conditions:
        # Upstream hands no namespace to match conditions.
        matches, problem = policy.conditions.match(activation(MATCH_BUDGET))
        if problem:
            return failed(problem), []
        if not matches:
            return [], []
    namespace = namespace_of(attributes)
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
            decisions.append(_broken(validation.said, message))
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


def _broken(said: JsonObject, evaluated: Any) -> Decision:
    message = evaluated.strip() if isinstance(evaluated, str) else ""
    if len(message.encode()) > _LONGEST_MESSAGE or "\n" in message:
        message = ""
    message = message or (said.get("message") or "").strip()
    message = message or f"failed expression: {said.get('expression', '').strip()}"
    return Decision(message, said.get("reason") or "Invalid")


def _annotated(policy: Policy, values: Activation) -> list[Decision]:
    # Nobody keeps an audit log; what goes wrong with an annotation denies all the same.
    problems = [problem for one in policy.annotations if (problem := values.evaluate(one)[1])]
    return [] if policy.ignore else [Decision(problem) for problem in problems]

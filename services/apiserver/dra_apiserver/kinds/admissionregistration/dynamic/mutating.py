"""MutatingAdmissionPolicy: apply compiled policies to an object (apiserver's plugin/policy/mutating)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dra_shared.cel.types import Type
from dra_shared.cel.values import StructValue, is_list, is_map, type_name
from dra_shared.jsontypes import JsonObject

from dra_apiserver.equality import copy_object
from dra_apiserver.errors import StatusError, internal, quote
from dra_apiserver.kinds.admissionregistration.dynamic import policies
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.kinds.admissionregistration.dynamic.environment import (
    OBJECT,
    PATCHES,
    Environment,
    Expression,
)
from dra_apiserver.kinds.admissionregistration.dynamic.expressions import (
    MATCH_BUDGET,
    Activation,
    OutOfBudget,
)
from dra_apiserver.kinds.admissionregistration.dynamic.patches import (
    NotConvertible,
    PatchFailed,
    TestFailed,
    apply_patch,
    settle,
)
from dra_apiserver.kinds.admissionregistration.dynamic.reinvocation import Reinvocation
from dra_apiserver.patch.typed import TypedError, field_set, merge
from dra_apiserver.schema import object_type
from dra_apiserver.schema.types import Field, ListNode, ListType, MapNode, Node, Struct


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with its mutations, compiled."""

    common: policies.Policy
    mutations: tuple[Expression, ...]

    @property
    def ignore(self) -> bool:
        """True if failures are ignored."""
        return self.common.ignore


def compile_policy(policy: JsonObject, bindings: Sequence[JsonObject]) -> Policy:
    """Compile a policy. Compile errors become errors of each request that the policy matches."""
    common = policies.compile_policy(policy, bindings)
    mutations = common.spec.get("mutations") or ()
    return Policy(common, tuple(_mutation(one, common.environment) for one in mutations))


def _mutation(mutation: JsonObject, environment: Environment) -> Expression:
    field, accepted = _form(mutation)
    return environment.compile((mutation.get(field) or {}).get("expression", ""), (accepted,), patches=True)


def _form(mutation: JsonObject) -> tuple[str, Type]:
    return (
        ("jsonPatch", PATCHES) if mutation.get("patchType") == "JSONPatch" else ("applyConfiguration", OBJECT)
    )


class _Refused(Exception):
    """A mutation cannot be applied. The message is upstream's."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """The error of a denied request."""

    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Invocation:
    policy: Policy
    bound: policies.Invocation

    @property
    def key(self) -> str:
        meta = (self.bound.params or {}).get("metadata") or {}
        parts = (self.policy.common.name, self.bound.binding, meta.get("namespace", ""), meta.get("name", ""))
        return "/".join(parts)

    def problem(self, text: str) -> _Problem:
        return _Problem(_message(self.policy, self.bound.binding, text), "Invalid")


def _message(policy: Policy, binding: str, text: str) -> str:
    by = (
        f"policy '{policy.common.name}' with binding '{binding}'"
        if binding
        else f"policy {quote(policy.common.name)}"
    )
    return f"{by} denied request: {text}"


def mutate(every: Sequence[Policy], attributes: Attributes, rounds: Reinvocation, again: bool) -> bool:
    """Apply every policy with a matching binding to the object. Return True if any mutation was applied.

    Raises:
        StatusError: a policy fails.
    """
    invocations: list[_Invocation] = []
    problems: list[_Problem] = []
    for policy in every:
        for found in policies.invocations(policy.common, attributes):
            if isinstance(found, policies.Invocation):
                invocations.append(_Invocation(policy, found))
            elif not policy.ignore:
                problems.append(_Problem(_message(policy, found.binding, found.text)))
    rounds.begin(attributes.obj, again)
    dirty = False
    for invocation in invocations:
        ran, found_problems = _invoke(invocation, attributes, rounds, again)
        dirty = dirty or ran
        if not invocation.policy.ignore:
            problems += found_problems
    if dirty:
        rounds.record_change()
    rounds.end(attributes.obj)
    if problems:
        raise _denial(problems, attributes)
    return dirty


def _denial(problems: list[_Problem], attributes: Attributes) -> StatusError:
    refused = attributes.create_refusal("admission request denied by policy")
    details = {**refused.status["details"], "causes": [{"message": one.text} for one in problems]}
    first = problems[0]
    # Upstream changes the reason and keeps the code.
    return StatusError(403, first.reason or "Forbidden", first.text, details)


def _invoke(
    invocation: _Invocation, attributes: Attributes, rounds: Reinvocation, again: bool
) -> tuple[bool, list[_Problem]]:
    """Return whether a mutation was applied, and the errors of mutations that failed."""
    policy, place = invocation.policy.common, invocation.bound.place
    if policy.conditions.conditions:
        values = Activation(
            attributes, place, policy.variables, params=invocation.bound.params, budget=MATCH_BUDGET
        )
        matches, problem = policy.conditions.match(values)
        if problem:
            return False, [invocation.problem(problem)]
        if not matches:
            return False, []
    if again and invocation.key not in rounds.wanted:
        return False, []
    before = attributes.convert(attributes.obj, place)
    ran, problems = False, []
    for mutation, expression in zip(
        policy.spec.get("mutations") or (), invocation.policy.mutations, strict=True
    ):
        if attributes.obj is None:
            continue
        try:
            _mutate(mutation, expression, invocation, attributes)
            ran = True
        except _Refused as error:
            problems.append(invocation.problem(str(error)))
    if ran and before != attributes.convert(attributes.obj, place):
        rounds.record_change()
    if policy.spec.get("reinvocationPolicy") == "IfNeeded":
        rounds.eligible.add(invocation.key)
    return ran, problems


def _mutate(
    mutation: JsonObject, expression: Expression, invocation: _Invocation, attributes: Attributes
) -> None:
    if expression.rule is None:
        raise _Refused(expression.problem)
    values = Activation(
        attributes,
        invocation.bound.place,
        invocation.policy.common.variables,
        params=invocation.bound.params,
        namespace=policies.namespace_of(attributes),
    )
    try:
        value, problem = values.evaluate(expression)
    except OutOfBudget as error:
        raise _Refused(str(error)) from None
    if problem:
        raise _Refused(problem)
    live = attributes.convert(attributes.obj, invocation.bound.place)
    assert live is not None
    if _form(mutation)[1] is PATCHES:
        _patch(value, copy_object(live), attributes, invocation.bound.place)
    else:
        _apply(value, live, attributes, invocation.bound.place)


def _patch(value: list[StructValue], live: JsonObject, attributes: Attributes, place: Place) -> None:
    operations = [_operation(one) for one in value]
    try:
        patched = apply_patch(live, operations)
    except TestFailed:
        # If one operation fails, no part of the patch is applied.
        return
    except PatchFailed as error:
        raise _Refused(f"JSON Patch: {error}") from None
    _settle(patched, attributes, place, strict=True)


def _settle(patched: JsonObject, attributes: Attributes, place: Place, strict: bool = False) -> None:
    try:
        settle(patched, attributes, place, strict)
    except PatchFailed as error:
        raise internal(str(error)) from None
    except NotConvertible as error:
        raise internal(f"failed to convert object: {error}") from None


def _operation(made: StructValue) -> JsonObject:
    fields = made.fields
    operation = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        value = fields["value"]
        if isinstance(value, StructValue):
            _check_names(value, value.name)
        operation["value"] = _plain(value)
    return operation


def _apply(value: StructValue, live: JsonObject, attributes: Attributes, place: Place) -> None:
    _check_names(value, value.name)
    config = _plain(value)
    config["apiVersion"], config["kind"] = live["apiVersion"], live["kind"]
    node = object_type(attributes.target.kind, place.kind[1])
    try:
        field_set(node, config)
    except TypedError as error:
        raise _Refused(
            f"error applying patch: failed to convert patch object to typed object: {error}"
        ) from None
    atomic = list(_atomic(node, config, ""))
    if atomic:
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise _Refused(f"error applying patch: invalid ApplyConfiguration: {text}")
    _settle(copy_object(merge(node, live, config)), attributes, place)


def _atomic(node: Node, value: Any, path: str, whole: bool = False) -> Iterator[str]:
    """Yield the paths of atomic values (lists, maps or structs).

    An apply that sets a part of one would drop the rest.
    """
    if isinstance(node, Struct | MapNode) and isinstance(value, dict):
        if whole or node.atomic:
            yield path
        members: dict[str, Field] = node.fields if isinstance(node, Struct) else {}
        for key, one in value.items():
            if key in members:
                yield from _atomic(members[key].node, one, f"{path}.{key}", members[key].atomic)
    elif isinstance(node, ListNode) and isinstance(value, list):
        if whole or node.list_type is ListType.ATOMIC:
            yield path
        for index, one in enumerate(value):
            yield from _atomic(node.item, one, f"{path}[{index}]")


def _check_names(value: Any, path: str) -> None:
    """Check that the type of each object is named after its path."""
    wrong = list(_find_misnamed(value, path))
    if wrong:
        raise _Refused("type mismatch: " + "\n".join(wrong))


def _find_misnamed(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, StructValue):
        if value.name != path:
            matches = "which matches field name path from root Object type"
            yield f"unexpected type name {quote(value.name)}, expected {quote(path)}, {matches}"
        for key, one in value.fields.items():
            yield from _find_misnamed(one, f"{path}.{key}")
    elif is_list(value):
        for one in value:
            yield from _find_misnamed(one, path)
    elif is_map(value):
        for one in value.values():
            yield from _find_misnamed(one, path)


def _plain(value: Any) -> Any:
    """Return the value as JSON."""
    if isinstance(value, StructValue):
        return {key: _plain(one) for key, one in value.fields.items()}
    if is_list(value):
        return [_plain(one) for one in value]
    if is_map(value):
        return {str(key): _plain(one) for key, one in value.items()}
    if value is None or isinstance(value, bool | str | float):
        return value
    if type_name(value) in ("int", "uint"):
        return int(value)
    text = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
    raise _Refused(f"{text}: {type_name(value)}")

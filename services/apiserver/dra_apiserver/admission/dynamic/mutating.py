"""MutatingAdmissionPolicy: what compiled policies make of an object (apiserver's plugin/policy/mutating)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dra_shared.cel import types as t
from dra_shared.cel.types import Type
from dra_shared.cel.values import StructValue, is_list, is_map, type_name

from dra_apiserver.admission.dynamic.attributes import Attributes, Place, copied
from dra_apiserver.admission.dynamic.environment import OBJECT, PATCHES, Environment, Expression
from dra_apiserver.admission.dynamic.expressions import (
    MATCH_BUDGET,
    Activation,
    MatchConditions,
    OutOfBudget,
)
from dra_apiserver.admission.dynamic.matching import matched_place
from dra_apiserver.admission.dynamic.params import ConfigurationError, collect, kind_of_params
from dra_apiserver.admission.dynamic.patches import PatchFailed, TestFailed, apply_patch, settle
from dra_apiserver.admission.dynamic.reinvocation import Reinvocation
from dra_apiserver.admission.dynamic.validating import namespace_of
from dra_apiserver.errors import StatusError, internal, quote
from dra_apiserver.patch.typed import TypedError, field_set, merge
from dra_apiserver.schema import object_type
from dra_apiserver.schema.types import Field, ListNode, ListType, MapNode, Node, Struct

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy, compiled, and its bindings."""

    name: str
    spec: JsonObject
    conditions: MatchConditions
    variables: dict[str, Expression]
    mutations: tuple[Expression, ...]
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
    mutations = tuple(_mutation(one, environment) for one in spec.get("mutations") or ())
    ignore = spec.get("failurePolicy") == "Ignore"
    name = policy["metadata"]["name"]
    return Policy(name, spec, MatchConditions(conditions, ignore), variables, mutations, tuple(bindings))


def _mutation(said: JsonObject, environment: Environment) -> Expression:
    field, accepted = _form(said)
    return environment.compile((said.get(field) or {}).get("expression", ""), (accepted,), patches=True)


def _form(said: JsonObject) -> tuple[str, Type]:
    return ("jsonPatch", PATCHES) if said.get("patchType") == "JSONPatch" else ("applyConfiguration", OBJECT)


class _Refused(Exception):
    """A mutation can't be made; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is said against a request."""

    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Invocation:
    policy: Policy
    binding: str
    params: JsonObject | None
    place: Place

    @property
    def key(self) -> str:
        meta = (self.params or {}).get("metadata") or {}
        return "/".join((self.policy.name, self.binding, meta.get("namespace", ""), meta.get("name", "")))

    def problem(self, text: str) -> _Problem:
        by = f"policy '{self.policy.name}' with binding '{self.binding}'"
        return _Problem(f"{by} denied request: {text}", "Invalid")


def mutate(policies: Sequence[Policy], attributes: Attributes, rounds: Reinvocation, again: bool) -> bool:
    """Have every policy whose binding is for the request change its object; whether there were changes to make.

    Raises:
        StatusError: a policy can't be carried out.
    """
    invocations: list[_Invocation] = []
    problems: list[_Problem] = []
    for policy in policies:
        for found in _invocations(policy, attributes):
            if isinstance(found, _Invocation):
                invocations.append(found)
            elif not policy.ignore:
                problems.append(found)
    rounds.begin(attributes.obj, again)
    dirty = False
    for invocation in invocations:
        ran, found_problems = _invoke(invocation, attributes, rounds, again)
        dirty = dirty or ran
        if not invocation.policy.ignore:
            problems += found_problems
    if dirty:
        rounds.changed()
    rounds.end(attributes.obj)
    if problems:
        raise _denial(problems, attributes)
    return dirty


def _denial(problems: list[_Problem], attributes: Attributes) -> StatusError:
    refused = attributes.refused("admission request denied by policy")
    details = {**refused.status["details"], "causes": [{"message": one.text} for one in problems]}
    first = problems[0]
    # Upstream changes the reason and leaves the code.
    return StatusError(403, first.reason or "Forbidden", first.text, details)


def _invocations(policy: Policy, attributes: Attributes) -> Iterator[_Invocation | _Problem]:
    """The policy with each of its bindings and parameters that are for the request, or what is wrong with them."""
    itself = f"policy {quote(policy.name)} denied request: failed to configure policy: "
    try:
        place = matched_place(policy.spec.get("matchConstraints") or {}, attributes)
        if place is None:
            return
        kind = kind_of_params(attributes.registry, policy.spec.get("paramKind"))
    except (StatusError, ConfigurationError) as error:
        yield _Problem(itself + str(error))
        return
    for binding in policy.bindings:
        name, spec = binding["metadata"]["name"], binding["spec"]
        try:
            match = spec.get("matchResources")
            if match is not None and matched_place(match, attributes) is None:
                continue
            given = collect(kind, spec.get("paramRef"), attributes.namespace, attributes.ctx)
        except (StatusError, ConfigurationError) as error:
            by = f"policy '{policy.name}' with binding '{name}'"
            yield _Problem(f"{by} denied request: failed to configure binding: {error}")
            continue
        for params in given:
            yield _Invocation(policy, name, params, place)


def _invoke(
    invocation: _Invocation, attributes: Attributes, rounds: Reinvocation, again: bool
) -> tuple[bool, list[_Problem]]:
    """Whether a mutation was made, and what went wrong with others."""
    policy, place = invocation.policy, invocation.place
    if policy.conditions.conditions:
        values = Activation(
            attributes, place, policy.variables, params=invocation.params, budget=MATCH_BUDGET
        )
        matches, problem = policy.conditions.match(values)
        if problem:
            return False, [invocation.problem(problem)]
        if not matches:
            return False, []
    if again and invocation.key not in rounds.wanted:
        return False, []
    before = attributes.versioned(attributes.obj, place)
    ran, problems = False, []
    for said, expression in zip(policy.spec.get("mutations") or (), policy.mutations, strict=True):
        if attributes.obj is None:
            continue
        try:
            _mutate(said, expression, invocation, attributes)
            ran = True
        except _Refused as error:
            problems.append(invocation.problem(str(error)))
    if ran and before != attributes.versioned(attributes.obj, place):
        rounds.changed()
    if policy.spec.get("reinvocationPolicy") == "IfNeeded":
        rounds.eligible.add(invocation.key)
    return ran, problems


def _mutate(
    said: JsonObject, expression: Expression, invocation: _Invocation, attributes: Attributes
) -> None:
    if expression.rule is None:
        raise _Refused(expression.problem)
    values = Activation(
        attributes,
        invocation.place,
        invocation.policy.variables,
        params=invocation.params,
        namespace=namespace_of(attributes),
    )
    try:
        value, problem = values.evaluate(expression)
    except OutOfBudget as error:
        raise _Refused(str(error)) from None
    if problem:
        raise _Refused(problem)
    live = attributes.versioned(attributes.obj, invocation.place)
    assert live is not None
    if _form(said)[1] is PATCHES:
        _patch(value, copied(live), attributes, invocation.place)
    else:
        _apply(value, live, attributes, invocation.place)


def _patch(value: list[StructValue], live: JsonObject, attributes: Attributes, place: Place) -> None:
    operations = [_operation(one) for one in value]
    try:
        patched = apply_patch(live, operations)
    except TestFailed:
        # Then nothing of the patch is done.
        return
    except PatchFailed as error:
        raise _Refused(f"JSON Patch: {error}") from None
    try:
        settle(patched, attributes, place, strict=True)
    except PatchFailed as error:
        raise internal(str(error)) from None


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
    try:
        settle(copied(merge(node, live, config)), attributes, place)
    except PatchFailed as error:
        raise internal(str(error)) from None


def _atomic(node: Node, value: Any, path: str, whole: bool = False) -> Iterator[str]:
    """The paths of what is set as a whole in the value: who sets a part of it would drop the rest."""
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
    """An object's type must be named as the place that it stands in."""
    wrong = list(_misnamed(value, path))
    if wrong:
        raise _Refused("type mismatch: " + "\n".join(wrong))


def _misnamed(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, StructValue):
        if value.name != path:
            matches = "which matches field name path from root Object type"
            yield f"unexpected type name {quote(value.name)}, expected {quote(path)}, {matches}"
        for key, one in value.fields.items():
            yield from _misnamed(one, f"{path}.{key}")
    elif is_list(value):
        for one in value:
            yield from _misnamed(one, path)
    elif is_map(value):
        for one in value.values():
            yield from _misnamed(one, path)


def _plain(value: Any) -> Any:
    """The value in JSON."""
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

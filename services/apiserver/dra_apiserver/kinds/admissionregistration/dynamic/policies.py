"""Common parts of validating and mutating policies (apiserver's plugin/policy/generic)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dra_shared.cel import types as t
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import StatusError
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.kinds.admissionregistration.dynamic.environment import Environment, Expression
from dra_apiserver.kinds.admissionregistration.dynamic.expressions import MatchConditions
from dra_apiserver.kinds.admissionregistration.dynamic.matching import matched_place
from dra_apiserver.kinds.admissionregistration.dynamic.params import (
    ConfigurationError,
    collect,
    kind_of_params,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A compiled policy, and its bindings."""

    name: str
    spec: JsonObject
    bindings: tuple[JsonObject, ...]
    environment: Environment
    variables: dict[str, Expression]
    conditions: MatchConditions

    @property
    def ignore(self) -> bool:
        """True if failures are ignored."""
        return bool(self.spec.get("failurePolicy") == "Ignore")


def compile_policy(policy: JsonObject, bindings: Sequence[JsonObject]) -> Policy:
    """Compile a policy. Compile errors become errors of each request that the policy matches."""
    spec = policy["spec"]
    environment = Environment(params=spec.get("paramKind") is not None)
    variables = {
        one["name"]: environment.add_variable(one["name"], one.get("expression", ""))
        for one in spec.get("variables") or ()
    }
    conditions = tuple(
        environment.compile(one.get("expression", ""), (t.BOOL,)) for one in spec.get("matchConditions") or ()
    )
    matching = MatchConditions(conditions, spec.get("failurePolicy") == "Ignore")
    return Policy(policy["metadata"]["name"], spec, tuple(bindings), environment, variables, matching)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A policy's binding with one of its parameter objects, and the matching place of the request."""

    binding: str
    spec: JsonObject
    params: JsonObject | None
    place: Place


@dataclass(frozen=True, slots=True)
class Misconfigured:
    """The error of a binding ("": of the policy itself) that cannot be used."""

    binding: str
    text: str


def invocations(policy: Policy, attributes: Attributes) -> Iterator[Invocation | Misconfigured]:
    """Yield the policy with each matching binding and each of its parameter objects, or the error of a binding."""
    try:
        place = matched_place(policy.spec.get("matchConstraints") or {}, attributes)
        if place is None:
            return
        kind = kind_of_params(attributes.registry, policy.spec.get("paramKind"))
    except (StatusError, ConfigurationError) as error:
        yield Misconfigured("", f"failed to configure policy: {error}")
        return
    for binding in policy.bindings:
        name, spec = binding["metadata"]["name"], binding["spec"]
        try:
            match = spec.get("matchResources")
            if match is not None and matched_place(match, attributes) is None:
                continue
            given = collect(kind, spec.get("paramRef"), attributes.namespace, attributes.ctx)
        except (StatusError, ConfigurationError) as error:
            yield Misconfigured(name, f"failed to configure binding: {error}")
            continue
        for params in given:
            yield Invocation(name, spec, params, place)


def namespace_of(attributes: Attributes) -> JsonObject | None:
    """Return the namespace for expressions. Cluster-scoped objects and namespaces have none."""
    if attributes.is_namespace or not attributes.namespace:
        return None
    return attributes.ctx.lookup("", "namespaces", "", attributes.namespace)

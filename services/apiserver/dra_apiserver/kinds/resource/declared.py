"""Rules, limits and values that the types of resource.k8s.io declare.

Until Kubernetes 1.36, hand-written code validates claims, classes and slices, with its own texts and order.
It compares with values that only the types' tags contain. Since 1.37, a declared rule replaces a hand-written
one for the same error.
"""

from __future__ import annotations

import copy
import functools
import re

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37

from dra_apiserver.common.declarative.rules import ENFORCED, DeclaredRules, replace_covered
from dra_apiserver.common.declarative.structs import Field, Stage, fields
from dra_apiserver.errors import FieldError
from dra_apiserver.kindkit.strategy import Context

_PACKAGE = "io.k8s.api.resource.v1"
_LIMITS = ("maxItems", "maxBytes")
UNREFERENCED = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)
"""The text of an error that no declared rule replaces, although one of the same type is at the same field."""
# Paths at which v1beta1 has fields that v1 has in `exactly`, or in the device itself (upstream's
# ResourceNormalizationRules).
_FLAT = re.compile(
    r"(requests\[\d+\])\.(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|derivedAttributes)"
)
_BASIC = re.compile(r"(spec\.devices\[\d+\])\.basic\b")


def with_declared(
    errors: list[FieldError], obj: JsonObject, old: JsonObject | None, ctx: Context
) -> list[FieldError]:
    """Append the errors of declared rules to the hand-written ones, and drop hand-written ones that are also
    declared.

    Beta rules are enforced while ``DeclarativeValidationBeta`` is on. Alpha rules never are: upstream only
    compares them with the hand-written ones. Rules without a stage are always enforced.
    """
    if ctx.features.version < V1_37:
        return errors
    package, both = _as_asked(obj, old, ctx)
    found = _rules(f"{package}.{ctx.kind.kind}", ctx.features).validate(*both)
    return replace_covered(errors, found, _in_v1, never=UNREFERENCED)


def _as_asked(
    obj: JsonObject, old: JsonObject | None, ctx: Context
) -> tuple[str, tuple[JsonObject, JsonObject | None]]:
    """Return the package of the version whose declared rules apply, and both objects in that version.

    Only v1beta1 differs from v1, so that its errors name other fields.
    """
    converted = ctx.kind.conversions.get(ctx.version)
    if converted is None:
        return _PACKAGE, (obj, old)
    both = copy.deepcopy((obj, old))
    for one in both:
        if one is not None:
            converted[1](one)
    return f"{_PACKAGE.rpartition('.')[0]}.{ctx.version}", both


def _in_v1(field: str) -> str:
    """Return the field's path in v1."""
    return _BASIC.sub(r"\1", _FLAT.sub(r"\1.exactly.\2", field))


@functools.lru_cache(maxsize=64)
def _rules(type_name: str, features: FeatureGates) -> DeclaredRules:
    stages = ENFORCED if features.enabled("DeclarativeValidationBeta") else frozenset({Stage.STANDARD})
    return DeclaredRules(type_name, stages, features)


def limit(type_name: str, name: str) -> int:
    """Return the largest number of items, or bytes, of a field.

    Raises:
        LookupError: the field does not exist, or declares no limit.
    """
    for rule in _field(type_name, name).rules:
        if rule.name in _LIMITS:
            return int(rule.value)
    raise LookupError(f"{type_name}.{name} declares no limit")


def values(type_name: str, name: str) -> tuple[str, ...]:
    """Return the sorted values that a field may have.

    Raises:
        LookupError: the field does not exist, or may have any value.
    """
    found = _field(type_name, name).values
    if not found:
        raise LookupError(f"{type_name}.{name} declares no values")
    return found


def _field(type_name: str, name: str) -> Field:
    for field in fields(f"{_PACKAGE}.{type_name}"):
        if field.name == name:
            return field
    raise LookupError(f"{type_name} has no field {name}")

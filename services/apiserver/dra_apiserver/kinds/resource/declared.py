"""What the types of resource.k8s.io declare: rules, limits and values.

Until Kubernetes 1.36 hand-written code answers for claims, classes and slices, with its own texts and order; what it
compares with stands in the types' tags, and nowhere else. Since 1.37 the declared rules answer where both find errors.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.version import V1_37

from dra_apiserver.errors import FieldError
from dra_apiserver.kinds.common.declarative.rules import ALL, DeclaredRules
from dra_apiserver.kinds.common.declarative.structs import Field, fields
from dra_apiserver.kinds.strategy import Context

JsonObject = dict[str, Any]

_PACKAGE = "io.k8s.api.resource.v1"
_LIMITS = ("maxItems", "maxBytes")


def with_declared(
    errors: list[FieldError], obj: JsonObject, old: JsonObject | None, ctx: Context
) -> list[FieldError]:
    """The hand-written errors, and after them what the kind's type declares, which takes the place of its own.

    The rules that were alpha in 1.36 are beta since 1.37: enforced while ``DeclarativeValidationBeta`` is on. Mirrors
    ValidateDeclarativelyWithMigrationChecks of ``k8s.io/apiserver/pkg/registry/rest``.
    """
    if ctx.features.version < V1_37 or not ctx.features.enabled("DeclarativeValidationBeta"):
        return errors
    found = _rules(ctx.kind.kind, ctx.features).validate(obj, old)
    covered = Counter((error.type, error.field) for error in found)
    left = []
    for error in errors:
        place = (error.type, error.field)
        if covered[place] > 0:
            covered[place] -= 1
        else:
            left.append(error)
    return left + found


@functools.lru_cache(maxsize=64)
def _rules(kind: str, features: FeatureGates) -> DeclaredRules:
    return DeclaredRules(f"{_PACKAGE}.{kind}", ALL, features)


def limit(type_name: str, name: str) -> int:
    """How many items, or bytes, a field may have.

    Raises:
        LookupError: there is no such field, or it declares no limit.
    """
    for rule in _field(type_name, name).rules:
        if rule.name in _LIMITS:
            return int(rule.value)
    raise LookupError(f"{type_name}.{name} declares no limit")


def values(type_name: str, name: str) -> tuple[str, ...]:
    """The values that a field may have, sorted.

    Raises:
        LookupError: there is no such field, or it may have any value.
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

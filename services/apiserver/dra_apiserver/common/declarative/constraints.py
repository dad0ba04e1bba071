"""Implement single declared rules (apimachinery's `pkg/api/validate`).

If a rule of `SHORT_CIRCUIT` fails, the other rules are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dra_shared.quantity import Quantity

from dra_apiserver.common.declarative.formats import FORMATS
from dra_apiserver.common.declarative.structs import Field, Rule
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import (
    ErrorType,
    FieldError,
    Verbatim,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
    too_long,
    too_many,
)


class Site(NamedTuple):
    """The context of a value: its path, whether an object is updated, and whether an old value corresponds to it."""

    path: str
    update: bool
    known: bool


Check = Callable[[Any, Any, Site], list[FieldError]]
"""Returns the errors of a value, given the old one."""

_NULL = Verbatim("null")


def _check_required(rule: Rule, field: Field) -> Check:
    return lambda value, _, site: [] if field.has(value) else [missing_field(site.path)]


def _max_items(rule: Rule, field: Field) -> Check:
    limit = int(rule.value)
    return lambda value, _, site: [too_many(site.path, len(value), limit)] if len(value) > limit else []


def _check_immutable(rule: Rule, field: Field) -> Check:
    """Return a check that rejects changes. It is only called if the value changed."""
    return lambda _, __, site: [invalid(site.path, _NULL, IMMUTABLE)] if site.update else []


def _check_update(rule: Rule, field: Field) -> Check:
    """Return a check of an update constraint. It is only called if the value changed."""
    refused = _UPDATES.get(rule.value)
    if refused is None:
        raise ValueError(f"no update constraint {rule.value!r} is known")

    def check(value: Any, old: Any, site: Site) -> list[FieldError]:
        return refused(field, value, old, site.path) if site.update else []

    return check


def _reject_modify(field: Field, value: Any, old: Any, path: str) -> list[FieldError]:
    both = field.has(value) and field.has(old)
    return [invalid(path, _NULL, "field cannot be modified once set")] if both else []


def _set(field: Field, value: Any, old: Any, path: str) -> list[FieldError]:
    new = field.has(value) and not field.has(old)
    return [invalid(path, _NULL, "field cannot be set once created")] if new else []


def _reject_clear(field: Field, value: Any, old: Any, path: str) -> list[FieldError]:
    gone = field.has(old) and not field.has(value)
    return [invalid(path, _NULL, "field cannot be cleared once set")] if gone else []


def _reject_add(field: Field, value: Any, old: Any, path: str) -> list[FieldError]:
    """Reject new items, of a list whose items have names."""
    known = {item.get("name") for item in old or ()}
    return [
        forbidden_field(f"{path}[{index}]", "item may not be added")
        for index, item in enumerate(value or ())
        if item.get("name") not in known
    ]


def _reject_remove(field: Field, value: Any, old: Any, path: str) -> list[FieldError]:
    left = {item.get("name") for item in value or ()}
    gone = [item for item in old or () if item.get("name") not in left]
    return [forbidden_field(path, "item may not be removed") for _ in gone]


_UPDATES: dict[str, Callable[[Field, Any, Any, str], list[FieldError]]] = {
    "NoAddItem": _reject_add,
    "NoModify": _reject_modify,
    "NoRemoveItem": _reject_remove,
    "NoSet": _set,
    "NoUnset": _reject_clear,
}


def _check_forbidden(rule: Rule, field: Field) -> Check:
    return lambda value, _, site: [forbidden_field(site.path, "")] if field.has(value) else []


def _create_limit(low: bool) -> Callable[[Rule, Field], Check]:
    word = "greater" if low else "less"

    def make(rule: Rule, field: Field) -> Check:
        limit = int(rule.value)
        text = f"must be {word} than or equal to {limit}"

        def check(value: int | str, _: Any, site: Site) -> list[FieldError]:
            if isinstance(value, str):
                quantity, bound = Quantity.parse(value), Quantity(limit)
                fits = quantity >= bound if low else quantity <= bound
                return [] if fits else [invalid(site.path, str(quantity), text)]
            fits = value >= limit if low else value <= limit
            return [] if fits else [invalid(site.path, value, text)]

        return check

    return make


def _max_bytes(rule: Rule, field: Field) -> Check:
    limit = int(rule.value)
    return lambda value, _, site: [too_long(site.path, limit)] if len(value.encode()) > limit else []


def _max_length(rule: Rule, field: Field) -> Check:
    limit = int(rule.value)
    text = f"may not be more than {limit} characters"

    def check(value: str, _: Any, site: Site) -> list[FieldError]:
        return [FieldError(ErrorType.TOO_LONG, site.path, detail=text)] if len(value) > limit else []

    return check


def _format(rule: Rule, field: Field) -> Check:
    found = FORMATS[rule.value]
    return lambda value, _, site: found(value, site.path)


def _enum(rule: Rule, field: Field) -> Check:
    return lambda value, _, site: (
        [] if value in field.values else [not_supported(site.path, value, field.values)]
    )


def _check_monotonic(rule: Rule, field: Field) -> Check:
    """Return a check that rejects a smaller number than the old one."""

    def check(value: Any, old: Any, site: Site) -> list[FieldError]:
        if not site.update or value is None or old is None or value >= old:
            return []
        return [invalid(site.path, value, f"may not be decreased from {old}")]

    return check


SHORT_CIRCUIT: dict[str, Callable[[Rule, Field], Check]] = {
    "forbidden": _check_forbidden,
    "immutable": _check_immutable,
    "maxItems": _max_items,
    "maxProperties": _max_items,
    "required": _check_required,
    "update": _check_update,
}
PLAIN: dict[str, Callable[[Rule, Field], Check]] = {
    "enum": _enum,
    "format": _format,
    "maxBytes": _max_bytes,
    "maxLength": _max_length,
    "maximum": _create_limit(low=False),
    "minimum": _create_limit(low=True),
    "monotonic": _check_monotonic,
}

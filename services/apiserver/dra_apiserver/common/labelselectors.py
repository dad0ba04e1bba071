"""Validate label selectors in objects (`ValidateLabelSelector`)."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.common.objectmeta import validate_labels
from dra_apiserver.errors import FieldError, Verbatim, forbidden_field, invalid, missing_field


def check_label_selector(selector: JsonObject | None, path: str) -> list[FieldError]:
    """Validate labels and requirements."""
    if selector is None:
        return []
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        errors += check_requirement(requirement, f"{path}.matchExpressions[{index}]")
    return errors


def check_requirement(requirement: JsonObject, path: str, *, any_operator: bool = False) -> list[FieldError]:
    """Validate one requirement. With `any_operator`, requirements with unknown operators are accepted."""
    errors: list[FieldError] = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(
                missing_field(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{path}.values", text))
    elif not any_operator:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += names.label_name(requirement.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        errors += names.label_text(value, f"{path}.values[{index}]")
    return errors


def format_selector(selector: JsonObject | None) -> Any:
    """Return a selector for a message: in Go's order, without empty parts."""
    if selector is None:
        return Verbatim("null")
    shown: JsonObject = {}
    if selector.get("matchLabels"):
        shown["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    if selector.get("matchExpressions"):
        shown["matchExpressions"] = [
            {"key": one.get("key", ""), "operator": one.get("operator", "")}
            | ({"values": one["values"]} if one.get("values") else {})
            for one in selector["matchExpressions"]
        ]
    return shown

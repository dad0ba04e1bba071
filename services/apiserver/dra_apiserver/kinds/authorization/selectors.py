"""The selectors in an access review that authorizers can use.

Mirrors ``pkg/apis/authorization/validation`` and ``pkg/registry/authorization/util``.
"""

from __future__ import annotations

from dra_shared.fieldselectors import parse_field_selector
from dra_shared.jsontypes import JsonObject
from dra_shared.selectors import SelectorError, new_requirement, parse_label_selector

from dra_apiserver.common.labelselectors import check_requirement
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field

Fields = tuple[tuple[str, str], ...]

_PATH = "spec.resourceAttributes"
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def check_selectors(resource: JsonObject) -> list[FieldError]:
    """Check that a selector has either a text or requirements.

    Unknown operators, as of newer clients, are not checked.
    """
    errors: list[FieldError] = []
    for field in ("fieldSelector", "labelSelector"):
        selector, path = resource.get(field), f"{_PATH}.{field}"
        if selector is None:
            continue
        raw, requirements = selector.get("rawSelector") or "", selector.get("requirements") or ()
        if raw and requirements:
            text = "may not specified at the same time as requirements"
            errors.append(invalid(f"{path}.rawSelector", raw, text))
        if not raw and not requirements:
            text = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(missing_field(f"{path}.requirements", text))
        for index, one in enumerate(requirements):
            at = f"{path}.requirements[{index}]"
            if field == "labelSelector":
                errors += check_requirement(one, at, any_operator=True)
            else:
                errors += _check_field(one, at)
    return errors


def _check_field(requirement: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    if not requirement.get("key"):
        errors.append(missing_field(f"{path}.key", "must be specified"))
    if operator in ("In", "NotIn") and not values:
        errors.append(missing_field(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    if operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden_field(f"{path}.values", text))
    return errors


def selected_fields(resource: JsonObject) -> tuple[Fields, list[str]]:
    """Return the fields that a selector restricts to one value, and the errors of selectors that are ignored."""
    known, problems = _of_fields(resource.get("fieldSelector") or {})
    fields = tuple((field, value) for field, value, equal in known if equal)
    return fields, [*problems, *_of_labels(resource.get("labelSelector") or {})]


def _of_fields(selector: JsonObject) -> tuple[list[tuple[str, str, bool]], list[str]]:
    requirements = selector.get("requirements") or ()
    if not requirements:
        try:
            terms = parse_field_selector(selector.get("rawSelector") or "").terms
        except SelectorError:
            return [], [_ignored_message("fieldSelector", partially=False)]
        return [(term.field, term.value, term.equal) for term in terms], []
    known = [
        (one["key"], one["values"][0], one["operator"] == "In")
        for one in requirements
        if one.get("operator") in ("In", "NotIn") and len(one.get("values") or ()) == 1
    ]
    if len(known) == len(requirements):
        return known, []
    return known, [_ignored_message("fieldSelector", partially=bool(known))]


def _of_labels(selector: JsonObject) -> list[str]:
    requirements = selector.get("requirements") or ()
    known = 0
    for one in requirements:
        try:
            new_requirement(
                one.get("key") or "", _OPERATORS[one.get("operator") or ""], one.get("values") or ()
            )
        except (KeyError, SelectorError):
            continue
        known += 1
    if requirements:
        return [] if known == len(requirements) else [_ignored_message("labelSelector", partially=known > 0)]
    try:
        parse_label_selector(selector.get("rawSelector") or "")
    except SelectorError:
        return [_ignored_message("labelSelector", partially=False)]
    return []


def _ignored_message(field: str, *, partially: bool) -> str:
    return f"{_PATH}.{field} {'partially ' if partially else ''}ignored due to parse error"

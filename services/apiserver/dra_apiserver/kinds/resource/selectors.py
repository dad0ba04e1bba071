"""Validate CEL selectors, and the node selectors in slices and allocations."""

from __future__ import annotations

from dra_shared.cel import CompileError, Program, compile_expression
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37

from dra_apiserver.common import names
from dra_apiserver.errors import FieldError, forbidden_field, internal_field, invalid, missing_field, too_long
from dra_apiserver.kinds.resource.declared import limit
from dra_apiserver.kinds.resource.lists import Lists

SELECTORS = limit("ExactDeviceRequest", "selectors")
EXPRESSION_LENGTH = 10 * 1024
EXPRESSION_COST = 1_000_000

_FIELD_OPERATORS = ("In", "NotIn")


def check_selectors(
    selectors: list[JsonObject] | None, path: str, gates: FeatureGates, stored: bool = False
) -> list[FieldError]:
    """Validate the CEL selectors of a request or class. `stored` ones may use features of newer servers."""
    return Lists(gates.version).check_list(
        selectors, SELECTORS, lambda item, at: _check_selector(item, at, gates, stored), path
    )


def _check_selector(selector: JsonObject, path: str, gates: FeatureGates, stored: bool) -> list[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        return [missing_field(f"{path}.cel")]
    if stored and gates.version >= V1_37:
        return []
    at = f"{path}.cel.expression"
    program, errors = compile_checked(cel.get("expression", ""), at, gates, stored=stored)
    if program is not None and program.estimated_cost > EXPRESSION_COST:
        return [forbidden_field(at, "too complex, exceeds cost limit")]
    return errors


def compile_checked(
    expression: str, path: str, gates: FeatureGates, *, stored: bool = False, derived: bool = False
) -> tuple[Program | None, list[FieldError]]:
    """Return the program of an expression at the path, and its errors. The program is None if there are errors."""
    if len(expression.encode()) > EXPRESSION_LENGTH:
        return None, [too_long(path, EXPRESSION_LENGTH)]
    try:
        return compile_expression(expression, features=gates, stored=stored, derived=derived), []
    except CompileError as error:
        if error.kind == "internal":
            return None, [internal_field(path, str(error))]
        return None, [invalid(path, expression, str(error))]


def check_node_selector(selector: JsonObject, path: str) -> list[FieldError]:
    """Validate a NodeSelector: at least one term, each with well-formed expressions."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [missing_field(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        errors += check_node_selector_term(term, f"{path}.nodeSelectorTerms[{index}]")
    return errors


def check_node_selector_term(term: JsonObject, path: str) -> list[FieldError]:
    """Validate one term's requirements on a node's labels and fields."""
    errors: list[FieldError] = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        errors += _check_expression(expression, f"{path}.matchExpressions[{index}]")
    for index, expression in enumerate(term.get("matchFields") or ()):
        errors += _check_field(expression, f"{path}.matchFields[{index}]")
    return errors


def _check_expression(expression: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(missing_field(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{path}.values", text))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(missing_field(f"{path}.values", text))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += names.label_name(expression.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        errors += names.label_text(value, f"{path}.values[{index}]")
    return errors


def _check_field(expression: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator in _FIELD_OPERATORS:
        if len(values) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(missing_field(f"{path}.values", text))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = expression.get("key", "")
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
    else:
        for index, value in enumerate(values):
            errors += names.subdomain(value, f"{path}.values[{index}]")
    return errors

"""Quantities.

Mirrors k8s.io/apiserver/pkg/cel/library/quantity.go.
"""

from typing import Final

from dra_shared.cel.declarations import Function, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import estimate_scan, scan
from dra_shared.cel.values import DerivedQuantity
from dra_shared.quantity import Format, Quantity, QuantityError


def quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _derive(value: Quantity) -> DerivedQuantity:
    return DerivedQuantity(value.number, value.exponent, value.format, decimal=value.decimal)


def _as_int(value: Quantity) -> int:
    number = value.as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _whole(number: int) -> Quantity:
    return Quantity(number, 0, Format.DECIMAL_EXPONENT)


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "quantity",
        overload("string_to_quantity(string) Quantity", quantity),
        cost=scan(),
        estimate=estimate_scan(),
    ),
    function(
        "isQuantity",
        overload("is_quantity_string(string) bool", is_quantity),
        cost=scan(),
        estimate=estimate_scan(),
    ),
    # Upstream does not declare it as a member function.
    function("sign", overload("quantity_sign(Quantity) int", Quantity.sign)),
    function(
        "isGreaterThan",
        overload(".quantity_is_greater_than(Quantity, Quantity) bool", lambda a, b: a.compare(b) == 1),
    ),
    function(
        "isLessThan",
        overload(".quantity_is_less_than(Quantity, Quantity) bool", lambda a, b: a.compare(b) == -1),
    ),
    function("compareTo", overload(".quantity_compare_to(Quantity, Quantity) int", Quantity.compare)),
    function(
        "asApproximateFloat", overload(".quantity_get_float(Quantity) double", Quantity.as_approximate_float)
    ),
    function("asInteger", overload(".quantity_get_int(Quantity) int", _as_int)),
    function(
        "isInteger",
        overload(".quantity_is_integer(Quantity) bool", lambda value: value.as_int64() is not None),
    ),
    function(
        "add",
        overload(".quantity_add(Quantity, Quantity) Quantity", lambda a, b: _derive(a.add(b))),
        overload(".quantity_add_int(Quantity, int) Quantity", lambda a, b: _derive(a.add(_whole(b)))),
    ),
    function(
        "sub",
        overload(".quantity_sub(Quantity, Quantity) Quantity", lambda a, b: _derive(a.sub(b))),
        overload(".quantity_sub_int(Quantity, int) Quantity", lambda a, b: _derive(a.sub(_whole(b)))),
    ),
)

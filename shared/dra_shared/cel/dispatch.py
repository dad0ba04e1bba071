"""Choose the implementation of a call: by its overload, or by the types of its values if several overloads match.

Mirrors the planner's function resolution in cel-go's interpreter/planner.go and interpretable.go.
"""

from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel import types as t
from dra_shared.cel.declarations import Function, Implementation, Overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.types import NULLABLE, Kind, Type
from dra_shared.cel.values import NO_OVERLOAD, DerivedQuantity, is_list, is_map, type_name
from dra_shared.quantity import Quantity
from dra_shared.semver import Semver


def implementation(
    function: Function, overloads: Sequence[str], types: Sequence[Type], *, nulls: bool = True
) -> Implementation:
    """Return the implementation of a function whose arguments have ``types`` (the receiver first).

    ``nulls``: values may be null although their types do not show it.
    """
    if function.run is not None:
        return function.run
    overload = function.overload(overloads[0]) if len(overloads) == 1 else None
    if overload is not None and overload.run is not None:
        if function.checks_arguments or not any(_uncertain(type_, nulls) for type_ in types):
            return overload.run
        return _guard(function.name, overload, overload.run)
    return _dispatch_by_value(function)


#: The Python types of the values of CEL types without parameters.
_PYTHON_TYPES: Final[dict[Type, frozenset[type]]] = {
    t.STRING: frozenset((str,)),
    t.INT: frozenset((int,)),
    t.BOOL: frozenset((bool,)),
    t.QUANTITY: frozenset((Quantity, DerivedQuantity)),
    t.SEMVER: frozenset((Semver,)),
}


def _uncertain(type_: Type, nulls: bool) -> bool:
    """True if values of the type must be checked before use."""
    if type_.is_dyn or type_.kind in (Kind.PARAM, Kind.ERROR):
        return True
    return (nulls and type_.kind in NULLABLE) or any(_uncertain(part, nulls) for part in type_.params)


def matches_type(type_: Type, value: Any) -> bool:
    """True if the value is of the type. Like cel-go, look at a container's first element only."""
    if type_.is_dyn or type_.kind is Kind.PARAM:
        return True
    if type_.kind is Kind.LIST:
        return is_list(value) and (not value or matches_type(type_.params[0], value[0]))
    if type_.kind is Kind.MAP:
        if not is_map(value):
            return False
        first = next(iter(value.items()), None)
        return first is None or all(map(matches_type, type_.params, first))
    return type_name(value) == type_.name


def _no_overload(function: str, args: Sequence[Any]) -> EvaluationError:
    return EvaluationError(f"{NO_OVERLOAD}: {function}({', '.join(map(type_name, args))})")


def _guard(function: str, overload: Overload, run: Implementation) -> Implementation:
    wanted = overload.args
    simple = [_PYTHON_TYPES.get(type_) for type_ in wanted]
    if len(simple) == 1 and (only := simple[0]) is not None:

        def guarded_one(value: Any) -> Any:
            if type(value) not in only:
                raise _no_overload(function, (value,))
            return run(value)

        return guarded_one
    if len(simple) == 2 and (left := simple[0]) is not None and (right := simple[1]) is not None:

        def check_two(first: Any, second: Any) -> Any:
            if type(first) not in left or type(second) not in right:
                raise _no_overload(function, (first, second))
            return run(first, second)

        return check_two

    def check(*args: Any) -> Any:
        if not all(map(matches_type, wanted, args)):
            raise _no_overload(function, args)
        return run(*args)

    return check


def _dispatch_by_value(function: Function) -> Implementation:
    choices = [(item.args, item.run) for item in function.overloads if item.run is not None]

    def dispatch(*args: Any) -> Any:
        for wanted, run in choices:
            if len(wanted) == len(args) and all(map(matches_type, wanted, args)):
                return run(*args)
        raise _no_overload(function.name, args)

    return dispatch

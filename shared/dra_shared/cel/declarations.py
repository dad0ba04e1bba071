"""Declare CEL functions: name, overloads, types, code, runtime cost and estimate.

Mirrors cel-go's common/decls/decls.go. The modules of ``library`` declare all functions in this way:

    function("trim", overload(".string_trim(string) string", trim), cost=scan(), estimate=estimate_transform)
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra_shared.cel import types as t
from dra_shared.cel.ranges import ONE, Range
from dra_shared.cel.syntax import Expr
from dra_shared.cel.types import Kind, Type

#: Takes an overload's arguments (the receiver first); raises EvaluationError.
Implementation = Callable[..., Any]
#: Returns the runtime cost of a call from its arguments (the receiver first) and its result. FAILED stands for
#: an argument or a result that is an error.
CallCost = Callable[[Sequence[Any], Any], int]


class Failed:
    """A placeholder for an argument or result that is an error."""


FAILED: Final = Failed()


@dataclass(slots=True)
class Node:
    """An operand of a call, with the facts that are known before evaluation."""

    type: Type
    expr: Expr | None
    path: tuple[str, ...]
    size: Range | None


@dataclass(slots=True)
class Estimate:
    """The cost of a call without its operands, and the size of its result if it has one."""

    cost: Range
    size: Range | None = None


#: The worst case of a call. Takes the receiver and the other arguments; None for a cost of one.
Estimator = Callable[[Node | None, list[Node]], Estimate | None]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    ``params`` names its type parameters. ``cost`` and ``estimate`` default to those of the function. The code
    of an overload without ``run`` comes from ``compiler``, or from its function.
    """

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    params: tuple[str, ...]
    run: Implementation | None = None
    cost: CallCost | None = None
    estimate: Estimator | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function and all its overloads.

    ``run`` dispatches on the values, regardless of the overload that the checker found. ``cost`` and
    ``estimate`` apply to overloads without their own. ``cost`` also applies if several overloads match.
    Without any, a call costs one.
    """

    name: str
    overloads: tuple[Overload, ...]
    run: Implementation | None = None
    cost: CallCost | None = None
    estimate: Estimator | None = None
    #: True if the overloads' code checks the types of its arguments.
    checks_arguments: bool = False

    def overload(self, overload_id: str) -> Overload | None:
        return next((overload for overload in self.overloads if overload.id == overload_id), None)

    def call_cost(self, overload_id: str) -> CallCost:
        """Return the function that computes the cost of a call.

        ``overload_id`` is empty if several overloads match.
        """
        overload = self.overload(overload_id)
        own = overload.cost if overload is not None else None
        return own or self.cost or nominal

    def estimate_call(self, overload_id: str, target: Node | None, args: list[Node]) -> Estimate:
        """Estimate the highest cost of a call, without its operands."""
        overload = self.overload(overload_id)
        estimator = (overload.estimate if overload is not None else None) or self.estimate
        estimate = estimator(target, args) if estimator is not None else None
        return Estimate(ONE) if estimate is None else estimate


Functions = dict[str, Function]


def nominal(args: Sequence[Any], result: Any) -> int:
    """Return a cost of one."""
    return 1


def estimate_nominal(target: Node | None, args: list[Node]) -> Estimate:
    """Return an estimate of one."""
    return Estimate(ONE)


def function(
    name: str,
    *overloads: Overload,
    run: Implementation | None = None,
    cost: CallCost | None = None,
    estimate: Estimator | None = None,
    checks_arguments: bool = False,
) -> Function:
    """Declare a function, or more overloads of a function that another topic declares too."""
    return Function(name, overloads, run, cost, estimate, checks_arguments)


def overload(
    signature: str,
    run: Implementation | None = None,
    *,
    cost: CallCost | None = None,
    estimate: Estimator | None = None,
) -> Overload:
    """Declare an overload: ``id(type, ...) result``, with a leading dot for a member function.

    Names that are not types are type parameters: ``.list_first(list<V>) optional<V>``.
    """
    match = re.fullmatch(r"(\.?)([^(]+)\((.*)\) (.+)", signature)
    if match is None:
        raise ValueError(f"bad overload {signature!r}")
    args = tuple(_parse_types(match[3]))
    (result,) = _parse_types(match[4])
    params = _parameters((result, *args))
    return Overload(match[2], match[1] == ".", args, result, params, run, cost, estimate)


#: The types that signatures name.
NAMED: Final = {
    "bool": t.BOOL, "bytes": t.BYTES, "double": t.DOUBLE, "duration": t.DURATION, "dyn": t.DYN, "int": t.INT,
    "string": t.STRING, "timestamp": t.TIMESTAMP, "uint": t.UINT, "Quantity": t.QUANTITY, "Semver": t.SEMVER,
    "URL": t.URL, "Format": t.FORMAT, "IP": t.IP, "CIDR": t.CIDR,
    **t.AUTHORIZATION,
}  # fmt: skip
_GENERIC: Final[dict[str, Callable[..., Type]]] = {
    "list": t.list_of,
    "map": t.map_of,
    "optional": t.optional_of,
    "type": t.type_of,
}
_NAME: Final = re.compile(r"\s*(\w+)")


def _parse_types(text: str) -> list[Type]:
    """Parse a comma-separated list of types."""
    found: list[Type] = []
    at = 0
    while at < len(text):
        match = _NAME.match(text, at)
        if match is None:
            raise ValueError(f"bad types {text!r}")
        name, at = match[1], match.end()
        if text[at : at + 1] == "<":
            depth, end = 1, at + 1
            while depth:
                depth += {"<": 1, ">": -1}.get(text[end], 0)
                end += 1
            found.append(_GENERIC[name](*_parse_types(text[at + 1 : end - 1])))
            at = end
        else:
            found.append(NAMED.get(name) or t.param(name))
        at += 1
    return found


def _parameters(types: tuple[Type, ...]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    pending = list(types)
    while pending:
        current = pending.pop(0)
        if current.kind is Kind.PARAM:
            names[current.name] = None
        pending.extend(current.params)
    return tuple(names)

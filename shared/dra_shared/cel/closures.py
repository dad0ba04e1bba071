"""The closures of calls, with or without cost accounting (cel-go's `interpreter/interpretable.go`)."""

from collections.abc import Sequence
from typing import Any

from dra_shared.cel.attributes import Code, Frame, Run, charge
from dra_shared.cel.declarations import FAILED, CallCost, Implementation
from dra_shared.cel.equality import equal
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.lists import failed_list
from dra_shared.cel.library.patterns import compile_regex
from dra_shared.cel.values import NO_OVERLOAD, OptionalValue


def or_panic(run: Run) -> Run:
    def check_list(frame: Frame) -> Any:
        try:
            return run(frame)
        except EvaluationError:
            raise failed_list() from None

    return check_list


def fail(frame: Frame) -> Any:
    raise AssertionError("a loop over a predicate has no other parts")


def logic(left: Run, right: Run, absorbing: bool) -> Run:
    """Compile ``&&`` (absorbing False) or ``||`` (absorbing True). An absorbing operand hides errors."""
    neutral = not absorbing

    def run(frame: Frame) -> Any:
        try:
            value = left(frame)
        except EvaluationError as error:
            failure = error
        else:
            if value is absorbing:
                return absorbing
            if value is neutral:
                value = right(frame)
                if value is absorbing or value is neutral:
                    return value
                raise EvaluationError(NO_OVERLOAD)
            failure = EvaluationError(NO_OVERLOAD)
        try:
            value = right(frame)
        except EvaluationError:
            raise failure from None
        if value is absorbing:
            return absorbing
        raise failure

    return run


def or_value(left: Run, right: Run, *, unwrap: bool) -> Run:
    def run(frame: Frame) -> Any:
        value = left(frame)
        # Upstream returns values that are not optional unchanged.
        if type(value) is not OptionalValue:
            return value
        if value.present:
            return value.value if unwrap else value
        return right(frame)

    return run


def matcher(pattern: str) -> Implementation:
    search = compile_regex(pattern).search

    def matches(text: Any, _: Any) -> bool:
        if type(text) is not str:
            raise EvaluationError(NO_OVERLOAD)
        return search(text) is not None

    return matches


def for_text(run: Implementation) -> Implementation:
    def search(text: Any, *rest: Any) -> Any:
        if type(text) is not str:
            raise EvaluationError(NO_OVERLOAD)
        return run(text, *rest)

    return search


def untracked_call(function: str, run: Implementation, args: Sequence[Code]) -> Run:
    if args and all(arg.is_const for arg in args):
        try:
            known = run(*[arg.value for arg in args])
        except Exception:
            # An expression that fails must fail on each evaluation, so failures are not cached.
            known = None
        if known is not None:
            return lambda frame: known
    if len(args) == 2:
        left, right = args[0].run, args[1].run
        if args[1].is_const:
            value = args[1].value
            if function == "_==_" and type(value) is str:
                return _equals_text(left, value)
            return lambda frame: run(left(frame), value)
        if function == "_==_":
            return lambda frame: equal(left(frame), right(frame))
        return lambda frame: run(left(frame), right(frame))
    if len(args) == 1:
        only = args[0].run
        return lambda frame: run(only(frame))
    runs = [arg.run for arg in args]
    return lambda frame: run(*[arg(frame) for arg in runs])


def _equals_text(left: Run, text: str) -> Run:
    def run(frame: Frame) -> bool:
        value = left(frame)
        return value == text if type(value) is str else equal(value, text)

    return run


def early_call(run: Implementation, runs: Sequence[Run], cost: CallCost) -> Run:
    """Compile a call that stops at the first argument that fails.

    A failed call is only charged if all arguments but the last one succeeded.
    """
    if not runs:
        return lambda frame: _finish(frame, run, (), cost)
    *first, last = runs

    def call(frame: Frame) -> Any:
        args = [arg(frame) for arg in first]
        try:
            args.append(last(frame))
        except EvaluationError:
            charge(frame, cost([*args, FAILED], FAILED))
            raise
        return _finish(frame, run, args, cost)

    return call


def strict_call(run: Implementation, runs: Sequence[Run], cost: CallCost) -> Run:
    """Compile a call of cel-go 0.33 or newer: it stops at the first argument that fails, and costs nothing then."""

    def call(frame: Frame) -> Any:
        return _finish(frame, run, [arg(frame) for arg in runs], cost)

    return call


def strict_operator(run: Implementation, runs: Sequence[Run], cost: CallCost) -> Run:
    """Compile ``==``, ``!=`` or ``!`` of cel-go 0.33 or newer, which has a cost even if an argument fails."""

    def call(frame: Frame) -> Any:
        args: list[Any] = []
        for arg in runs:
            try:
                args.append(arg(frame))
            except EvaluationError:
                charge(frame, cost([*args, *[FAILED] * (len(runs) - len(args))], FAILED))
                raise
        return _finish(frame, run, args, cost)

    return call


def _finish(frame: Frame, run: Implementation, args: Sequence[Any], cost: CallCost) -> Any:
    try:
        value = run(*args)
    except EvaluationError:
        charge(frame, cost(args, FAILED))
        raise
    charge(frame, cost(args, value))
    return value


def tracked_call(run: Implementation, runs: Sequence[Run], cost: CallCost) -> Run:
    """Compile a call with at most two arguments, all of which are evaluated even if one fails."""

    def call(frame: Frame) -> Any:
        args: list[Any] = []
        failure: EvaluationError | None = None
        for arg in runs:
            try:
                args.append(arg(frame))
            except EvaluationError as error:
                failure = failure or error
                args.append(FAILED)
        if failure is not None:
            charge(frame, cost(args, FAILED))
            raise failure
        return _finish(frame, run, args, cost)

    return call

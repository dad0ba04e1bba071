"""Comprehensions: loops with an accumulator, and bindings, which are loops over an empty list.

Mirrors evalFold of cel-go's interpreter/interpretable.go.
"""

from dataclasses import dataclass
from typing import Any, Final

from dra_shared.cel.attributes import Frame, Run
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.values import NO_OVERLOAD, go_type, is_list, is_map


class _Pending:
    """A variable that has not been read yet."""


class _Failure:
    """A variable whose value is an error."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


_PENDING: Final = _Pending()


@dataclass(frozen=True, slots=True)
class Fold:
    """The positions of a loop's variables in the frame."""

    accumulator: int
    first: int
    second: int | None

    def read_accumulator(self, initial: Run) -> Run:
        """Return code that reads the accumulator. Its initial value is computed on the first read."""
        slot = self.accumulator

        def read(frame: Frame) -> Any:
            value = frame[slot]
            if value is _PENDING:
                try:
                    value = initial(frame)
                except EvaluationError as error:
                    value = _Failure(error)
                if type(value) is list and not value:
                    value = []
                elif type(value) is dict and not value:
                    value = {}
                frame[slot] = value
            if type(value) is _Failure:
                raise value.error
            return value

        return read

    def read_first(self) -> Run:
        slot = self.first
        return lambda frame: frame[slot]

    def read_second(self) -> Run:
        slot = self.second if self.second is not None else self.first
        return lambda frame: frame[slot]


def fold_code(
    fold: Fold, ranged: Run, condition: Run, step: Run, result: Run, predicate: tuple[bool, Run] | None
) -> Run:
    """Return the code of a loop.

    With a ``predicate`` (``exists``: True, ``all``: False), the condition and the step are not needed.
    """
    loop = _general(fold, condition, step, result) if predicate is None else _quantifier(fold, *predicate)

    def run(frame: Frame) -> Any:
        values = ranged(frame)
        if fold.second is not None:
            return loop(frame, _pairs(values))
        if not is_list(values) and not is_map(values):
            raise EvaluationError(f"got '{go_type(values)}', expected iterable type")
        return loop(frame, values)

    return run


def _pairs(values: Any) -> Any:
    if is_map(values):
        return values.items()
    if is_list(values):
        return enumerate(values)
    raise EvaluationError(f"unsupported comprehension range type: {go_type(values)}")


def _general(fold: Fold, condition: Run, step: Run, result: Run) -> Any:
    accumulator, first, second = fold.accumulator, fold.first, fold.second

    def loop(frame: Frame, values: Any) -> Any:
        frame[accumulator] = _PENDING
        for value in values:
            if second is None:
                frame[first] = value
            else:
                frame[first], frame[second] = value
            try:
                proceed = condition(frame)
            except EvaluationError:
                proceed = True
            if proceed is False:
                break
            try:
                frame[accumulator] = step(frame)
            except EvaluationError as error:
                frame[accumulator] = _Failure(error)
        return result(frame)

    return loop


def _quantifier(fold: Fold, wanted: bool, predicate: Run) -> Any:
    first, second = fold.first, fold.second

    def loop(frame: Frame, values: Any) -> Any:
        failure: EvaluationError | None = None
        for value in values:
            if second is None:
                frame[first] = value
            else:
                frame[first], frame[second] = value
            try:
                answer = predicate(frame)
            except EvaluationError as error:
                failure = failure or error
                continue
            if answer is wanted:
                return wanted
            if type(answer) is not bool:
                failure = failure or EvaluationError(NO_OVERLOAD)
        if failure is not None:
            raise failure
        return not wanted

    return loop

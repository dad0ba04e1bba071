"""Work that is counted instead of timed: executed Python lines and calls, which are equal in every run."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from unittest import mock

import orjson

from tests.support.reference import REPOSITORY

Step = Callable[[], object]
# The steps for each pair of items above which a test reports a walk over all pairs. The minimum is half a
# line: each item is searched in a list and found halfway.
_LEAST = 0.1


class CountedString(str):
    """A string whose comparisons are calls."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return str.__ne__(self, other)


@contextlib.contextmanager
def counted_strings() -> Iterator[None]:
    """Have documents that are decoded meanwhile consist of counted strings."""
    loads = orjson.loads

    def load_counted(document: bytes | str) -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return _count_strings(loads(document))
        finally:
            sys.settrace(tracer)

    with mock.patch.object(orjson, "loads", load_counted):
        yield


def _count_strings(value: Any) -> Any:
    if isinstance(value, str):
        return CountedString(value)
    if isinstance(value, list):
        return [_count_strings(item) for item in value]
    return {key: _count_strings(item) for key, item in value.items()} if isinstance(value, dict) else value


def work(step: Step) -> int:
    """Return the number of calls and lines that a step executes."""
    count = 0

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return line

    def call(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return line if _is_ours(frame.f_code.co_filename) else None

    tracer = sys.gettrace()
    gc.disable()
    sys.settrace(call)
    try:
        step()
    finally:
        sys.settrace(tracer)
        gc.enable()
    return count


def _is_ours(filename: str) -> bool:
    return "/dra_" in filename or filename.startswith(f"{REPOSITORY}/tests/")


def is_quadratic(made: Callable[[int], Step], length: int) -> bool:
    """True if the work grows with the square of the length.

    Of three lengths in equal steps the second difference is 0 where the work is linear, however large its constant
    part, and twice the square of the length for each event of a pair where it is quadratic.
    """
    one, two, three = (work(made(length * times)) for times in (1, 2, 3))
    return three - 2 * two + one > _LEAST * 2 * length**2

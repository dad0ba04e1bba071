"""Tables of cases. Each table is checked by one test."""

import contextlib
import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

Case = TypeVar("Case")
# The frames of an error's traceback that show where a case failed. An assertion already says it in words.
_FRAMES = -3
# Seconds for all cases of a table. pytest's limit for a test is too short for hundreds of them on a busy machine.
_TIMEOUT = 600


def check_all(cases: Iterable[tuple[str, Case]], check: Callable[[Case], None]) -> None:
    """Check every case, even if others fail.

    ``cases`` are names and cases; ``check`` raises for a case that fails. The test fails if there is no case, or with
    the name of each that failed and what it says.
    """
    table = list(cases)
    failed: list[str] = []
    for name, case in table:
        with _record_failure(functools.partial(str, name), failed):
            check(case)
    _report(failed, len(table))


def each_case(
    names: str | Sequence[str],
    cases: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let one test check every case, even if other cases fail. Takes the arguments of ``parametrize``.

    Parametrization makes a test of each case. All workers of xdist collect it, and it has fixtures and reports of its
    own, which takes more time than most cases. A case may skip itself. The cases share the fixtures of the test.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = list(_name_cases(arguments, cases, ids))

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def check(**fixtures: Any) -> None:
            failed: list[str] = []
            for name, values in table:
                with _record_failure(name, failed):
                    test(**values, **fixtures)
            _report(failed, len(table))

        @functools.wraps(test)
        async def check_coroutine(**fixtures: Any) -> None:
            failed: list[str] = []
            for name, values in table:
                with _record_failure(name, failed):
                    await test(**values, **fixtures)
            _report(failed, len(table))

        made: Any = check_coroutine if inspect.iscoroutinefunction(test) else check
        # pytest reads from it which fixtures the test needs.
        parameters = inspect.signature(test).parameters.values()
        made.__signature__ = inspect.Signature([one for one in parameters if one.name not in arguments])
        limited: Callable[..., Any] = pytest.mark.timeout(_TIMEOUT)(made)
        return limited

    return decorate


def _name_cases(
    arguments: Sequence[str], cases: Iterable[Any], ids: Callable[[Any], object] | Iterable[str] | None
) -> Iterator[tuple[Callable[[], str], dict[str, Any]]]:
    """Yield each case: a function that returns its name, and its arguments.

    Only a case that fails needs its name, and the text of a large case takes longer than its check.
    """
    given = iter(ids) if ids is not None and not callable(ids) else None
    make = ids if callable(ids) else str
    for case in cases:
        if isinstance(case, ParameterSet):
            assert not case.marks, "the cases have no marks of their own"
            values, name = case.values, case.id
        else:
            values, name = ((case,) if len(arguments) == 1 else case), None
        if given is not None:
            name = next(given)
        yield functools.partial(_join, name, make, values), dict(zip(arguments, values, strict=True))


def _join(name: object, make: Callable[[Any], object], values: Sequence[Any]) -> str:
    return str(name or "-".join(str(make(value)) for value in values))


@contextlib.contextmanager
def _record_failure(name: Callable[[], str], failed: list[str]) -> Iterator[None]:
    try:
        yield
    except pytest.skip.Exception:
        return
    except Exception as error:
        failed.append(f"{name()}: {_reason(error)}")


def _report(failed: Sequence[str], count: int) -> None:
    if not count:
        pytest.fail("there is no case", pytrace=False)
    if failed:
        pytest.fail("\n".join([f"{len(failed)} of {count} cases fail:", *failed]), pytrace=False)


def _reason(error: Exception) -> str:
    if isinstance(error, AssertionError) and str(error):
        return str(error)
    return "".join(traceback.format_exception(error, limit=_FRAMES)).rstrip()

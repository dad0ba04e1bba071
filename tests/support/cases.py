"""Tables of cases. Each table is checked by one test."""

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")
# The frames of an error's traceback that show where a case failed. An assertion already says it in words.
_FRAMES = -3


def check_all(cases: Iterable[tuple[str, Case]], check: Callable[[Case], None]) -> None:
    """Check every case, even if others fail.

    ``cases`` are names and cases; ``check`` raises for a case that fails. The test fails if there is no case, or with
    the name of each that failed and what it says.
    """
    table = list(cases)
    failed: list[str] = []
    for name, case in table:
        try:
            check(case)
        except Exception as error:
            failed.append(f"{name}: {_reason(error)}")
    if not table:
        pytest.fail("there is no case", pytrace=False)
    if failed:
        pytest.fail("\n".join([f"{len(failed)} of {len(table)} cases fail:", *failed]), pytrace=False)


def _reason(error: Exception) -> str:
    if isinstance(error, AssertionError) and str(error):
        return str(error)
    return "".join(traceback.format_exception(error, limit=_FRAMES)).rstrip()

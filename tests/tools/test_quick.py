"""``make quick`` leaves out tests that start a process or open a socket."""

from pathlib import Path

from tests.support.cases import each_case
from tests.support.quick import Quick
from tests.support.reference import REPOSITORY

_TESTS = REPOSITORY / "tests"


@each_case(
    ("path", "ignored"),
    [
        ("integration", True),
        ("conformance", True),
        ("scheduler", None),
        ("scheduler/test_preemption.py", None),
        ("shared/test_listening.py", True),
        ("controller/test_takeover.py", True),
        ("apiserver/kinds/custom/test_follow.py", True),
        ("apiserver/kinds/custom/test_checks.py", None),
        # It imports helpers that import each other.
        ("driver_conformance/test_show.py", None),
    ],
)
def test_modules_that_start_processes_or_open_sockets_are_left_out(path: str, ignored: bool | None) -> None:
    assert Quick().pytest_ignore_collect(Path(_TESTS, path)) is ignored

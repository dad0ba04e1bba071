"""CI runs failed tests again, once, and names those that pass then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.reference import REPOSITORY
from tools.flaky import Failure, are_flaky

_CONFTEST = """
from tests.support import failures

def pytest_configure(config):
    failures.register(config)
"""
_FAILS_ONCE = """
import os
from pathlib import Path

def test_{name}():
    mark = Path(__file__).with_suffix(".mark")
    seen = mark.exists()
    mark.touch()
    print("hash seed", os.environ["PYTHONHASHSEED"])
    assert seen, "the first time"
"""
_FAILS = "def test_fails():\n    assert False\n"
_PASSES = "def test_passes():\n    pass\n"
_BROKEN = "import no_such_module\n"


def _run(folder: Path, modules: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    # Loading the other plugins takes longer than the tests.
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, "-m", "tools.flaky", *command],
        cwd=folder,
        env={**environment, "GITHUB_STEP_SUMMARY": str(folder / "summary")},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("arguments", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_run_passes_if_a_failed_test_passes_when_repeated(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    modules = {"once": _FAILS_ONCE.format(name="once"), "good": _PASSES}
    done = _run(tmp_path, modules, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    report = done.stdout[done.stdout.index("FLAKY: 1 failed first") :]
    assert "FLAKY test_once.py::test_once\n" in report
    assert "the first time" in report
    assert report.strip() in (tmp_path / "summary").read_text()
    seed = report.partition("(PYTHONHASHSEED=")[2].partition(")")[0]
    assert f"hash seed {seed}" in report


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (
            {"fails": _FAILS, "once": _FAILS_ONCE.format(name="once")},
            "test_fails.py::test_fails failed twice",
        ),
        ({"broken": _BROKEN}, "No module named 'no_such_module'"),
        (
            {name: _FAILS_ONCE.format(name=name) for name in ("a", "b", "c", "d")},
            "4 tests failed: no more than 3 are run again",
        ),
    ],
    ids=["fails twice", "does not import", "too many"],
)
def test_run_fails_if_failures_are_real_or_many(
    tmp_path: Path, modules: dict[str, str], message: str
) -> None:
    done = _run(tmp_path, modules)
    assert done.returncode != 0
    assert message in done.stdout
    assert not (tmp_path / "summary").exists()


def test_command_that_fails_before_its_tests_is_not_repeated() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.flaky", sys.executable, "-c", "raise SystemExit(3)"], cwd=REPOSITORY
    )
    assert done.returncode == 3


@pytest.mark.parametrize("status", [None, 2, 3])
def test_interrupted_run_is_not_flaky(status: int | None) -> None:
    assert not are_flaky([Failure("test_a.py::test_a", "")], status, lambda test: 0)

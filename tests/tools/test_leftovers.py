"""A run of the tests fails if it leaves a process or a file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.reference import REPOSITORY

# The marker of the run that this test is a part of.
_OUTER = ("DRALAB_TEST_RUN", "DRALAB_TEST_RUN_CHECKER")
_CONFTEST = """
from pathlib import Path
from tests.support import leftovers

leftovers._END_SECONDS = 1.0
leftovers._FOLDERS = (Path(__file__).parent / "tmp",)

def pytest_configure(config):
    leftovers.register(config)
"""
_LEAVES_A_PROCESS = """
import subprocess, sys

def test_starts_a_daemon():
    code = "import time; time.sleep(600)"
    subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], start_new_session=True).returncode = 0
"""
_LEAVES_A_FILE = """
from pathlib import Path

def test_writes_a_file():
    (Path(__file__).parent / "tmp" / "dk3x_9abc").write_text("")
    (Path(__file__).parent / "tmp" / "of-another-program").write_text("")
"""


def _run(folder: Path, test: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir()
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(test)
    inherited = {name: value for name, value in os.environ.items() if name not in ("CI", *_OUTER)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        # Loading the other plugins takes longer than the test.
        env={
            **inherited,
            "PYTHONPATH": str(REPOSITORY),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **environment,
        },
        capture_output=True,
        text=True,
    )


def test_run_fails_if_a_process_is_left(tmp_path: Path) -> None:
    done = _run(tmp_path, _LEAVES_A_PROCESS)
    assert done.returncode == 1
    pids = [
        int(line.split()[1].rstrip(":")) for line in done.stdout.splitlines() if line.startswith("process ")
    ]
    for pid in pids:
        os.kill(pid, 9)
    assert len(pids) == 1


@pytest.mark.parametrize(("environment", "status"), [({"CI": "true"}, 1), ({}, 0)], ids=["CI", "elsewhere"])
def test_run_fails_in_ci_if_a_file_is_left(tmp_path: Path, environment: dict[str, str], status: int) -> None:
    done = _run(tmp_path, _LEAVES_A_FILE, **environment)
    assert done.returncode == status
    assert (f"{tmp_path}/tmp/dk3x_9abc\n" in done.stdout) == bool(status)
    assert "of-another-program" not in done.stdout

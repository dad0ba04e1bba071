"""The tests of a module run in one worker, and slow modules run first."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.reference import REPOSITORY
from tests.support.spreading import folders_from, group

_CONFTEST = """
from tests.conftest import pytest_collection_modifyitems, pytest_xdist_make_scheduler

def pytest_configure(config):
    config.addinivalue_line("markers", "slow")
"""
_MODULES = {
    "test_a": "def test_one(): pass\ndef test_two(): pass\n",
    "test_b": "def test_one(): pass\ndef test_two(): pass\n",
    "test_c": "import pytest\n@pytest.mark.slow\ndef test_one(): pass\n",
    "test_d": "import pytest\npytestmark = pytest.mark.slow\ndef test_one(): pass\ndef test_two(): pass\n",
}


@pytest.mark.parametrize(
    ("nodeid", "wanted"),
    [
        ("tests/cli/test_main.py::test_it[a::b/c]", "tests/cli/test_main.py"),
        ("tests/integration/clients/test_kr8s.py::test_it", "tests/integration/clients"),
        ("tests/packaging/test_dist.py::test_it", "tests/packaging"),
        (
            "tests/docs/test_commands.py::test_it[docs/cli.md]",
            "tests/docs/test_commands.py::test_it[docs/cli.md]",
        ),
    ],
)
def test_tests_are_grouped_by_module_unless_their_folder_shares_fixtures(nodeid: str, wanted: str) -> None:
    assert group(nodeid) == wanted


def test_each_worker_starts_collecting_at_a_different_quarter_of_the_modules(tmp_path: Path) -> None:
    for folder, modules in {"a": 3, "b": 2, "c": 3, "d": 4, "without_tests": 0}.items():
        (tmp_path / folder).mkdir()
        for number in range(modules):
            (tmp_path / folder / f"test_{number}.py").touch()

    orders = [folders_from(tmp_path, worker, 4) for worker in range(4)]

    assert ["".join(path.name for path in order) for order in orders] == ["abcd", "bcda", "cdab", "dabc"]


@pytest.mark.system
def test_modules_stay_whole_and_slow_ones_come_first(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    for name, text in _MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    options = ("-v", "-p", "xdist", "-n", "2", "--rootdir", ".", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    result = subprocess.run(
        command,
        cwd=tmp_path,
        # Loading the other plugins takes longer than the tests.
        env={**environment, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    ran: dict[str, list[str]] = defaultdict(list)
    for worker, module in re.findall(r"^\[(gw\d)\].* PASSED (test_\w)", result.stdout, re.MULTILINE):
        ran[worker].append(module)
    assert sum(map(len, ran.values())) == 7, result.stdout + result.stderr
    first = {modules[0] for modules in ran.values()}
    assert first == {"test_c", "test_d"}
    assert not set(ran["gw0"]) & set(ran["gw1"])

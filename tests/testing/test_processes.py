"""``dralab up`` as a child process of the program that uses it in tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop
from dra_shared.errors import UserError
from dra_testing.options import Options
from dra_testing.processes import Processes

from tests.support.reference import REPOSITORY
from tests.support.waiting import blocking_until, is_running

#: One entry for each call of this process's fork handlers, which cannot be removed.
_FORKS: list[None] = []


def test_a_cluster_of_processes_starts_without_forking_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    os.register_at_fork(before=lambda: _FORKS.append(None))

    async def start() -> None:
        with pytest.raises(UserError, match="dralab up ended"):
            async with Processes(Options(), tmp_path):
                pass

    # The event loop of dralab.testing, which forks when it starts a program itself.
    uvloop.run(start())
    assert _FORKS == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_cluster_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.testing.orphaned", str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
    assert len(pids) > 1
    blocking_until(lambda: not any(map(is_running, pids)))

"""``dralab up`` as a child of the program that tests with it."""

import os
import sys
from pathlib import Path

import pytest
import uvloop
from dra_cli.errors import CommandError
from dralab.testing.options import Options
from dralab.testing.processes import Processes

#: One a call of this process's handlers of forks, which can not be taken back.
_FORKS: list[None] = []


def test_a_cluster_of_processes_starts_without_a_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    os.register_at_fork(before=lambda: _FORKS.append(None))

    async def start() -> None:
        with pytest.raises(CommandError, match="dralab up ended"):
            async with Processes(Options(), tmp_path):
                pass

    # The loop of dralab.testing, which forks for a program that it starts itself.
    uvloop.run(start())
    assert _FORKS == []

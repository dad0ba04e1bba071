"""Clusters whose services are forks of one process that runs as long as a command."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_cli.commandline import run
from dra_cli.commands import warm as command
from dra_lab import forkserver
from dra_lab.forkserver import ADDRESS, SERVERS, ForkServer, connect, fork_servers
from dra_lab.warm import Warm
from dra_shared.errors import UserError

from tests.support.reference import REPOSITORY
from tests.support.waiting import blocking_until

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm() as process:
        yield process


@pytest.fixture
def use_warm_process(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, warm.environment[ADDRESS])


def test_a_service_is_forked_from_the_warm_process_with_the_local_environment(
    warm: Warm, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "tests.lab.forking", str(tmp_path), "starts"]
    result = subprocess.run(
        words,
        cwd=REPOSITORY,
        env={**os.environ, **warm.environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert (seen["parent"], seen["left"]) == (False, False)
    assert (seen["session"], seen["folder"], seen["input"], seen["output"]) == (
        True,
        True,
        "pipe:",
        "one.log",
    )


@pytest.mark.usefixtures("use_warm_process")
def test_one_fork_server_serves_all_services() -> None:
    (server,) = fork_servers()
    assert sorted(server.modules) == sorted(module for modules, _ in SERVERS for module in modules)
    server.close()


@pytest.mark.usefixtures("use_warm_process")
def test_fork_servers_are_closed_if_options_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ForkServer] = []

    def record_servers() -> list[ForkServer]:
        made.extend(fork_servers())
        return made

    monkeypatch.setattr(forkserver, "fork_servers", record_servers)
    with pytest.raises(UserError, match="cannot read none"):
        run("up", ["--images", "none.yaml"])
    assert [server.works for server in made] == [False]


@pytest.mark.usefixtures("use_warm_process")
def test_a_warm_process_of_another_installation_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert connect() is None


def test_a_warm_process_that_has_ended_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Warm() as process:
        monkeypatch.setenv(ADDRESS, process.environment[ADDRESS])
    assert connect() is None
    assert not Path(process.environment[ADDRESS]).parent.exists()


def test_a_killed_warm_command_leaves_no_folder() -> None:
    script = (
        "import os; from dra_lab.warm import Warm; "
        "print(*Warm().environment.values(), flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert killed.returncode == -9
    folder = Path(killed.stdout.strip()).parent
    assert folder.name.startswith("dralab-warm-")
    blocking_until(lambda: not folder.exists())


def test_the_command_has_the_exit_code_of_what_it_runs() -> None:
    script = f'test -S "${ADDRESS}" && exit 7'
    result = subprocess.run([sys.executable, "-m", "dralab", "warm", "--", "sh", "-c", script], check=False)
    assert result.returncode == 7


def test_the_warm_command_requires_a_command_to_run() -> None:
    from dra_cli.commandline import parser

    with pytest.raises(UserError, match="say what to run"):
        command.run(parser("warm").read([]))

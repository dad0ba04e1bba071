"""Services that are forked from a process with their modules imported."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from dra_lab.forkserver import ADDRESS, SERVERS, fork_servers

from tests.docs.test_docs import SERVICES
from tests.support.reference import REPOSITORY
from tests.support.waiting import blocking_until, is_running

pytestmark = pytest.mark.system


def _run_case(folder: Path, case: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.lab.forking", str(folder), case]
    environment = {name: value for name, value in os.environ.items() if name != ADDRESS}
    result = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert result.returncode == 0, result.stderr
    seen: dict[str, Any] = json.loads(result.stdout)
    assert (seen.pop("left"), seen.pop("server")) == (False, False)
    return seen


def test_a_service_is_a_fork_with_its_own_session_files_and_name(tmp_path: Path) -> None:
    assert _run_case(tmp_path, "starts") == {
        "parent": True,
        "session": True,
        "folder": True,
        "name": "tests",
        "input": "pipe:",
        "output": "one.log",
    }


def test_a_killed_fork_is_reported_and_restarted(tmp_path: Path) -> None:
    assert _run_case(tmp_path, "restarts")["lines"] == [
        f"one was killed by SIGKILL; restarting it in 0.25 s (log: {tmp_path}/one.log)"
    ]


def test_services_of_a_killed_supervisor_end_even_if_they_are_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.lab.forking", str(tmp_path), "orphans"]
    environment = {name: value for name, value in os.environ.items() if name != ADDRESS}
    killed = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    pids = killed.stdout.split()
    assert len(pids) == 2, killed.stderr
    blocking_until(lambda: not any(is_running(int(pid)) for pid in pids))


def test_services_are_executed_without_the_fork_server(tmp_path: Path) -> None:
    seen = _run_case(tmp_path, "loses")
    assert (seen["works"], seen["executed"]) == (False, True)
    assert "one was killed by SIGKILL" in seen["lines"][0]


def test_exit_code_and_last_message_of_a_fork_are_reported(tmp_path: Path) -> None:
    seen = _run_case(tmp_path, "refuses")
    assert seen["code"] == 2
    assert "one does not start: no such GPU" in seen["error"]
    assert seen["restarts"] == {"one": 0}


def test_a_process_with_threads_uses_no_fork_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert fork_servers() == []
    finally:
        done.set()
        thread.join()


def test_every_service_of_a_cluster_has_a_fork_server() -> None:
    listed = [module for modules, _ in SERVERS for module in modules]
    assert sorted(listed) == sorted(f"{package}.main" for package in SERVICES)

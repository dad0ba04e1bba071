"""Fail a run of the tests that leaves a process, or a file in /tmp or /dev/shm.

Processes are known by an environment variable that they inherit, also through daemons and sessions of their own. `make
unit` sets it, because clusters are forks of a process that `dralab warm` starts before pytest. Files are known by their
time and by names of Python's tempfile. They are only looked at in CI, where no other run of the tests writes there.
"""

import contextlib
import os
import re
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support.waiting import blocking_until

_VARIABLE = "DRALAB_TEST_RUN"
# The process that checks. Runs that tests start leave the check to it.
_CHECKER = "DRALAB_TEST_RUN_CHECKER"
_FOLDERS = (Path("/tmp"), Path("/dev/shm"))
# Processes that were just asked to exit may take so long on a busy machine.
_END_SECONDS = 20.0
# A prefix of ours or tempfile's own, and its eight random letters. Other programs of the machine write there, too.
_NAME = re.compile(r"(tmp|[a-z]{1,3}|dralab-.*)[a-z0-9_]{8}(\.(log|pem|json))?|osrcp-.*")


class LeftoverCheck:
    """The plugin, for the process that sees the whole session: xdist's controller, or a run without xdist."""

    def __init__(self, look_at_files: bool) -> None:
        self._run = os.environ.setdefault(_VARIABLE, uuid.uuid4().hex)
        self._files = _list_files() if look_at_files else None
        os.environ[_CHECKER] = str(os.getpid())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Look after xdist has ended its workers, and fail the session if something is left."""
        result = yield
        problems = [*self._processes(), *self._new_files()]
        if problems:
            reporter = session.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.section("left behind", red=True)
                for problem in problems:
                    reporter.line(problem)
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        return result

    def _processes(self) -> list[str]:
        """Return the processes of the run that are left once those that are ending have had time for it."""
        with contextlib.suppress(TimeoutError):
            blocking_until(lambda: not list(find_processes(_VARIABLE, self._run)), _END_SECONDS)
        return list(find_processes(_VARIABLE, self._run))

    def _new_files(self) -> list[str]:
        if self._files is None:
            return []
        return [str(path) for path in sorted(_list_files() - self._files) if _NAME.fullmatch(path.name)]


def find_processes(variable: str, value: str) -> Iterator[str]:
    """Yield the pid and command line of each process whose environment has the variable with this value.

    Leaves out this process, its ancestors and their other children: make, and what `dralab warm` runs for the session.
    """
    wanted = f"{variable}={value}".encode()
    ancestors = set(_ancestors(os.getpid()))
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            inherited = wanted in (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            related = pid == os.getpid() or pid in ancestors or _parent(pid) in ancestors
        except OSError:
            continue
        # A process that ended and was not waited for yet has no command line.
        if inherited and command and not related:
            yield f"process {pid}: {command}"


def _ancestors(pid: int) -> Iterator[int]:
    """Yield the parent of a process, its parent and so on, without init: it adopts what lost its parent."""
    while (pid := _parent(pid)) > 1:
        yield pid


def _parent(pid: int) -> int:
    # The command's name, in parentheses, may have spaces.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _list_files() -> set[Path]:
    return {path for folder in _FOLDERS if folder.is_dir() for path in folder.iterdir()}


def register(config: pytest.Config) -> None:
    """Check for leftovers, files only if CI says that nothing else writes there."""
    if not hasattr(config, "workerinput") and _CHECKER not in os.environ and Path("/proc/self").exists():
        config.pluginmanager.register(LeftoverCheck(look_at_files="CI" in os.environ))

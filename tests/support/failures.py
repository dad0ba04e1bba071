"""Record failed tests in a file, for the run that repeats them (`tools/flaky.py`).

The environment variable ``DRALAB_FAILURES`` names the file. Each line is a JSON object: one for each
failed report, and a last one with pytest's exit status.
"""

import json
import os
from pathlib import Path

import pytest

VARIABLE = "DRALAB_FAILURES"


class FailureRecorder:
    """The plugin. It runs in the process with the whole session: xdist's controller, or a run without xdist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_text("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._record(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._record(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int | pytest.ExitCode) -> None:
        self._write(exit_status=int(exitstatus))

    def _record(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        sections = [f"--- {title} ---\n{content}" for title, content in report.sections]
        self._write(test=report.nodeid, output="\n".join([report.longreprtext, *sections]))

    def _write(self, **fields: object) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(fields) + "\n")


def register(config: pytest.Config) -> None:
    """Record failures if the environment names a file for them. Runs that tests start do not inherit the variable."""
    path = os.environ.pop(VARIABLE, "")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureRecorder(Path(path)))

"""Run a test command, and run its failed tests again, once and one at a time.

``python -m tools.flaky COMMAND…`` passes if each test that failed passes the second time. Such tests are flaky: their
names, first outputs and seed are printed under ``FLAKY``, and appended to the file that ``GITHUB_STEP_SUMMARY`` names.
The run fails if more than three tests failed, or if the command failed for another reason than a test, such as lint.

Only CI uses this. Elsewhere a failed test fails the run.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FAILURES = "DRALAB_FAILURES"
_MOST_FLAKY = 3
_TESTS_FAILED = 1
_OUTPUT_LINES = 120


@dataclass(frozen=True)
class Failure:
    """A failed test: its node id, and the output of its first run."""

    test: str
    output: str


def read_failures(path: Path) -> tuple[list[Failure], int | None]:
    """Return the failed tests of a recorded run and pytest's exit status, None if the run did not end.

    A test that failed in its call and in its teardown is one failure with both outputs.
    """
    outputs: dict[str, list[str]] = {}
    status = None
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        if "exit_status" in fields:
            status = fields["exit_status"]
        else:
            outputs.setdefault(fields["test"], []).append(fields["output"])
    return [Failure(test, "\n".join(parts)) for test, parts in outputs.items()], status


def are_flaky(failures: Sequence[Failure], status: int | None, run_alone: Callable[[str], int]) -> bool:
    """Return True if few tests failed and each passes when run_alone runs it again.

    status is pytest's exit status, which tells if the run ended for another reason than failed tests.
    """
    if status != _TESTS_FAILED or not failures:
        return False
    if len(failures) > _MOST_FLAKY:
        print(f"{len(failures)} tests failed: no more than {_MOST_FLAKY} are run again")
        return False
    for failure in failures:
        print(f"\nRunning again, alone: {failure.test}", flush=True)
        if run_alone(failure.test) != 0:
            print(f"{failure.test} failed twice")
            return False
    return True


def _describe(failures: Sequence[Failure], seed: str) -> str:
    lines = [f"FLAKY: {len(failures)} failed first and passed when run again (PYTHONHASHSEED={seed})"]
    for failure in failures:
        lines.append(f"FLAKY {failure.test}")
        lines += [f"  | {line}" for line in failure.output.splitlines()[-_OUTPUT_LINES:]]
    return "\n".join(lines)


def main(command: Sequence[str]) -> int:
    """Run the command and return the exit status for CI.

    The second run uses the hash seed of the first, so that a failure that depends on the order of a set fails again.
    """
    seed = os.environ.setdefault("PYTHONHASHSEED", str(random.randrange(1, 2**32)))
    print(f"PYTHONHASHSEED={seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "failures.jsonl")
        path.touch()
        status = subprocess.run(command, env={**os.environ, FAILURES: str(path)}).returncode
        if status == 0:
            return 0
        failures, pytest_status = read_failures(path)
    if not are_flaky(failures, pytest_status, _run_alone):
        return status
    report = _describe(failures, seed)
    print(f"\n{report}")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a") as file:
            file.write(f"```\n{report}\n```\n")
    return 0


def _run_alone(test: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

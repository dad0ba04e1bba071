"""``python -m tools.drivers.versions [NAME …]``: run the driver suite on dralab's own drivers with each Kubernetes.

Prints a Markdown table with a row for each driver and version. The exit code is 1 if a check fails, or cannot run, that
is not listed in ``Subject.misses``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_shared.version import VERSIONS

_PROGRAMS = Path(sys.executable).parent
_PROJECT = "dongle.example.com"
_START = "from dongle_driver.main import main; main()"
_FAILED = ("broken", "warning", "untried")


@dataclass(frozen=True)
class Subject:
    """A driver of dralab, with the command, configuration and environment to start it.

    Args:
        command: its program and arguments. A first word without a slash is a program of the environment.
        misses: ids of checks that the driver is known to fail.
    """

    name: str
    command: Sequence[str]
    config: Mapping[str, Any] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    misses: frozenset[str] = frozenset()


# dralab's NVIDIA driver detects a reboot by the boot ID, as the real one does. It does not restore CDI files that are
# deleted without a reboot.
_NVIDIA_MISSES = frozenset({"cdi.restored"})
_NVIDIA = ("dralab-driver", "gpu.nvidia.com")
_INTERVAL = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
_CONFIG = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": _INTERVAL}
SUBJECTS = (
    Subject("example", ("dralab-driver", "gpu.example.com", "--pod-uid", "{pod_uid}")),
    Subject("project", ("python", "-c", _START, "--pod-uid", "{pod_uid}")),
    # Half of the default GPUs are whole, and half are cut into MIG devices.
    Subject("nvidia-mig", _NVIDIA, misses=_NVIDIA_MISSES),
    Subject(
        "nvidia-time-slicing",
        _NVIDIA,
        config=_CONFIG,
        environment={"FEATURE_GATES": "TimeSlicingSettings=true"},
        misses=_NVIDIA_MISSES,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite for each chosen driver and version, and print the table."""
    parser = argparse.ArgumentParser(prog="tools.drivers.versions", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(one.name for one in SUBJECTS))
    parser.add_argument(
        "--versions", default=",".join(map(str, VERSIONS)), help="Kubernetes versions: 1.34,1.37 (all)"
    )
    parser.add_argument(
        "-k",
        dest="words",
        default="",
        help="only checks whose id contains one of these words, such as prepare,cdi",
    )
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - {one.name for one in SUBJECTS}:
        parser.error(f"unknown driver {sorted(unknown)[0]}")
    print("| driver | Kubernetes | kept | failed | not shown |\n|---|---|---|---|---|", flush=True)
    failed = 0
    for subject in SUBJECTS:
        for version in chosen.versions.split(","):
            if chosen.names and subject.name not in chosen.names:
                continue
            result = _run(subject, version, chosen.words)
            print(row(subject.name, version, result), flush=True)
            failed |= bool(failures(result) - subject.misses)
    return failed


def failures(result: Mapping[str, Any]) -> set[str]:
    """Return the ids of the failed checks."""
    return {one["id"] for one in result["checks"] if one["outcome"] in _FAILED}


def row(name: str, version: str, result: Mapping[str, Any]) -> str:
    """Return the row of the table for a driver with a version of Kubernetes."""
    hidden = sorted(one["id"] for one in result["checks"] if one["outcome"] == "not shown")
    kept = sum(1 for one in result["checks"] if one["outcome"] == "kept")
    lists = (
        ", ".join(f"`{one}`" for one in part) or "nothing" for part in (sorted(failures(result)), hidden)
    )
    return f"| {name} | {version} | {kept} | {' | '.join(lists)} |"


def command(subject: Subject, version: str, report: Path, words: str, config: Path | None) -> list[str]:
    """Return the command that runs the suite on the driver."""
    found = [str(_PROGRAMS / "dralab"), "conformance", "driver", "--report", str(report)]
    found += ["--kubernetes-version", version]
    if config is not None:
        found += ["--config", str(config)]
    if words:
        found += [f"-k={words}"]
    program, *arguments = subject.command
    return [*found, "--", str(_PROGRAMS / program), *arguments]


def _run(subject: Subject, version: str, words: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="dralab-versions-") as directory:
        root = Path(directory)
        report, config = root / "report.json", None
        if subject.config is not None:
            config = root / "config.yaml"
            config.write_text(json.dumps(subject.config))
        environment = {**os.environ, **subject.environment}
        if subject.name == "project":
            environment["PYTHONPATH"] = str(_create_project(root / "project"))
        # Ignore the exit code: it is 1 if a check fails, and the report has the failed checks.
        ended = subprocess.run(
            command(subject, version, report, words, config),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            raise SystemExit(f"{subject.name}: {ended.stderr or ended.stdout}")
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def _create_project(folder: Path) -> Path:
    """Create a driver project with ``dralab new driver`` and return the folder with its package."""
    words = [str(_PROGRAMS / "dralab"), "new", "driver", _PROJECT, "--output", str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    return folder / "src"


if __name__ == "__main__":
    raise SystemExit(main())

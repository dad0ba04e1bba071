"""Write the feature gates of the real Kubernetes releases to tests/data/gates.

    python -m tools.gates

Builds ``main.go`` with each release's k8s.io/kubernetes and runs it. Needs Go. Then run
``tests/shared/version``, which compares the pages of dra_shared/version with these files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dra_shared.version import VERSIONS, release

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "tests/data/gates"
_STAGES = {"ALPHA": "Alpha", "BETA": "Beta", "": "GA", "DEPRECATED": "Deprecated"}
# Entries that set all gates of a stage, and are not gates themselves.
_NOT_GATES = ("AllAlpha", "AllBeta")
# A replaced requirement: Kubernetes 1.38.0-beta.0 requires a version of this module that Go's proxy does not have.
_MERGE_DIFF = "sigs.k8s.io/structured-merge-diff/v7"
_REPLACED = {"1.38.0-beta.0": f"replace {_MERGE_DIFF} => {_MERGE_DIFF} v7.0.0"}
_STAGING = re.compile(r"^\s+(k8s\.io/[\w-]+) v0\.0\.0$", re.MULTILINE)


def main() -> None:
    """Write a file for each version."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for version in VERSIONS:
        gates = _read(release(version).patch)
        (TARGET / f"{version}.txt").write_text("".join(f"{line}\n" for line in format_gates(gates)))
        print(f"{len(gates)} gates in Kubernetes {release(version).patch}")


def format_gates(gates: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Format gates as in dra_shared/version: name, stage, default, lock and dependencies."""
    lines = []
    for name, gate in sorted(gates.items()):
        if name in _NOT_GATES:
            continue
        words = [name, _STAGES[gate["stage"]], "on" if gate["on"] else "off"]
        words += ["locked"] if gate["locked"] else []
        words += ["<", *sorted(gate["needs"])] if gate["needs"] else []
        lines.append(" ".join(words))
    return lines


def _read(patch: str) -> dict[str, dict[str, Any]]:
    """Build and run the program with the packages of a release, such as 1.37.0."""
    modules = _run("go", "mod", "download", "-json", f"k8s.io/kubernetes@v{patch}")
    requirements = Path(json.loads(modules)["GoMod"]).read_text()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(Path(__file__).with_name("main.go"), folder)
        (Path(folder) / "go.mod").write_text(go_module(patch, requirements))
        found: dict[str, dict[str, Any]] = json.loads(_run("go", "run", "-mod=mod", ".", folder=folder))
    return found


def go_module(patch: str, requirements: str) -> str:
    """Return the go.mod for main.go.

    The modules that k8s.io/kubernetes contains as folders, such as k8s.io/api, are replaced by their released versions.
    """
    language = next(line for line in requirements.splitlines() if line.startswith("go "))
    lines = ["module dralab/gates", language, f"require k8s.io/kubernetes v{patch}"]
    version = f"v0.{patch.partition('.')[2]}"
    lines += [f"replace {module} => {module} {version}" for module in _STAGING.findall(requirements)]
    lines += [_REPLACED[patch]] if patch in _REPLACED else []
    return "\n".join(lines) + "\n"


def _run(*command: str, folder: str = ".") -> str:
    # A preview needs a newer Go than the installed one, which Go downloads.
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "auto"}
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main()

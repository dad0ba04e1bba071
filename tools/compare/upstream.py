"""Build the programs of tools/upstream, and send cases to them."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, Version

SOURCE = Path(__file__).parent.parent / "upstream"
# go.mod pins the newest release. The others have a file of their own.
_NEWEST = V1_37


def find_go() -> str | None:
    """Return the path of the ``go`` command, or None if it is not installed."""
    return shutil.which("go")


def build(kubernetes: Version, folder: Path) -> Path:
    """Build the program of a release, and return its path. Go's cache makes a second build quick.

    A release that needs a newer Go than the installed one is built with that Go, which ``go`` downloads.

    Raises:
        RuntimeError: Go is not installed.
        subprocess.CalledProcessError: the build fails, for example because modules or that Go cannot be downloaded.
    """
    go = find_go()
    if go is None:
        raise RuntimeError("Go is not installed: the comparison builds Kubernetes packages")
    program = folder.absolute() / f"upstream-{kubernetes}"
    modules = [] if kubernetes == _NEWEST else [f"-modfile=releases/{kubernetes}.mod"]
    tag = "k" + str(kubernetes).replace(".", "")
    command = [go, "build", *modules, "-tags", tag, "-o", str(program), "."]
    subprocess.run(command, cwd=SOURCE, env={**os.environ, **_select_toolchain(kubernetes)}, check=True)
    return program


def _select_toolchain(kubernetes: Version) -> dict[str, str]:
    """Return the environment variable that selects another Go.

    The ``go`` command only reads the version in go.mod, not in ``-modfile``.
    """
    if not kubernetes.is_preview:
        return {}
    text = (SOURCE / f"releases/{kubernetes}.mod").read_text()
    found = re.search(r"^go (\S+)$", text, re.MULTILINE)
    assert found is not None
    return {"GOTOOLCHAIN": f"go{found[1]}"}


class Upstream:
    """A running program that answers cases of one subject, one after the other."""

    def __init__(self, program: Path, subject: str) -> None:
        self._process = subprocess.Popen(
            [program, subject], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> "Upstream":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def answer(self, case: JsonObject) -> list[Any]:
        """Return the distinct answers that the real code gives to a case.

        Raises:
            ValueError: the program refuses the case, for example because a quantity is not valid.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        line = json.loads(self._process.stdout.readline() or "{}")
        if "refused" in line:
            raise ValueError(line["refused"])
        if "out" not in line:
            raise RuntimeError(f"the upstream program ended with exit code {self._process.wait()}")
        return line.get("outcomes") or [line["out"]]

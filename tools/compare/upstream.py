"""Build the programs of tools/upstream, and send cases to them."""

import json
import os
import re
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, Version

SOURCE = Path(__file__).parent.parent / "upstream"
# go.mod pins the newest release. The other releases are pinned by files in tools/upstream/releases.
_NEWEST = V1_37


def find_go() -> str | None:
    """Return the path of the ``go`` command, or None if it is not installed."""
    return shutil.which("go")


def build(kubernetes: Version, folder: Path, name: str = "upstream") -> Path:
    """Build a program of a release, and return its path. Go's cache makes a second build quick.

    ``upstream`` answers with the libraries of DRA. ``apiserver`` and ``kubelet`` answer with k8s.io/kubernetes, whose
    first build takes minutes.

    A release that needs a newer Go than the installed one is built with that Go, which ``go`` downloads.

    Raises:
        RuntimeError: Go is not installed.
        subprocess.CalledProcessError: the build fails, for example because modules or that Go cannot be downloaded.
    """
    go = find_go()
    if go is None:
        raise RuntimeError("Go is not installed: the comparison builds Kubernetes packages")
    program = folder.absolute() / f"{name}-{kubernetes}"
    modules = [] if kubernetes == _NEWEST else [f"-modfile=releases/{kubernetes}.mod"]
    tag = "k" + str(kubernetes).replace(".", "")
    command = [
        go,
        "build",
        *modules,
        "-tags",
        tag,
        # Programs without symbols for debuggers are linked in two thirds of the time.
        "-ldflags=-s -w",
        "-o",
        str(program),
        "." if name == "upstream" else f"./{name}",
    ]
    subprocess.run(command, cwd=SOURCE, env={**os.environ, **_select_toolchain(kubernetes)}, check=True)
    return program


def _select_toolchain(kubernetes: Version) -> dict[str, str]:
    """Return the environment variable that makes ``go`` use the Go version that the release needs.

    Without it, ``go`` uses the version in go.mod, even if the file of ``-modfile`` requires another one.
    """
    if not kubernetes.is_preview:
        return {}
    text = (SOURCE / f"releases/{kubernetes}.mod").read_text()
    found = re.search(r"^go (\S+)$", text, re.MULTILINE)
    assert found is not None
    return {"GOTOOLCHAIN": f"go{found[1]}"}


class Upstream:
    """A running program that answers cases of one subject, one after the other.

    A program that does not answer within ``patience`` seconds is killed. It is started again for the next case.
    """

    def __init__(self, program: Path, subject: str, patience: float = 120) -> None:
        self._command = [str(program), subject]
        self._patience = patience
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> "Upstream":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def answer(self, case: JsonObject) -> list[Any]:
        """Return the distinct answers that the real code gives to a case, or a ``timeout`` if it gives none.

        Raises:
            ValueError: the program refuses the case, for example because a quantity is not valid.
        """
        assert self._process.stdin is not None
        output = self._process.stdout
        assert output is not None
        self._process.stdin.write(json.dumps(case, ensure_ascii=False) + "\n")
        self._process.stdin.flush()
        # Kill the program: some searches of the allocators ignore their deadline, and would use a core for ever.
        if not select.select([output], [], [], self._patience)[0]:
            self._process.kill()
            self._end()
            self._process = self._start()
            return [{"timeout": True}]
        line = json.loads(output.readline() or "{}")
        if "refused" in line:
            raise ValueError(line["refused"])
        if "out" not in line:
            raise RuntimeError(f"the upstream program ended with exit code {self._process.wait()}")
        return line.get("outcomes") or [line["out"]]

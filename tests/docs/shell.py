"""The shell commands in the documentation, and a shell that runs them in an empty folder."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.reference import REPOSITORY

_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^>]*?) -->\n)?^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```",
    re.MULTILINE | re.DOTALL,
)
_HEADER = re.compile(r"^#   (dralab .*)$", re.MULTILINE)
_ERRORS = ("dralab: ", "Error ", "error: ")
_HIDDEN = ("make ", "docker ", "dralab", "kubectl ")
# Clusters of other tests have other ports.
_UP = """dralab() {
  case "$1" in
    up) command dralab "$@" --port 0 --relaxed ;;
    *) command dralab "$@" ;;
  esac
}
"""


@dataclass(frozen=True)
class Command:
    """One command, and its output if the page shows that."""

    text: str
    output: str | None = None

    @property
    def fails(self) -> bool:
        """True if the page shows that the command fails."""
        return self.output is not None and self.output.startswith(_ERRORS)


@dataclass(frozen=True)
class Block:
    """The commands between two fences."""

    page: Path
    line: int
    commands: tuple[Command, ...]
    not_run: str = ""


@dataclass
class Page:
    """A page's blocks, in order."""

    path: Path
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.path.relative_to(REPOSITORY))

    def runs(self) -> list[Block]:
        """Return the blocks that are run."""
        return [block for block in self.blocks if not block.not_run]


def page(path: Path) -> Page:
    """Return a page with its blocks of ``sh`` and ``console``."""
    text, found = path.read_text(), Page(path)
    for match in _FENCE.finditer(text):
        if match["kind"] in ("sh", "console"):
            commands = _console(match["text"]) if match["kind"] == "console" else (Command(match["text"]),)
            line = text[: match.start("text")].count("\n")
            found.blocks.append(Block(path, line, tuple(commands), match["reason"] or ""))
    return found


def examples() -> Iterator[Block]:
    """Yield the commands in the comments of the examples, which tests/integration/test_examples.py runs."""
    for file in sorted((REPOSITORY / "examples").glob("*/*.yaml")):
        for shown in _HEADER.findall(file.read_text()):
            yield Block(file, 1, (Command(shown),))


def unmarked_commands(path: Path) -> list[str]:
    """Return commands in blocks whose language does not mark them as commands."""
    return [
        line
        for match in _FENCE.finditer(path.read_text())
        if match["kind"] == ""
        for line in match["text"].splitlines()
        if line.startswith(("$ ", *_HIDDEN))
    ]


def _console(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Command(command, output or None)


def lines(text: str) -> list[list[str]]:
    """Return the simple commands of a script as words, without comments, here-documents and leading variables."""
    text = re.sub(
        r"<<(['\"]?)(\w+)\1\n.*?^\2$", "", text.replace("\\\n", " "), flags=re.MULTILINE | re.DOTALL
    )
    found = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"^\w+=", words[0]):
            words.pop(0)
        if words:
            found.append(words)
    return found


def run(script: str, folder: Path, timeout: float = 280.0) -> subprocess.CompletedProcess[str]:
    """Run a script with bash in a folder, until the first command that fails.

    ``up`` uses a free port. KUBECONFIG names a file that does not exist, as after a cluster was deleted.
    """
    home = folder.with_name("home")
    home.mkdir()
    command = ["bash", "-euo", "pipefail", "-c", _UP + script]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "KUBECONFIG": str(home / "deleted"),
    }
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        finally:
            # Processes that the page left in the background are in the shell's process group, and end with
            # it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)

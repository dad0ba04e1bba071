"""The shell commands that the documentation shows, and a folder to run them in as a reader would.

A page's blocks run in order in one shell, with the repository's files in the working folder. ``sh`` blocks must
succeed. In ``console`` blocks each ``$`` line is a command and what follows is its output, where ``…`` stands for
anything; a command whose output begins with an error fails. A comment above a block changes that:

* ``<!-- not run: REASON -->``: the commands are only checked for what can be seen without running them.
* ``<!-- before: COMMAND -->``: runs first; what a reader has at that point.
"""

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

from tests.support.reference import REFERENCE, REPOSITORY

_FENCE = re.compile(
    r"(?P<marks>(?:^<!-- (?:not run|before): .*? -->\n\n?)*)^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^<!-- (not run|before): (.*?) -->$", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^#   (dralab .*)$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\b(?:NAME|POD|FILE|DIR|KIND|COMMAND)\b")
_ERRORS = ("dralab: ", "Error ", "error: ")
_HIDDEN = ("make ", "docker ", "dralab", "kubectl ")


@dataclass(frozen=True)
class Command:
    """One command, and its output where the page shows that."""

    text: str
    output: str | None = None

    @property
    def fails(self) -> bool:
        """Whether the page shows it failing."""
        return self.output is not None and self.output.startswith(_ERRORS)


@dataclass(frozen=True)
class Block:
    """The commands between two fences."""

    page: Path
    line: int
    commands: tuple[Command, ...]
    before: tuple[str, ...] = ()
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
        """The blocks that are run."""
        return [block for block in self.blocks if not block.not_run]


def page(path: Path) -> Page:
    """What a page shows: blocks of ``sh`` and ``console``, and those without a language that hold a ``$`` line."""
    text, found = path.read_text(), Page(path)
    for match in _FENCE.finditer(text):
        kind, body = match["kind"], match["text"]
        if kind in ("sh", "console"):
            commands = _console(body) if kind == "console" else (Command(body),)
            marks = _MARK.findall(match["marks"])
            found.blocks.append(
                Block(
                    path,
                    text[: match.start("text")].count("\n"),
                    tuple(commands),
                    tuple(value for name, value in marks if name == "before"),
                    next((value for name, value in marks if name == "not run"), ""),
                )
            )
    return found


def examples() -> list[Page]:
    """The commands in the comments of the examples' files: one page for all that start a cluster in the same way.

    Those with a placeholder are the reader's to complete.
    """
    pages: dict[str, Page] = {}
    for folder in sorted((REPOSITORY / "examples").iterdir()):
        current: Page | None = None
        for file in sorted(folder.glob("*.yaml")):
            for shown in _HEADER.findall(file.read_text()):
                text = shown.partition("  #")[0].strip()
                if text.startswith("dralab up"):
                    known = text in pages
                    current = pages.setdefault(text, Page(folder))
                    if known:
                        continue
                if current is None:
                    raise ValueError(f"{file} does not say how to start a cluster")
                why = "the reader fills in a name" if _PLACEHOLDER.search(text) else ""
                current.blocks.append(Block(file, 1, (Command(text),), not_run=why))
    return list(pages.values())


def unmarked(path: Path) -> list[str]:
    """Commands in blocks whose language does not say that they are some."""
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
    """The simple commands of a script as words: without comments, here-documents and variables that are set first."""
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


class Session:
    """A folder with the repository's files, and a shell in which ``dralab`` is ours.

    ``dralab up`` takes a free port there. Without ``--detach`` it is taken to run in a terminal of its own until the
    next ``up``, before which the reader ends it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("examples", "tests", "docs"):
            (folder / name).symlink_to(REPOSITORY / name)
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        python = shlex.quote(sys.executable)
        (programs / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        (programs / "dralab").write_text(_DRALAB.format(python=python))
        (programs / "activate").write_text(f"PATH={shlex.quote(str(programs))}:$PATH\n")
        for program in ("python", "dralab"):
            (programs / program).chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(folder / ".dralab" / "kubeconfig"),
            "HOME": str(folder),
            "REFERENCE": str(REFERENCE),
        }

    def run(self, script: str, timeout: float = 280.0) -> subprocess.CompletedProcess[str]:
        """Run it with bash, until the first command that fails."""
        command = ["bash", "-euo", "pipefail"]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env=self._environment,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(script, timeout)
            finally:
                # What the page left in the background, in the shell's group, ends with it.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def stop(self) -> None:
        """Stop the cluster, where one runs."""
        if (self._folder / ".dralab").exists():
            self.run("dralab down || true")


_DRALAB = """#!/bin/bash
ours() {{ {python} -m dra_cli.main "$@"; }}
if [ "$1" != up ]; then ours "$@"; exit; fi
shift
case " $* " in
  *" --detach "*) ;;
  *) ours down >/dev/null 2>&1; set -- --detach "$@" ;;
esac
ours up --port 0 --relaxed "$@" </dev/null
"""

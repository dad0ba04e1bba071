"""The surroundings of a shell, and the view that a program has of the shell that calls it."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dra_node_agent.runtime.base import TerminalSize
from dra_node_agent.runtime.ports import PodPorts
from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.syntax import Node

Write = Callable[[str], None]
# The maximum number of notices. Each one is stored, so that it is only logged once.
_MOST_NOTICES = 64
Program = Callable[["Process"], Awaitable[int]]


def absolute(directory: str, name: str) -> str:
    """Return the absolute path of a name in a directory."""
    return "/" + posixpath.normpath(posixpath.join("/", directory, name)).lstrip("/")


class Shell(Protocol):
    """The calling shell as programs know it. ``interpreter.Shell`` is one."""

    world: World
    files: Files
    name: str
    directory: str
    env: dict[str, str]
    variables: dict[str, str]
    traps: dict[str, str]
    status: int
    in_background: bool
    arguments: list[str]
    options: frozenset[str]

    def lookup(self, name: str) -> str | None:
        """Return the value of a variable; None if it is not set."""
        ...

    def assign(self, name: str, value: str) -> None:
        """Set a variable."""
        ...

    def signal(self, name: str) -> bool:
        """Send a signal. Return True if the script has a trap for it."""
        ...

    async def execute(self, node: Node) -> int:
        """Run a part of a script. Return its exit code."""
        ...

    async def wait(self, pids: Sequence[int] = ()) -> int:
        """Wait for jobs in the background."""
        ...

    def kill(self, pid: int, name: str) -> bool:
        """Send a signal to a job. Return False if there is no such process."""
        ...


class Piped:
    """A standard input that several commands share. Each reads on from where the last one stopped."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def line(self) -> str:
        """Take the next line, with its end; empty at the end of the input."""
        end = self._text.find("\n", self._at) + 1 or len(self._text)
        line, self._at = self._text[self._at : end], end
        return line

    def rest(self) -> str:
        """Take the rest of the input."""
        rest, self._at = self._text[self._at :], len(self._text)
        return rest


@dataclass
class Process:
    """A running program: its arguments, environment, streams and files."""

    argv: Sequence[str]
    env: dict[str, str]
    out: Write
    err: Write
    stdin: str
    shell: Shell
    #: The standard input, for a program that takes only a part of it.
    piped: Piped | None = None

    @property
    def name(self) -> str:
        """The name of the program without its directory."""
        return self.argv[0].rpartition("/")[2] if self.argv else ""

    @property
    def files(self) -> Files:
        return self.shell.files

    def complain(self, text: str) -> None:
        """Print an error.

        Messages about features that are not simulated are also in the container's log, even if the script
        redirects its errors.
        """
        self.err(text)
        world = self.shell.world
        if "not simulated" in text and world.log is not None and world.log != self.err:
            self._log_once(text if text.startswith("dralab:") else f"dralab: {text}")

    def notice(self, what: str) -> None:
        """Log once for each container that something is not simulated and has no effect."""
        self._log_once(
            f"dralab: {self.name}: {what} not simulated, and counts as done (see docs/node-agent.md)\n"
        )

    def _log_once(self, text: str) -> None:
        world = self.shell.world
        if text not in world.noticed and len(world.noticed) < _MOST_NOTICES:
            world.noticed |= {text}
            (world.log or self.err)(text)

    def absolute(self, name: str) -> str:
        """Return the absolute path of a name in the directory of the shell."""
        return absolute(self.shell.directory, name)


@dataclass
class World:
    """The surroundings of a shell: its programs, its time, and the stand-in for programs of any other name."""

    programs: Mapping[str, Program]
    sleep: Callable[[float], Awaitable[None]]
    fallback: Program
    files: Files = field(default_factory=Files)
    hostname: str = "localhost"
    directory: str = "/"
    jobs: set[asyncio.Task[int]] = field(default_factory=set)
    #: The process ID of the last job. The process of the container has 1.
    last_pid: int = 1
    reads_input: Callable[[Sequence[str]], bool] = lambda _: False
    ports: PodPorts = field(default_factory=PodPorts)
    #: Set when the container must stop.
    terminated: asyncio.Event = field(default_factory=asyncio.Event)
    #: The shells that get the signals of the container.
    signalled: list[Shell] = field(default_factory=list)
    #: The log of the container, in which a script cannot hide what is not simulated.
    log: Write | None = None
    #: The notices that are in the log already.
    noticed: frozenset[str] = frozenset()
    #: Whether the last program that a shell called is not simulated.
    ended_unknown: bool = False
    #: The size of the user's terminal; None if there is none or its size is not known.
    terminal: TerminalSize | None = None

    def end_jobs(self) -> None:
        """End everything that still runs in the background."""
        for job in self.jobs:
            job.cancel()

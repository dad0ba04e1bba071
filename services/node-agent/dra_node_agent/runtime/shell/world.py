"""What surrounds a shell, and what a program sees that it calls."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dra_node_agent.runtime.ports import PodPorts
from dra_node_agent.runtime.shell.files import Files

if TYPE_CHECKING:
    from dra_node_agent.runtime.shell.interpreter import Shell

Write = Callable[[str], None]
Program = Callable[["Process"], Awaitable[int]]


@dataclass
class Process:
    """What a program sees: its arguments, environment, streams and files."""

    argv: Sequence[str]
    env: dict[str, str]
    out: Write
    err: Write
    stdin: str
    shell: Shell

    @property
    def files(self) -> Files:
        return self.shell.files

    def absolute(self, name: str) -> str:
        """The path that a name means in the shell's directory."""
        path = posixpath.normpath(posixpath.join("/", self.shell.directory, name))
        return "/" + path.lstrip("/")


@dataclass
class World:
    """What surrounds a shell: the programs it can call, time, and the program for any other name."""

    programs: Mapping[str, Program]
    sleep: Callable[[float], Awaitable[None]]
    fallback: Program
    files: Files = field(default_factory=Files)
    hostname: str = "localhost"
    directory: str = "/"
    jobs: set[asyncio.Task[int]] = field(default_factory=set)
    reads_input: Callable[[Sequence[str]], bool] = lambda _: False
    ports: PodPorts = field(default_factory=PodPorts)
    #: Set once the container is asked to stop.
    terminated: asyncio.Event = field(default_factory=asyncio.Event)
    #: The shells that heed the container's signals.
    signalled: list[Shell] = field(default_factory=list)
    #: Whether the last program that a shell called is none that is simulated.
    ended_unknown: bool = False

    def end_jobs(self) -> None:
        """End everything that still runs in the background."""
        for job in self.jobs:
            job.cancel()

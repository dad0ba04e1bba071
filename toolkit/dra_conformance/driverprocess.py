"""The driver under test: a program that the suite starts, stops and kills, or one that runs already."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dra_shared.errors import UserError

#: How many devices ``{devices}`` asks for, except in the checks of thousands.
FEW_DEVICES = 8
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """What a driver's processes have: open files, threads, and memory in bytes."""

    files: int
    threads: int
    memory: int


@dataclass(frozen=True)
class Ended:
    """How a driver ended: its exit code, None where it had to be killed, and after how many seconds."""

    code: int | None
    seconds: float


class Driver(Protocol):
    """A driver that can be started again and again."""

    restarts: bool
    """Whether the suite may end and start it."""
    instances: bool
    """Whether two instances of it can run at a time."""
    scales: bool
    """Whether it can be started with any number of devices."""
    devices: int
    """With how many devices it is started the next time, where it scales."""

    async def start(self, instance: str = "0") -> None:
        """Start it."""
        ...

    async def stop(self, within: float, instance: str = "0") -> Ended:
        """Ask it to end (SIGTERM), and wait."""
        ...

    async def kill(self, instance: str = "0") -> None:
        """End it on the spot (SIGKILL)."""
        ...

    def alive(self) -> bool:
        """Whether it runs, as far as can be seen."""
        ...

    def output(self) -> str:
        """All that it has written to its standard output and error."""
        ...

    def usage(self) -> Usage | None:
        """What it has open; None where that cannot be seen."""
        ...


class ProcessDriver:
    """A program, started with values in place of ``{placeholders}``, and with the environment of a driver's pod.

    Raises:
        UserError: a placeholder is not known.
    """

    restarts = True

    def __init__(
        self, command: Sequence[str], values: Mapping[str, str], environment: Mapping[str, str], log: Path
    ) -> None:
        self._command = list(command)
        self._values = dict(values)
        self._environment = dict(environment)
        self._log = log
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._guards: dict[str, asyncio.subprocess.Process] = {}
        self.instances = any("{pod_uid}" in word for word in command)
        self.scales = any("{devices}" in word for word in command)
        self.devices = FEW_DEVICES
        self._words("0")

    async def start(self, instance: str = "0") -> None:
        """Start it; raises UserError where there is no such program."""
        # That of an instance that ended by itself.
        await self._dismiss(instance)
        words = self._words(instance)
        environment = {**os.environ, **self._environment}
        if self.instances:
            environment["POD_UID"] = instance
        with self._log.open("ab") as log:
            try:
                self._running[instance] = await asyncio.create_subprocess_exec(
                    *words, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise UserError(f"cannot start {words[0]}: {error.strerror}") from error
        # A machine without a shell has no guard.
        with contextlib.suppress(OSError):
            self._guards[instance] = await _guard(self._running[instance].pid)

    def _words(self, instance: str) -> list[str]:
        values = {"pod_uid": instance, "devices": str(self.devices)}
        return filled(self._command, {**self._values, **values})

    async def stop(self, within: float, instance: str = "0") -> Ended:
        """See :class:`Driver`."""
        process = self._running.pop(instance)
        await self._dismiss(instance)
        loop = asyncio.get_running_loop()
        began = loop.time()
        _signal(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(within):
                code: int | None = await process.wait()
        except TimeoutError:
            _signal(process.pid, signal.SIGKILL)
            await process.wait()
            code = None
        return Ended(code, loop.time() - began)

    async def kill(self, instance: str = "0") -> None:
        """See :class:`Driver`."""
        process = self._running.pop(instance, None)
        await self._dismiss(instance)
        if process is not None:
            _signal(process.pid, signal.SIGKILL)
            await process.wait()

    async def _dismiss(self, instance: str) -> None:
        guard = self._guards.pop(instance, None)
        if guard is not None:
            _signal(guard.pid, signal.SIGKILL)
            await guard.wait()

    def alive(self) -> bool:
        """Whether all instances that were started run."""
        return all(process.returncode is None for process in self._running.values())

    def output(self) -> str:
        """See :class:`Driver`."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def usage(self) -> Usage | None:
        """Of the program and its children."""
        process = self._running.get("0")
        if process is None or process.returncode is not None:
            return None
        return usage_of(process.pid)


# A read from standard input ends with the process that has the other end, however that ends.
_KILL_AT_END = 'read _; kill -s KILL -- "-$1"'


async def _guard(group: int) -> asyncio.subprocess.Process:
    """Start a process that kills a process group when this process ends, also if it is killed."""
    return await asyncio.create_subprocess_exec(
        "sh", "-c", _KILL_AT_END, "sh", str(group),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


class AttachedDriver:
    """A driver that somebody else has started: checks that would end it are left out."""

    restarts = False
    instances = False
    scales = False
    devices = 0

    async def start(self, instance: str = "0") -> None:
        """It runs, or will soon."""

    async def stop(self, within: float, instance: str = "0") -> Ended:
        """It is left as it is."""
        return Ended(None, 0.0)

    async def kill(self, instance: str = "0") -> None:
        """It is left as it is."""

    def alive(self) -> bool:
        """Nothing is known of its process."""
        return True

    def output(self) -> str:
        """Nothing is known of its log."""
        return ""

    def usage(self) -> Usage | None:
        """Nothing is known of its process."""
        return None


def usage_of(root: int) -> Usage | None:
    """Of a process and its children; None where this user may not look."""
    files = threads = memory = 0
    for pid in _family(root):
        with contextlib.suppress(OSError):
            files += len(os.listdir(f"/proc/{pid}/fd"))
            threads += len(os.listdir(f"/proc/{pid}/task"))
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return Usage(files, threads, memory) if files else None


def filled(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The words with values in place of the placeholders; other braces stay.

    Raises:
        UserError: a word is a placeholder that is not known.
    """
    found = []
    for word in words:
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)
        start, _, rest = word.partition("{")
        name, end, _ = rest.partition("}")
        if end and name.replace("_", "").isalpha() and not start.endswith("$"):
            raise UserError(f"unknown placeholder {{{name}}}: there are {', '.join(sorted(values))}", 2)
        found.append(word)
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _family(pid: int) -> list[int]:
    """The process and its descendants."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                text = Path(f"/proc/{parent}/task/{task}/children").read_text()
                found.extend(int(child) for child in text.split())
    return found

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

#: The value of ``{devices}``, except in the checks of thousands of devices.
FEW_DEVICES = 8
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """Resources of a driver's processes: open files, threads, and memory in bytes."""

    files: int
    threads: int
    memory: int


@dataclass(frozen=True)
class Ended:
    """The exit of a driver: its exit code, None if it had to be killed, and the seconds that it took."""

    code: int | None
    seconds: float


class Driver(Protocol):
    """A driver under test."""

    restarts: bool
    """True if the suite may stop and start the driver."""
    instances: bool
    """True if two instances of the driver can run at a time."""
    scales: bool
    """True if the driver can be started with any number of devices."""
    devices: int
    """The number of devices for the next start, if ``scales``."""

    async def start(self, instance: str = "0") -> None:
        """Start an instance."""
        ...

    async def stop(self, within: float, instance: str = "0") -> Ended:
        """Send SIGTERM to an instance and wait; kill it if it has not exited ``within`` that many seconds."""
        ...

    async def kill(self, instance: str = "0") -> None:
        """Kill an instance with SIGKILL."""
        ...

    def alive(self) -> bool:
        """True unless a started instance is known to have exited."""
        ...

    def output(self) -> str:
        """Return all that the driver has written to standard output and standard error."""
        ...

    def usage(self) -> Usage | None:
        """Return the resource usage of the driver's processes, or None if this user cannot see them."""
        ...


class ProcessDriver:
    """A program on this machine, with values for its ``{placeholders}`` and the environment of a driver's pod.

    Raises:
        UserError: the command has an unknown placeholder.
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
        """Start an instance. Raises UserError if the program does not exist."""
        # The guard of a previous process that exited by itself.
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
        # The guard needs a shell, and a machine may have none.
        with contextlib.suppress(OSError):
            self._guards[instance] = await _guard(self._running[instance].pid)

    def _words(self, instance: str) -> list[str]:
        values = {"pod_uid": instance, "devices": str(self.devices)}
        return fill_placeholders(self._command, {**self._values, **values})

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
        """True if every started instance runs."""
        return all(process.returncode is None for process in self._running.values())

    def output(self) -> str:
        """See :class:`Driver`."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def usage(self) -> Usage | None:
        """Return the resource usage of the program and its children."""
        process = self._running.get("0")
        if process is None or process.returncode is not None:
            return None
        return usage_of(process.pid)


# The read returns when the process at the other end of the pipe ends, even if that process is killed.
_KILL_AT_END = 'read _; kill -s KILL -- "-$1"'


async def _guard(group: int) -> asyncio.subprocess.Process:
    """Start a process that kills the process group when this process ends, even if it is killed."""
    return await asyncio.create_subprocess_exec(
        "sh", "-c", _KILL_AT_END, "sh", str(group),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


class AttachedDriver:
    """A driver that the user has started. Checks that would stop it are skipped."""

    restarts = False
    instances = False
    scales = False
    devices = 0

    async def start(self, instance: str = "0") -> None:
        """No-op: the user starts the driver."""

    async def stop(self, within: float, instance: str = "0") -> Ended:
        """No-op: the suite must not stop the driver."""
        return Ended(None, 0.0)

    async def kill(self, instance: str = "0") -> None:
        """No-op: the suite must not stop the driver."""

    def alive(self) -> bool:
        """Return True, because the driver's process is unknown."""
        return True

    def output(self) -> str:
        """Return an empty text, because the driver's log is unknown."""
        return ""

    def usage(self) -> Usage | None:
        """Return None, because the driver's process is unknown."""
        return None


def usage_of(root: int) -> Usage | None:
    """Return the resource usage of a process and its descendants, or None if this user may not see it."""
    files = threads = memory = 0
    for pid in _family(root):
        with contextlib.suppress(OSError):
            files += len(os.listdir(f"/proc/{pid}/fd"))
            threads += len(os.listdir(f"/proc/{pid}/task"))
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return Usage(files, threads, memory) if files else None


def fill_placeholders(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Replace the placeholders in the words; other braces stay.

    Raises:
        UserError: a word has an unknown placeholder.
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
    """Return the ids of the process and its descendants."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                text = Path(f"/proc/{parent}/task/{task}/children").read_text()
                found.extend(int(child) for child in text.split())
    return found

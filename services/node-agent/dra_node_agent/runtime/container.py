"""A simulated container: its files, its environment, and the script in place of its process."""

import asyncio
import contextlib
import functools
import os
import shlex
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dra_driverkit.cdi import ContainerEdits
from dra_shared.clock import Clock

from dra_node_agent.runtime.base import ContainerRecord, ContainerSpec, RuntimeFailure, Streams, TerminalSize
from dra_node_agent.runtime.cgroupfiles import cgroup_files
from dra_node_agent.runtime.images import ImageBehaviour
from dra_node_agent.runtime.injection import inject, injected_programs
from dra_node_agent.runtime.logfile import LogFile
from dra_node_agent.runtime.ports import PodPorts
from dra_node_agent.runtime.shell.durations import parse_duration
from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.interpreter import Exit, LoopControl, Shell
from dra_node_agent.runtime.shell.programs import base_programs, reads_input, run_command
from dra_node_agent.runtime.shell.scripted import script_program
from dra_node_agent.runtime.shell.session import Output, converse, read_all
from dra_node_agent.runtime.shell.shelloptions import shell_command
from dra_node_agent.runtime.shell.syntax import ShellSyntaxError
from dra_node_agent.runtime.shell.world import Process, Program, World

SCRIPT = "dralab.dev/script"
RUN_SECONDS = "dralab.dev/run-seconds"
EXIT_CODE = "dralab.dev/exit-code"

# Programs that only install others. They need not run, because the installed programs are not simulated either.
_INSTALLERS = frozenset(("apk", "apt", "apt-get", "conda", "dnf", "microdnf", "pip", "pip3", "yum"))
# Exit code of a process that SIGTERM ended.
_TERMINATED = 143
_UNFINISHED = (
    "dralab: the script has ended, but {what} is not simulated: the container runs until it is asked to stop, "
    "so that its pod does not count as succeeded (see docs/node-agent.md, Images)\n"
)

_SHELLS = frozenset(("sh", "bash", "dash", "ash"))
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEVICES = (
    "full",
    "null",
    "ptmx",
    "pts",
    "random",
    "shm",
    "stderr",
    "stdin",
    "stdout",
    "tty",
    "urandom",
    "zero",
)
_LONGEST_FILE = 1 << 20
_LONGEST_SHOWN = 200


@dataclass(frozen=True)
class Injected:
    """The additions of CDI to a container. Simulated programs such as nvidia-smi show these devices."""

    edits: ContainerEdits
    cdi_device_ids: Sequence[str]


Programs = Callable[[Injected], Mapping[str, Program]]


def _ignore(_: ContainerRecord) -> None:
    pass


def annotation(spec: ContainerSpec, name: str) -> str | None:
    """Return the annotation ``<name>.<container>`` of a container, or else ``<name>``."""
    return spec.annotations.get(f"{name}.{spec.name}", spec.annotations.get(name))


@dataclass
class SimulatedContainer:
    """A container that runs as a task of this process.

    After a restart of the process that simulates it, the container has already run for ``elapsed`` seconds and
    printed the text in the log. The script is replayed up to that point without waiting or printing.
    """

    record: ContainerRecord
    spec: ContainerSpec
    edits: ContainerEdits
    log: LogFile
    clock: Clock
    programs: Programs
    readable: Sequence[Path] = ()
    ports: PodPorts = field(default_factory=PodPorts)
    #: Programs that containers of every image have.
    shared: Mapping[str, Program] = field(default_factory=dict)
    behaviour: ImageBehaviour | None = None
    elapsed: float = 0.0
    resumed: bool = False
    #: Whether programs that nothing simulates are refused.
    strict: bool = False
    #: Called when the container starts to stand in for a program that is not simulated.
    on_unsimulated: Callable[[ContainerRecord], None] = _ignore
    files: Files = field(default_factory=Files)
    env: dict[str, str] = field(init=False)
    _injected: Injected = field(init=False)
    shell: Shell | None = None
    killed: asyncio.Event = field(default_factory=asyncio.Event)
    terminated: asyncio.Event = field(default_factory=asyncio.Event)
    _world: World | None = None
    _named: set[str] = field(default_factory=set)
    _unsimulated: str = ""
    _replay_seconds: float = 0.0
    _replay_text: int = 0

    def __post_init__(self) -> None:
        self._replay_seconds = self.elapsed
        self._replay_text = self.log.text_length() if self.resumed else 0
        self.env = {"PATH": _PATH, "HOSTNAME": self.spec.hostname, "HOME": "/root", **self.spec.env}
        self.env.update(entry.partition("=")[::2] for entry in self.edits.env)
        devices = [node.path for node in self.edits.device_nodes]
        mounts = {mount.container_path: mount.host_path for mount in self.edits.mounts}
        self._injected = Injected(self.edits, self.spec.cdi_device_ids)
        self._fill(devices, mounts)
        inject(self.edits, self.files, f"{self.spec.namespace}/{self.spec.pod}/{self.spec.name}")

    async def run(self) -> int:
        """Run the process of the container. Return its exit code."""
        work = asyncio.ensure_future(self._process())
        killed = asyncio.ensure_future(self.killed.wait())
        watched: list[asyncio.Future[Any]] = [work, killed]
        limit = parse_duration(annotation(self.spec, RUN_SECONDS) or "")
        if limit is not None:
            watched.append(asyncio.ensure_future(self.clock.sleep(max(limit - self.elapsed, 0))))
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if killed.done():
                return 137
            code = work.result() if work.done() else 0
        finally:
            for task in watched:
                task.cancel()
            if self._world is not None:
                self._world.end_jobs()
            await asyncio.gather(*watched, return_exceptions=True)
        wanted = annotation(self.spec, EXIT_CODE)
        return int(wanted) & 0xFF if wanted is not None and wanted.isdigit() else code

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.terminated.set()
        shells = self._world.signalled if self._world is not None else ()
        for shell in (self.shell, *shells):
            if shell is not None:
                shell.signal("TERM")

    async def exec(self, command: Sequence[str]) -> tuple[int, bytes]:
        """Run a command next to the container's main process."""
        pieces: list[str] = []
        shell = self._shell(pieces.append, pieces.append, self._skip, replay=False)
        code = await self._invoke(shell, command)
        return code, "".join(pieces).encode(errors="replace")

    async def converse(self, command: Sequence[str], streams: Streams) -> int:
        """Run a command that is connected to a user. A shell without a script reads commands from the user."""
        output = Output(streams)
        shell = self._shell(output.out, output.err, self._not_found, replay=False)
        if streams.tty:
            shell.env.setdefault("TERM", "xterm")
            streams.on_resize(partial(_resize, shell))
        if streams.stdin:
            shell.input = lambda: read_all(streams)
        name = command[0].rpartition("/")[2] if command else ""
        if name not in _SHELLS and name not in shell.world.programs:
            output.cancel()
            raise RuntimeFailure(
                "StartError",
                "OCI runtime exec failed: exec failed: unable to start container process: exec:"
                f' "{command[0] if command else ""}": executable file not found in $PATH: unknown',
            )
        try:
            made = shell_command(command, self.files.content) if name in _SHELLS else None
            if made is not None and made.script is None and not made.missing:
                shell.name, shell.options = name, made.options
                code = await converse(shell, streams, output) if streams.stdin else 0
            else:
                code = await self._invoke(shell, command)
            await output.close()
        finally:
            output.cancel()
            shell.world.end_jobs()
        return code

    async def _not_found(self, process: Process) -> int:
        process.err(f"sh: {process.argv[0]}: not found\n")
        return 127

    async def _process(self) -> int:
        shell = self._shell(self._out, self._err, self._stand_in, replay=True)
        command = self._command(shell.world.programs)
        name = command[0].rpartition("/")[2] if command else ""
        if name in _SHELLS:
            self.shell = shell
        if not command:
            return await self._go_on(f"the image {self.spec.image}")
        code = await self._invoke(shell, command)
        if code or self._counts_as_done:
            return code
        if self.spec.to_end and self._unsimulated:
            # The pod must not count as succeeded, because its work was not done.
            self._err(_UNFINISHED.format(what=_shorten(self._unsimulated)))
            return await self._stand_for(self._unsimulated)
        if shell.world.ended_unknown and not self.spec.to_end:
            # The last command is a program that is not simulated. Treat it like a server: run until the
            # container is stopped.
            return await self._stand_for(self._unsimulated or "the last command")
        return code

    @property
    def _counts_as_done(self) -> bool:
        """True if programs that nothing simulates end at once: preparations, and those with a given exit code."""
        spec = self.spec
        return spec.to_end and (spec.init or annotation(spec, EXIT_CODE) is not None)

    async def _stand_for(self, what: str) -> int:
        """Mark the container as not simulated, and run until it is asked to stop."""
        if self.mark(what):
            self.on_unsimulated(self.record)
        await self.terminated.wait()
        return _TERMINATED if self.spec.to_end else 0

    def mark(self, what: str) -> bool:
        """Mark the container as running a program that is not simulated. Return True if it was not marked before."""
        if self._counts_as_done or annotation(self.spec, RUN_SECONDS) is not None:
            return False
        before, self.record.unsimulated = self.record.unsimulated, _shorten(what)
        return before != self.record.unsimulated

    def find_unsimulated(self) -> str:
        """Return the command of the container if nothing simulates it; empty if something does."""
        command = self._command(programs := self._all_programs())
        name = command[0].rpartition("/")[2] if command else ""
        if not command:
            return f"the image {self.spec.image}"
        missing = (
            shell_command(command, self.files.content, "/").missing
            if name in _SHELLS
            else name not in programs
        )
        return shlex.join(command) if missing else ""

    def _command(self, known: Mapping[str, Program]) -> list[str]:
        """Return the command of the pod, or else that of the image. Empty if neither is known."""
        spec, behaviour = self.spec, self.behaviour
        script = annotation(spec, SCRIPT)
        if script is not None:
            return ["sh", "-c", script]
        if spec.command:
            return [*spec.command, *spec.args]
        if behaviour is not None:
            return [*behaviour.entrypoint, *(spec.args or behaviour.args)]
        name = spec.args[0].rpartition("/")[2] if spec.args else ""
        # Images like busybox have no entry point, so that the arguments are the command.
        return [*spec.args] if name in _SHELLS or name in known else []

    async def _invoke(self, shell: Shell, command: Sequence[str]) -> int:
        if not command:
            return 0
        name = command[0].rpartition("/")[2]
        try:
            if name in _SHELLS:
                made = shell_command(command, self.files.content, shell.directory)
                stdin = await shell.input() if shell.input is not None and made.script is None else ""
                process = Process(command, dict(self.env), shell.out, shell.err, stdin, shell)
                if not made.missing:
                    return await run_command(shell, process, made)
                # Only the real image has the file.
                self.shell = None if self.shell is shell else self.shell
                return await shell.world.fallback(process)
            stdin = await shell.input() if shell.input is not None and reads_input(command) else ""
            process = Process(command, dict(self.env), shell.out, shell.err, stdin, shell)
            return await shell.world.programs.get(name, shell.world.fallback)(process)
        except Exit as end:
            return end.code
        except (LoopControl, ShellSyntaxError):
            return 2

    def _shell(
        self, out: Callable[[str], None], err: Callable[[str], None], fallback: Program, *, replay: bool
    ) -> Shell:
        world = World(
            self._all_programs(),
            self._sleep if replay else self.clock.sleep,
            fallback,
            self.files,
            hostname=self.spec.hostname,
            directory=self.spec.working_dir or "/",
            reads_input=reads_input,
            ports=self.ports,
            terminated=self.terminated,
            log=err,
        )
        if replay:
            self._world = world
        return Shell(world, self.env, out, err)

    def _all_programs(self) -> Mapping[str, Program]:
        own = self.behaviour.programs if self.behaviour is not None else {}
        return {
            **base_programs(self.clock.now),
            **injected_programs(self.edits),
            **self.programs(self._injected),
            **self.shared,
            **{name: script_program(text) for name, text in own.items()},
        }

    async def _sleep(self, seconds: float) -> None:
        skipped = min(seconds, self._replay_seconds)
        self._replay_seconds -= skipped
        await self.clock.sleep(seconds - skipped)

    def _out(self, text: str) -> None:
        self._print("stdout", text)

    def _err(self, text: str) -> None:
        self._print("stderr", text)

    def _print(self, stream: str, text: str) -> None:
        skipped = min(len(text), self._replay_text)
        self._replay_text -= skipped
        if len(text) > skipped:
            self.log.write(stream, text[skipped:])

    async def _stand_in(self, process: Process) -> int:
        """Stand in for a program that only the real image has: succeed in a script, keep running in the background."""
        process.shell.world.ended_unknown = True
        command = shlex.join(process.argv)
        if self.strict:
            process.err(f"{process.shell.name}: {process.argv[0]}: command not found\n")
            self._say(process.shell.world.log or process.err, command, "is not found with --images strict")
            return 127
        if process.name not in _INSTALLERS:
            self._unsimulated = command
        in_script = self.shell is not None or process.shell.world.signalled
        if (process.shell.in_background or not in_script) and not self._counts_as_done:
            return await self._go_on(command)
        self._say(process.shell.world.log or process.err, command, "counts as done")
        return 0

    async def _skip(self, process: Process) -> int:
        """Stand in for an unknown program in a command that runs in addition to the process. It succeeds."""
        self._say(process.shell.world.log or process.err, shlex.join(process.argv), "counts as done")
        return 0

    async def _go_on(self, what: str) -> int:
        if self._counts_as_done:
            self._say(self._err, what, "counts as done")
            return 0
        self._say(self._err, what, "runs until it is asked to stop")
        return await self._stand_for(what)

    def _say(self, err: Callable[[str], None], what: str, fate: str) -> None:
        shown = _shorten(what)
        if shown not in self._named:
            self._named.add(shown)
            err(f"dralab: {shown} is not simulated, and {fate} (see docs/node-agent.md, Images)\n")

    def _fill(self, devices: Sequence[str], mounts: Mapping[str, str]) -> None:
        content = self.files.content
        content.update((f"/dev/{name}", "") for name in _DEVICES)
        content.update((path, "") for path in devices)
        content["/etc/hostname"] = self.spec.hostname + "\n"
        content.update(cgroup_files(self.spec.resources))
        if self.behaviour is not None:
            content.update(self.behaviour.files)
        given = {mount.target: mount.source for mount in self.spec.mounts}
        for target, source in {**given, **mounts}.items():
            self._mount(target, source, trusted=target in mounts)

    def _mount(self, target: str, source: str, *, trusted: bool) -> None:
        if not source or not (trusted or any(Path(source).is_relative_to(root) for root in self.readable)):
            self.files.directories.add(target.rstrip("/"))
            return
        content = self.files.content
        try:
            found = os.stat(source)
        except (OSError, ValueError):
            content[target] = ""
            return
        if stat.S_ISDIR(found.st_mode):
            path = Path(source)
            self.files.directories.add(target.rstrip("/"))
            for entry in sorted(path.rglob("*"))[:256]:
                hidden = any(part.startswith("..") for part in entry.relative_to(path).parts)
                if entry.is_file() and not hidden:
                    content[f"{target.rstrip('/')}/{entry.relative_to(path)}"] = _read(entry)
        elif stat.S_ISREG(found.st_mode):
            content[target] = _shared_file(source, found.st_ino, found.st_ctime_ns, found.st_size)
        else:
            content[target] = ""


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _resize(shell: Shell, size: TerminalSize) -> None:
    shell.world.terminal = size
    shell.assign("COLUMNS", str(size.columns))
    shell.assign("LINES", str(size.lines))


@functools.lru_cache(maxsize=64)
def _shared_file(path: str, inode: int, changed: int, size: int) -> str:
    """Read a file that most containers have, such as one of the driver. The text is cached until the file changes."""
    return _read(Path(path))


def _read(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(_LONGEST_FILE).decode(errors="replace")
    return ""

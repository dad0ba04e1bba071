"""Run the trees of :mod:`dra_node_agent.runtime.shell.syntax`."""

import asyncio
import contextlib
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence

from dra_node_agent.runtime.shell.expansion import Expander
from dra_node_agent.runtime.shell.syntax import (
    AndOr,
    Command,
    For,
    Group,
    If,
    Loop,
    Node,
    Pipeline,
    Redirect,
    Script,
    ShellSyntaxError,
    parse,
)
from dra_node_agent.runtime.shell.world import Piped, Process, World, Write, absolute

# A memory limit, because scripts run inside the agent's process.
LONGEST_TEXT = 1 << 16
_MOST_VARIABLES = 1024
_MOST_JOBS = 256
_LONGEST_OUTPUT = 1 << 20
_TURNS_WITHOUT_PAUSE = 200
_OWN_PID = 1


class Exit(Exception):
    """The command ``exit``: the shell ends."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LoopControl(Exception):
    """The commands ``break`` and ``continue``."""

    def __init__(self, depth: int, again: bool) -> None:
        super().__init__(depth)
        self.depth, self.again = depth, again


class _BrokenPipe(Exception):
    """The reader of this output has gone."""


class _Collector:
    """Collects output up to a limit."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._left = _LONGEST_OUTPUT

    def __call__(self, text: str) -> None:
        self._pieces.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise _BrokenPipe

    @property
    def text(self) -> str:
        return "".join(self._pieces)


class Shell:
    """One shell. It is process 1, so SIGTERM has an effect only if the script set a trap for it."""

    def __init__(
        self,
        world: World,
        env: Mapping[str, str],
        out: Write,
        err: Write,
        *,
        name: str = "sh",
        arguments: Sequence[str] = (),
    ) -> None:
        self.world = world
        self.files = world.files
        self.name = name
        self.arguments = list(arguments)
        self.env = dict(env)
        self.variables: dict[str, str] = {}
        self.traps: dict[str, str] = {}
        self.status = 0
        self.out, self.err = out, err
        self.directory = world.directory
        #: The options of ``set`` that are on: one letter each, or ``pipefail``.
        self.options: frozenset[str] = frozenset()
        #: How many conditions are under way. A command that fails within a condition does not end the shell
        # (``set -e``).
        self._conditions = 0
        self._substituted = False
        self.jobs: list[asyncio.Task[int]] = []
        self._children: dict[int, tuple[asyncio.Task[int], Shell]] = {}
        #: The standard input of a compound command, from a pipe or a file.
        self.piped: Piped | None = None
        #: The process ID of the last job in the background; 0 if there was none.
        self.last_job = 0
        #: Whether this shell is a job of another shell.
        self.in_background = False
        self._signals: list[str] = []
        self._interrupt = asyncio.Event()
        self._expander = Expander(self)
        #: Returns the standard input of commands that read it and have no pipe or file.
        self.input: Callable[[], Awaitable[str]] | None = None

    async def run(self, text: str) -> int:
        """Run a script. Return its exit code."""
        try:
            await self.execute(parse(text))
        except Exit as end:
            self.status = end.code
        except LoopControl:
            self.status = 0
        except ShellSyntaxError as error:
            self.err(f"{self.name}: -c: {error}\n")
            self.status = 2
        except _BrokenPipe:
            self.status = 141
        except RecursionError:
            self.err(f"{self.name}: -c: nested too deeply\n")
            self.status = 2
        if command := self.traps.pop("EXIT", ""):
            await self._run_exit_trap(command)
        for job in self.jobs:
            job.cancel()
        return self.status

    async def _run_exit_trap(self, command: str) -> None:
        status = self.status
        try:
            await self.execute(parse(command))
            # The shell ends with the exit status from before the trap, unless the trap itself calls `exit`.
            self.status = status
        except Exit as end:
            self.status = end.code
        except (LoopControl, ShellSyntaxError):
            self.status = status

    async def run_line(self, text: str) -> bool:
        """Run one line of a conversation. Return False if the shell ends."""
        try:
            await self.execute(parse(text))
        except Exit as end:
            self.status = end.code
            return False
        except LoopControl:
            self.status = 0
        except ShellSyntaxError as error:
            self.err(f"{self.name}: {error}\n")
            self.status = 2
        except _BrokenPipe:
            self.status = 141
        except RecursionError:
            self.err(f"{self.name}: nested too deeply\n")
            self.status = 2
        return True

    def signal(self, name: str) -> bool:
        """Deliver a signal. Return False if no trap is set for it."""
        if name not in self.traps:
            return False
        if not self.traps[name]:
            # An empty trap: the signal is ignored and does not interrupt a wait.
            return True
        self._signals.append(name)
        self._interrupt.set()
        return True

    def lookup(self, name: str) -> str | None:
        """Return the value of a variable; None if it is not set."""
        if name in self.variables:
            return self.variables[name]
        return self.env.get(name)

    def assign(self, name: str, value: str) -> None:
        """Set a variable. An exported variable stays exported."""
        if len(value) > LONGEST_TEXT or len(self.variables) + len(self.env) > _MOST_VARIABLES:
            raise ShellSyntaxError("out of memory")
        (self.env if name in self.env else self.variables)[name] = value

    async def execute(self, node: Node) -> int:
        """Run one node. Return its status."""
        self.status = await self._dispatch(node)
        await self._run_traps()
        if self.status and "e" in self.options and not self._conditions and _is_checked(node):
            raise Exit(self.status)
        return self.status

    async def _condition(self, node: Node) -> int:
        self._conditions += 1
        try:
            return await self.execute(node)
        finally:
            self._conditions -= 1

    def unset(self, name: str) -> str:
        """Return the value of a variable that is not set. With ``set -u`` this is an error."""
        if "u" not in self.options:
            return ""
        self.err(f"{self.name}: {name}: unbound variable\n")
        raise Exit(127 if self.name.endswith("bash") else 2)

    def kill(self, pid: int, name: str) -> bool:
        """Send a signal to a job, or to this shell, which is process 1. An empty name only checks that it runs.

        Returns False if there is no such process.
        """
        if pid == _OWN_PID:
            if name and not self.signal(name):
                self.err(
                    "dralab: kill: signals to process 1 that this script does not trap are not simulated,"
                    " and count as done\n"
                )
            return True
        job, child = self._children.get(pid, (None, None))
        if job is None or child is None or job.done():
            return False
        if name and (name in ("KILL", "STOP") or not child.signal(name)):
            job.cancel()
        return True

    async def wait(self, pids: Sequence[int] = ()) -> int:
        """Wait until these jobs, or all, have ended, or a trapped signal arrives."""
        self._interrupt.clear()
        if pids and any(pid not in self._children for pid in pids):
            return 127
        waiting: set[asyncio.Task[int] | asyncio.Task[bool]] = set(
            [self._children[pid][0] for pid in pids] if pids else self.jobs
        )
        if not waiting:
            return 0
        interrupt = asyncio.ensure_future(self._interrupt.wait())
        everything = asyncio.ensure_future(asyncio.wait(waiting))
        try:
            await asyncio.wait((interrupt, everything), return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupt.cancel()
            everything.cancel()
        if self._signals:
            return 143
        if not pids:
            self.jobs.clear()
            return 0
        last = self._children[pids[-1]][0]
        return 143 if last.cancelled() else last.result()

    async def capture(self, text: str) -> str:
        """Run a script, and return what it prints: ``$(text)``."""
        output = _Collector()
        child = self._child(output, self.err)
        with contextlib.suppress(_BrokenPipe):
            await child.run(text)
        self.status = child.status
        self._substituted = True
        return output.text

    def _child(self, out: Write, err: Write) -> "Shell":
        child = Shell(self.world, self.env, out, err, name=self.name, arguments=self.arguments)
        child.variables = dict(self.variables)
        child.options = self.options
        child._conditions = self._conditions
        child.directory = self.directory
        child.input = self.input
        child.piped = self.piped
        child.in_background = self.in_background
        return child

    async def _run_traps(self) -> None:
        while self._signals:
            command = self.traps.get(self._signals.pop(0), "")
            if command:
                await self._dispatch(parse(command))

    async def _dispatch(self, node: Node) -> int:
        match node:
            case Script():
                status = 0
                for item in node.items:
                    status = await self.execute(item)
                return status
            case AndOr():
                if node.background:
                    return self._background(node)
                return await self._and_or(node)
            case Pipeline():
                status = await self._pipeline(node)
                return int(status == 0) if node.negated else status
            case If():
                for condition, body in node.branches:
                    if await self._condition(condition) == 0:
                        return await self.execute(body)
                return await self.execute(node.otherwise) if node.otherwise is not None else 0
            case Loop() | For():
                return await self._loop(node)
            case Group():
                return await self._group(node)
            case Command():
                return await self._simple(node, None)

    async def _and_or(self, node: AndOr) -> int:
        status = await (self._condition if node.rest else self.execute)(node.first)
        for place, (operator, item) in enumerate(node.rest, 1):
            if (operator == "&&") == (status == 0):
                # With `set -e` only the last command of a list can end a shell.
                status = await (self.execute if place == len(node.rest) else self._condition)(item)
        return status

    def _background(self, node: AndOr) -> int:
        world = self.world
        if len(world.jobs) >= _MOST_JOBS:
            raise ShellSyntaxError("fork: Resource temporarily unavailable")
        child = self._child(self.out, self.err)
        child.in_background = True
        child.piped = None
        job = asyncio.ensure_future(_run_detached(child, node))
        world.jobs.add(job)
        job.add_done_callback(world.jobs.discard)
        self.jobs = [known for known in self.jobs if not known.done()]
        self.jobs.append(job)
        world.last_pid += 1
        self.last_job = world.last_pid
        if len(self._children) >= _MOST_JOBS:
            self._children = {pid: known for pid, known in self._children.items() if not known[0].done()}
        self._children[self.last_job] = (job, child)
        return 0

    async def _pipeline(self, node: Pipeline) -> int:
        stdin: str | None = None
        status = failed = 0
        for position, item in enumerate(node.commands):
            last = position == len(node.commands) - 1
            output = _Collector()
            # Each part is a process of its own, so its changes to variables are lost.
            part = self if len(node.commands) == 1 else self._child(self.out if last else output, self.err)
            if stdin is not None:
                part.piped = Piped(stdin)
            try:
                if isinstance(item, Command):
                    status = await part._simple(item, stdin)
                else:
                    status = await part.execute(item)
            except Exit as end:
                if part is self:
                    raise
                status = end.code
            except _BrokenPipe:
                if last:
                    raise
                status = 141
            stdin = output.text
            failed = status or failed
        return failed if "pipefail" in self.options else status

    async def _loop(self, node: Loop | For) -> int:
        status = 0
        words: list[str] | None = None
        if isinstance(node, For):
            words = [text for word in node.words for text in await self._expander.fields(word)]
        turn = 0
        while True:
            if words is not None:
                if turn >= len(words):
                    return status
                self.assign(node.name if isinstance(node, For) else "", words[turn])
            elif isinstance(node, Loop) and (await self._condition(node.condition) == 0) == node.until:
                return status
            turn += 1
            try:
                status = await self.execute(node.body)
            except LoopControl as control:
                if control.depth > 1:
                    raise LoopControl(control.depth - 1, control.again) from None
                if not control.again:
                    return 0
            # A loop that never waits must not stop everything else in the process.
            await asyncio.sleep(0)
            if turn % _TURNS_WITHOUT_PAUSE == 0:
                await self.world.sleep(0.1)

    async def _group(self, node: Group) -> int:
        out, err = await self._open_outputs(node.redirects)
        given, failed = await self._redirected_input(node.redirects)
        if failed:
            return 1
        piped = self.piped if given is None else Piped(given)
        if node.subshell:
            child = self._child(out, err)
            child.piped = piped
            try:
                return await child.execute(node.body)
            except Exit as end:
                return end.code
        saved = self.out, self.err, self.piped
        self.out, self.err, self.piped = out, err, piped
        try:
            return await self.execute(node.body)
        finally:
            self.out, self.err, self.piped = saved

    async def _redirected_input(self, redirects: Sequence[Redirect]) -> tuple[str | None, bool]:
        """Return the standard input from redirections, and whether a file is missing."""
        given: str | None = None
        for redirect in redirects:
            if redirect.operator == "<":
                given = await self._file_text(redirect)
                if given is None:
                    return None, True
            elif redirect.operator == "<<<":
                given = await self._expander.text(redirect.target.text) + "\n"
        return given, False

    async def _simple(self, node: Command, stdin: str | None) -> int:
        words = list(node.words)
        self._substituted = False
        assignments: dict[str, str] = {}
        while words and (pair := _assignment(words[0].text)) is not None:
            assignments[pair[0]] = await self._expander.text(pair[1])
            words.pop(0)
        if words and words[0].text == "[[":
            argv = await self._expander.operands(words)
        else:
            argv = [text for word in words for text in await self._expander.fields(word)]
        out, err = await self._open_outputs(node.redirects)
        given, failed = await self._redirected_input(node.redirects)
        if failed:
            return 1
        if not argv:
            for name, value in assignments.items():
                self.assign(name, value)
                if "x" in self.options:
                    self.err(f"+ {name}={shlex.quote(value) if value else ''}\n")
            return self.status if self._substituted else 0
        if "x" in self.options:
            self.err(f"+ {shlex.join(argv)}\n")
        piped = self.piped if given is None else Piped(given)
        stdin = stdin if given is None else given
        if stdin is None:
            stdin = await self._input_of(argv)
        process = Process(argv, {**self.env, **assignments}, out, err, stdin, self, piped)
        program = self.world.programs.get(argv[0].rpartition("/")[2], self.world.fallback)
        self.world.ended_unknown = False
        return await program(process)

    async def _input_of(self, argv: Sequence[str]) -> str:
        """Return the standard input for a command that reads it and has no redirection."""
        if not self.world.reads_input(argv):
            return ""
        if self.piped is not None:
            return self.piped.rest()
        return await self.input() if self.input is not None else ""

    async def _open_outputs(self, redirects: Sequence[Redirect]) -> tuple[Write, Write]:
        streams: dict[int, Write] = {1: self.out, 2: self.err}
        for redirect in redirects:
            target = await self._expander.text(redirect.target.text)
            if redirect.operator == ">&" and target.isdigit():
                streams[redirect.descriptor or 1] = streams.get(int(target), self.out)
            elif redirect.operator in (">", ">>", "&>", ">&"):
                write = self._file_writer(target, append=redirect.operator == ">>")
                if redirect.operator in ("&>", ">&"):
                    streams[1] = streams[2] = write
                else:
                    streams[1 if redirect.descriptor is None else redirect.descriptor] = write
        return streams[1], streams[2]

    async def _file_text(self, redirect: Redirect) -> str | None:
        """Return the text for ``< FILE``. If the file is missing, report that and return None."""
        name = await self._expander.text(redirect.target.text)
        path = absolute(self.directory, name)
        content = self.files.content.get(path)
        if content is None:
            is_directory = self.files.listing(path) is not None
            why = "Is a directory" if is_directory else "No such file or directory"
            self.err(f"{self.name}: {name}: {why}\n")
        return content

    def _file_writer(self, path: str, *, append: bool) -> Write:
        if path in ("/dev/stdout", "/proc/1/fd/1", "/proc/self/fd/1", "/dev/fd/1"):
            return self.out
        if path in ("/dev/stderr", "/proc/1/fd/2", "/dev/termination-log-stderr"):
            return self.err
        if path == "/dev/null":
            return lambda _: None
        files, place = self.files, absolute(self.directory, path)
        files.write(place, "", append=append)
        return lambda text: files.write(place, text, append=True)


async def _run_detached(shell: Shell, node: AndOr) -> int:
    try:
        return await shell.execute(AndOr(node.first, node.rest))
    except Exit as end:
        return end.code
    except (LoopControl, ShellSyntaxError, _BrokenPipe):
        return 2


def _is_checked(node: Node) -> bool:
    """Return True if ``set -e`` looks at the status of the node itself, and not at that of its parts."""
    return (
        isinstance(node, Command)
        or (isinstance(node, Pipeline) and not node.negated)
        or (isinstance(node, Group) and node.subshell)
    )


def _assignment(text: str) -> tuple[str, str] | None:
    name, equals, value = text.partition("=")
    if equals and name.isidentifier() and name.isascii():
        return name, value
    return None

"""The programs that every simulated image has: the builtins of a shell, coreutils and a few more."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from dra_node_agent.runtime.shell.archive import extracts, tar
from dra_node_agent.runtime.shell.awk import awk
from dra_node_agent.runtime.shell.builtins import BUILTINS
from dra_node_agent.runtime.shell.conditions import CONDITIONS
from dra_node_agent.runtime.shell.durations import FOREVER, parse_duration
from dra_node_agent.runtime.shell.fileprograms import FILE_PROGRAMS
from dra_node_agent.runtime.shell.finding import find
from dra_node_agent.runtime.shell.grep import grep
from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.network import httpd, nc
from dra_node_agent.runtime.shell.options import DeclaredProgram, Given, Syntax, UsageError, call, declare
from dra_node_agent.runtime.shell.printing import PRINTING, date
from dra_node_agent.runtime.shell.sed import sed
from dra_node_agent.runtime.shell.selection import cut, head, tail, uniq, wc
from dra_node_agent.runtime.shell.shelloptions import ShellCommand, shell_command
from dra_node_agent.runtime.shell.sorting import sort
from dra_node_agent.runtime.shell.tools import TOOLS
from dra_node_agent.runtime.shell.translation import tr
from dra_node_agent.runtime.shell.world import Process, Program

_READERS = frozenset(
    {"awk", "cat", "cut", "egrep", "fgrep", "grep", "head", "sed", "sort", "tail", "tee", "tr", "uniq", "wc"}
)


def base_programs(now: Callable[[], datetime]) -> Mapping[str, Program]:
    """Return the programs by name. ``date`` shows the time that ``now`` returns."""
    return {**_PROGRAMS, "date": date(now)}


def reads_input(argv: Sequence[str]) -> bool:
    """Return True if a command with these words reads its standard input."""
    name = argv[0].rpartition("/")[2]
    if name == "tar":
        return extracts(argv)
    program = _PROGRAMS.get(name)
    return name == "nc" or (
        isinstance(program, DeclaredProgram) and name in _READERS and program.reads_input(argv)
    )


async def _sleep(process: Process) -> int:
    total = 0.0
    for word in process.argv[1:]:
        seconds = parse_duration(word)
        if seconds is None:
            process.err(f"sleep: invalid time interval '{word}'\n")
            return 1
        total += seconds
    if len(process.argv) < 2:
        process.err("sleep: missing operand\n")
        return 1
    await process.shell.world.sleep(min(total, FOREVER))
    return 0


@declare(
    Syntax(
        flags="i0",
        valued="u",
        status=125,
        ordered=True,
        long={"ignore-environment": "i", "null": "0", "unset": "u"},
    )
)
async def _env(process: Process, given: Given) -> int:
    words = list(given.operands)
    env = {} if "i" in given or words[:1] == ["-"] else dict(process.env)
    if words[:1] == ["-"]:
        words.pop(0)
    for name in given.values("u"):
        env.pop(name, None)
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    if words:
        return await call(process, words, env)
    for name, value in env.items():
        process.out(f"{name}={value}" + ("\0" if "0" in given else "\n"))
    return 0


@declare(Syntax(flags="0", status=2, long={"null": "0"}))
async def _printenv(process: Process, given: Given) -> int:
    end = "\0" if "0" in given else "\n"
    if not given.operands:
        process.out("".join(f"{name}={value}{end}" for name, value in process.env.items()))
    for name in given.operands:
        if name in process.env:
            process.out(process.env[name] + end)
    return 0 if all(name in process.env for name in given.operands) else 1


async def _stty(process: Process) -> int:
    size = process.shell.world.terminal
    if size is None:
        process.err("stty: standard input: Inappropriate ioctl for device\n")
        return 1
    if list(process.argv[1:]) != ["size"]:
        process.err("stty: only stty size is simulated\n")
        return 1
    process.out(f"{size.lines} {size.columns}\n")
    return 0


_UNAME = {
    "s": "Linux", "n": "", "r": "6.1.0", "v": "#1 SMP dralab", "m": "x86_64", "p": "x86_64", "i": "x86_64",
    "o": "GNU/Linux",
}  # fmt: skip


@declare(
    Syntax(
        flags="asnrvmpio",
        long={
            "all": "a",
            "kernel-name": "s",
            "nodename": "n",
            "kernel-release": "r",
            "kernel-version": "v",
            "machine": "m",
            "processor": "p",
            "hardware-platform": "i",
            "operating-system": "o",
        },
    )
)
async def _uname(process: Process, given: Given) -> int:
    wanted = [
        letter
        for letter in _UNAME
        if letter in given or ("a" in given and letter not in "pi") or (letter == "s" and not given.options)
    ]
    process.out(" ".join(_UNAME[x] or process.shell.world.hostname for x in wanted) + "\n")
    return 0


@declare(Syntax(flags="sf", long={"short": "s", "fqdn": "f", "long": "f"}))
async def _hostname(process: Process, given: Given) -> int:
    if given.operands:
        raise UsageError("setting the hostname is not simulated")
    hostname = process.shell.world.hostname
    process.out((hostname.partition(".")[0] if "s" in given else hostname) + "\n")
    return 0


@declare(Syntax(flags="LP"))
async def _pwd(process: Process, given: Given) -> int:
    process.out(f"{process.shell.directory}\n")
    return 0


@declare(Syntax(flags="x"))
async def _clear(process: Process, given: Given) -> int:
    process.out("\x1b[H\x1b[J")
    return 0


@declare(Syntax(flags="df", long={"data": "d", "file-system": "f"}))
async def _sync(process: Process, given: Given) -> int:
    return 0


@declare(Syntax())
async def _whoami(process: Process, given: Given) -> int:
    if given.operands:
        raise UsageError(f"extra operand ‘{given.operands[0]}’")
    process.out("root\n")
    return 0


def _constant(status: int) -> Program:
    async def program(_: Process) -> int:
        return status

    return program


async def run_shell(process: Process) -> int:
    """Run ``sh -c script`` and the like, as a child of the calling shell."""
    shell = process.shell
    made = shell_command(process.argv, process.files.content, shell.directory)
    if made.missing:
        return await shell.world.fallback(process)
    child = Shell(shell.world, process.env, process.out, process.err)
    child.directory = shell.directory
    return await run_command(child, process, made)


async def run_command(shell: Shell, process: Process, made: ShellCommand) -> int:
    """Run the script of a shell's command line, or else the standard input."""
    for option in made.unknown:
        process.notice(f"option {option} is")
    shell.name, shell.arguments, shell.options = made.name, list(made.arguments), made.options
    return await shell.run(process.stdin if made.script is None else made.script)


_PROGRAMS: Mapping[str, Program] = {
    **BUILTINS,
    **CONDITIONS,
    **FILE_PROGRAMS,
    **PRINTING,
    **TOOLS,
    "awk": awk,
    "cut": cut,
    "egrep": grep,
    "fgrep": grep,
    "find": find,
    "grep": grep,
    "head": head,
    "sed": sed,
    "sort": sort,
    "tail": tail,
    "tr": tr,
    "uniq": uniq,
    "wc": wc,
    ":": _constant(0),
    "true": _constant(0),
    "false": _constant(1),
    "sync": _sync,
    "sleep": _sleep,
    "env": _env,
    "printenv": _printenv,
    "pwd": _pwd,
    "stty": _stty,
    "clear": _clear,
    "hostname": _hostname,
    "whoami": _whoami,
    "uname": _uname,
    "httpd": httpd,
    "nc": nc,
    "tar": tar,
    "sh": run_shell,
    "bash": run_shell,
    "dash": run_shell,
    "ash": run_shell,
}

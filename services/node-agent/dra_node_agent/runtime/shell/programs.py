"""The programs that every simulated image has: a shell's builtins, coreutils and a few more; here is the list."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from dra_node_agent.runtime.shell.archive import extracts, tar
from dra_node_agent.runtime.shell.builtins import BUILTINS
from dra_node_agent.runtime.shell.conditions import CONDITIONS
from dra_node_agent.runtime.shell.durations import FOREVER, duration
from dra_node_agent.runtime.shell.fileprograms import FILE_PROGRAMS
from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.network import httpd, nc
from dra_node_agent.runtime.shell.tools import TOOLS
from dra_node_agent.runtime.shell.world import Process, Program

_HOLE = re.compile(r"%-?[0-9]{0,3}(?:\.[0-9]{1,2})?[sdiufxc]")
_FILTERS = frozenset({"cat", "head", "sort", "tail", "tr", "uniq", "wc"})
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "\\r": "\r", "\\a": "\a", "\\e": "\x1b"}
_ESCAPE = re.compile(r"\\(?:[ntrae\\]|[0-7]{1,4})")


def base_programs(now: Callable[[], datetime]) -> Mapping[str, Program]:
    """The programs by name; ``now`` is what ``date`` tells."""

    async def date(process: Process) -> int:
        moment = now()
        if "-u" not in process.argv:
            moment = moment.astimezone(UTC)
        form = next(
            (word[1:] for word in process.argv[1:] if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y"
        )
        process.out(moment.strftime(form.replace("%s", str(int(moment.timestamp())))) + "\n")
        return 0

    return {**_PROGRAMS, "date": date}


def reads_input(argv: Sequence[str]) -> bool:
    """Whether a command with these words reads its standard input."""
    words = [word for word in argv[1:] if not word.startswith("-") or word == "-"]
    name = argv[0].rpartition("/")[2]
    if name == "grep":
        return len(words) == 1
    if name == "tar":
        return extracts(argv)
    return name in {"tee", "nc"} or (name in _FILTERS and not words)


async def _sleep(process: Process) -> int:
    total = 0.0
    for word in process.argv[1:]:
        seconds = duration(word)
        if seconds is None:
            process.err(f"sleep: invalid time interval '{word}'\n")
            return 1
        total += seconds
    if len(process.argv) < 2:
        process.err("sleep: missing operand\n")
        return 1
    await process.shell.world.sleep(min(total, FOREVER))
    return 0


async def _echo(process: Process) -> int:
    words = list(process.argv[1:])
    newline, escapes = True, False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags = words.pop(0)
        newline, escapes = newline and "n" not in flags, escapes or "e" in flags
    text = " ".join(words)
    process.out((_unescape(text) if escapes else text) + ("\n" if newline else ""))
    return 0


async def _printf(process: Process) -> int:
    if len(process.argv) < 2:
        process.err("printf: usage: printf format [arguments]\n")
        return 2
    form, values = _unescape(process.argv[1]), list(process.argv[2:])
    holes = len(re.findall(_HOLE, form))
    pieces = []
    while True:
        batch, values = values[:holes], values[holes:]

        def fill(match: re.Match[str], batch: list[str] = batch) -> str:
            value = batch.pop(0) if batch else ""
            kind = match[0][-1]
            try:
                if kind in "diux":
                    return str(match[0].replace("i", "d").replace("u", "d") % int(value or "0", 0))
                if kind == "f":
                    return str(match[0] % float(value or "0"))
            except ValueError:
                return "0"
            return str(match[0] % (value[:1] if kind == "c" else value))

        pieces.append(re.sub(_HOLE, fill, form).replace("%%", "%"))
        if not values or not holes:
            break
    process.out("".join(pieces))
    return 0


async def _env(process: Process) -> int:
    words = list(process.argv[1:])
    env = dict(process.env)
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    if words:
        inner = Process(words, env, process.out, process.err, process.stdin, process.shell)
        world = process.shell.world
        return await world.programs.get(words[0].rpartition("/")[2], world.fallback)(inner)
    for name, value in env.items():
        process.out(f"{name}={value}\n")
    return 0


async def _printenv(process: Process) -> int:
    if len(process.argv) < 2:
        return await _env(process)
    value = process.env.get(process.argv[1])
    if value is None:
        return 1
    process.out(value + "\n")
    return 0


async def _stty(process: Process) -> int:
    size = process.shell.world.terminal
    if size is None:
        process.err("stty: standard input: Inappropriate ioctl for device\n")
        return 1
    if list(process.argv[1:]) == ["size"]:
        process.out(f"{size.lines} {size.columns}\n")
    return 0


async def _clear(process: Process) -> int:
    process.out("\x1b[H\x1b[J")
    return 0


def _constant(status: int) -> Program:
    async def program(_: Process) -> int:
        return status

    return program


def _prints(text: Callable[[Process], str]) -> Program:
    async def program(process: Process) -> int:
        process.out(text(process) + "\n")
        return 0

    return program


async def _seq(process: Process) -> int:
    numbers = [int(word) for word in process.argv[1:] if word.lstrip("-").isdigit()]
    if not 1 <= len(numbers) <= 3:
        process.err("seq: missing operand\n")
        return 1
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] or 1 if len(numbers) > 2 else 1
    last = numbers[-1]
    last = min(last, first + 100_000 * step) if step > 0 else max(last, first + 100_000 * step)
    process.out("".join(f"{number}\n" for number in range(first, last + (1 if step > 0 else -1), step)))
    return 0


async def run_shell(process: Process) -> int:
    """``sh -c script`` and the like, as a child of the calling shell."""
    script, name, arguments = shell_script(process.argv, process.files.content)
    if script is None:
        return 0
    shell = process.shell
    child = Shell(shell.world, process.env, process.out, process.err, name=name, arguments=arguments)
    return await child.run(script)


def shell_script(argv: Sequence[str], files: Mapping[str, str]) -> tuple[str | None, str, Sequence[str]]:
    """The script that a shell's command line names, what the shell calls itself, and the arguments."""
    name = argv[0].rpartition("/")[2]
    words = list(argv[1:])
    takes_script = False
    while words and words[0].startswith(("-", "+")) and len(words[0]) > 1:
        flag = words.pop(0)
        if not flag.startswith("--") and "c" in flag:
            takes_script = True
        if flag in ("-o", "+o") and words:
            words.pop(0)
    if not words:
        return None, name, ()
    if takes_script:
        return words[0], words[1] if len(words) > 1 else name, words[2:]
    return files.get(words[0]), words[0], words[1:]


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[0]) or chr(int(match[0][1:], 8) & 0xFF), text)


_PROGRAMS: Mapping[str, Program] = {
    **BUILTINS,
    **CONDITIONS,
    **FILE_PROGRAMS,
    **TOOLS,
    ":": _constant(0),
    "true": _constant(0),
    "false": _constant(1),
    "sync": _constant(0),
    "kill": _constant(0),
    "chmod": _constant(0),
    "sleep": _sleep,
    "echo": _echo,
    "printf": _printf,
    "env": _env,
    "printenv": _printenv,
    "pwd": _prints(lambda process: process.shell.directory),
    "stty": _stty,
    "clear": _clear,
    "hostname": _prints(lambda process: process.shell.world.hostname),
    "whoami": _prints(lambda _: "root"),
    "uname": _prints(
        lambda process: "Linux" if len(process.argv) < 2 else "Linux dralab 6.1.0 x86_64 GNU/Linux"
    ),
    "seq": _seq,
    "httpd": httpd,
    "nc": nc,
    "tar": tar,
    "sh": run_shell,
    "bash": run_shell,
    "dash": run_shell,
    "ash": run_shell,
}

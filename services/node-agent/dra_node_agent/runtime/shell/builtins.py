"""The commands that change the shell in which they run: variables, traps, loops, directory and end."""

import re
import shlex
from collections.abc import Mapping
from signal import Signals

from dra_node_agent.runtime.shell.interpreter import Exit, LoopControl
from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare
from dra_node_agent.runtime.shell.shelloptions import parse_options
from dra_node_agent.runtime.shell.syntax import parse
from dra_node_agent.runtime.shell.world import Process, Program

_SHELL_EVENTS = frozenset({"ERR", "DEBUG", "RETURN"})


@declare(Syntax(flags="p", status=2))
async def _export(process: Process, given: Given) -> int:
    if not given.operands:
        bash = process.shell.name.endswith("bash")
        for name, value in sorted(process.env.items()):
            process.out(
                f"declare -x {name}={_double_quote(value)}\n"
                if bash
                else f"export {name}={shlex.quote(value) if value else repr('')}\n"
            )
        return 0
    shell = process.shell
    for word in given.operands:
        name, equals, value = word.partition("=")
        if not (name.isidentifier() and name.isascii()):
            raise UsageError(f"`{word}': not a valid identifier", 1)
        shell.assign(name, value if equals else shell.lookup(name) or "")
        shell.env[name] = shell.lookup(name) or ""
        shell.variables.pop(name, None)
    return 0


@declare(Syntax(flags="vf", status=2))
async def _unset(process: Process, given: Given) -> int:
    # There are no functions here.
    for name in () if "f" in given else given.operands:
        process.shell.env.pop(name, None)
        process.shell.variables.pop(name, None)
    return 0


async def _set(process: Process) -> int:
    shell = process.shell
    if len(process.argv) < 2:
        everything = {**process.env, **shell.variables}
        for name, value in sorted(everything.items()):
            process.out(f"{name}={shlex.quote(value)}\n")
        return 0
    chosen = parse_options(process.argv[1:], shell.options, of_shell=False)
    shell.options = frozenset(chosen.options)
    for option in chosen.unknown:
        process.notice(f"option {option} is")
    if chosen.rest or chosen.ended:
        shell.arguments[:] = chosen.rest
    return 0


async def _exit(process: Process) -> int:
    text = process.argv[1] if len(process.argv) > 1 else str(process.shell.status)
    if not text.lstrip("-").isdigit():
        process.err(f"{process.name}: {text}: numeric argument required\n")
        raise Exit(2)
    raise Exit(int(text) & 0xFF)


async def _trap(process: Process) -> int:
    words, traps = list(process.argv[1:]), process.shell.traps
    if words[:1] == ["--"]:
        words.pop(0)
    if not words:
        for signal, command in traps.items():
            process.out(f"trap -- {shlex.quote(command) if command else repr('')} {_full_name(signal)}\n")
        return 0
    if words[0].startswith("-") and len(words[0]) > 1:
        process.complain(f"trap: option {words[0]} is not simulated\n")
        return 2
    status = 0
    # A number without an action resets that signal.
    action, *names = words if not words[0].isdigit() else ["-", *words]
    for name in names:
        signal_name = signal_of(name)
        if signal_name is None:
            process.err(f"trap: {name}: invalid signal specification\n")
            status = 1
        elif signal_name in _SHELL_EVENTS:
            process.notice(f"trap of {signal_name} is")
        elif action == "-":
            traps.pop(signal_name, None)
        else:
            traps[signal_name] = action
    return status


@declare(Syntax(status=2))
async def _wait(process: Process, given: Given) -> int:
    if unknown := [word for word in given.operands if not word.isdigit()]:
        raise UsageError(f"`{unknown[0]}': not a pid, or not simulated", 1)
    return await process.shell.wait([int(word[:9]) for word in given.operands])


async def _kill(process: Process) -> int:
    words = list(process.argv[1:])
    text = "TERM"
    if words[:1] == ["-s"] and len(words) > 1:
        text = words[1]
        del words[:2]
    elif words and words[0].startswith("-") and words[0] != "--":
        text = words.pop(0)[1:]
    words = words[1:] if words[:1] == ["--"] else words
    name = "" if text == "0" else signal_of(text)
    if name is None or name in _SHELL_EVENTS or name in ("EXIT", "STOP", "CONT"):
        process.complain(f"kill: {text}: invalid signal specification, or not simulated\n")
        return 1
    if not words:
        process.err("kill: usage: kill [-s sigspec | -sigspec] pid ...\n")
        return 2
    status = 0
    for word in words:
        if not word.isdigit():
            process.complain(f"kill: {word}: arguments must be process IDs; anything else is not simulated\n")
            status = 1
        elif not process.shell.kill(int(word[:9]), name):
            process.err(f"kill: ({word}) - No such process\n")
            status = 1
    return status


@declare(Syntax(flags="rs", valued="p", status=2))
async def _read(process: Process, given: Given) -> int:
    """Read a line, and split it among variables."""
    line = process.piped.line() if process.piped is not None else ""
    whole = line.endswith("\n")
    text = line.removesuffix("\n")
    if "r" not in given:
        while text.endswith("\\") and not text.endswith("\\\\") and whole and process.piped is not None:
            more = process.piped.line()
            whole = more.endswith("\n")
            text = text[:-1] + more.removesuffix("\n")
        text = re.sub(r"\\(.)", r"\1", text)
    separators = process.env.get("IFS", process.shell.lookup("IFS"))
    names = list(given.operands) or ["REPLY"]
    values = _split(text, " \t\n" if separators is None else separators, len(names))
    for name, value in zip(names, values, strict=True):
        if not (name.isidentifier() and name.isascii()):
            raise UsageError(f"`{name}': not a valid identifier", 1)
        process.shell.assign(name, value)
    return 0 if whole else 1


def _split(text: str, separators: str, count: int) -> list[str]:
    """Split a text into ``count`` fields. The last one has the rest."""
    blanks = "".join(char for char in separators if char in " \t\n")
    text = text.strip(blanks) if blanks else text
    fields: list[str] = []
    while len(fields) < count - 1 and text:
        end = next((place for place, char in enumerate(text) if char in separators), len(text))
        fields.append(text[:end])
        text = text[end:].lstrip(blanks) if blanks else text[end:]
        # A separator that is not a blank ends a field, together with the blanks around it.
        if text and text[0] in separators and (text[0] not in blanks):
            text = text[1:].lstrip(blanks) if blanks else text[1:]
    return [*fields, text, *[""] * (count - len(fields) - 1)]


async def _shift(process: Process) -> int:
    text = process.argv[1] if len(process.argv) > 1 else "1"
    arguments = process.shell.arguments
    if not text.isdigit():
        process.err(f"shift: {text}: numeric argument required\n")
        return 1
    if int(text[:9]) > len(arguments):
        return 1
    del arguments[: int(text)]
    return 0


async def _source(process: Process) -> int:
    """Run the commands of a file in this shell (``.``)."""
    text = process.files.content.get(process.absolute(process.argv[1])) if len(process.argv) > 1 else None
    if text is None:
        return await process.shell.world.fallback(process)
    return await process.shell.execute(parse(text))


async def _exec(process: Process) -> int:
    if len(process.argv) < 2:
        return 0
    world = process.shell.world
    inner = Process(process.argv[1:], process.env, process.out, process.err, process.stdin, process.shell)
    raise Exit(await world.programs.get(inner.argv[0].rpartition("/")[2], world.fallback)(inner))


async def _eval(process: Process) -> int:
    return await process.shell.execute(parse(" ".join(process.argv[1:])))


def _loop_control(again: bool) -> Program:
    async def program(process: Process) -> int:
        text = process.argv[1] if len(process.argv) > 1 else "1"
        if not text.isdigit():
            process.err(f"{process.name}: {text}: numeric argument required\n")
            raise Exit(128)
        raise LoopControl(int(text), again)

    return program


@declare(Syntax(flags="LPe", status=2))
async def _cd(process: Process, given: Given) -> int:
    shell = process.shell
    if len(given.operands) > 1:
        raise UsageError("too many arguments", 1)
    name = given.operands[0] if given.operands else shell.lookup("HOME") or "/root"
    if name == "-":
        name = shell.lookup("OLDPWD") or ""
        if not name:
            raise UsageError("OLDPWD not set", 1)
        process.out(f"{name}\n")
    path = process.absolute(name)
    if path in process.files.content:
        raise UsageError(f"{name}: Not a directory", 1)
    shell.assign("OLDPWD", shell.directory)
    shell.directory = path
    return 0


def signal_of(text: str) -> str | None:
    """Return the name of a signal, or of an event that `trap` knows; None for any other text."""
    if text.isdigit():
        number = int(text[:4])
        if not number:
            return "EXIT"
        found = {int(signal): signal.name.removeprefix("SIG") for signal in Signals}
        return found.get(number)
    name = text.upper().removeprefix("SIG")
    known = {signal.name for signal in Signals}
    return name if f"SIG{name}" in known or name in ("EXIT", *_SHELL_EVENTS) else None


def _full_name(name: str) -> str:
    return name if name == "EXIT" else f"SIG{name}"


def _double_quote(value: str) -> str:
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


#: By name.
BUILTINS: Mapping[str, Program] = {
    ".": _source,
    "break": _loop_control(False),
    "cd": _cd,
    "continue": _loop_control(True),
    "eval": _eval,
    "exec": _exec,
    "exit": _exit,
    "export": _export,
    "kill": _kill,
    "read": _read,
    "return": _exit,
    "set": _set,
    "shift": _shift,
    "source": _source,
    "trap": _trap,
    "unset": _unset,
    "wait": _wait,
}

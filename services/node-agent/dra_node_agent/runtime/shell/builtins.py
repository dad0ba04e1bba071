"""The commands that change the shell that runs them: variables, traps, loops, its directory and its end."""

import re
import shlex
from collections.abc import Mapping

from dra_node_agent.runtime.shell.interpreter import Exit, LoopControl
from dra_node_agent.runtime.shell.syntax import parse
from dra_node_agent.runtime.shell.world import Process, Program


async def _export(process: Process) -> int:
    words = [word for word in process.argv[1:] if word != "-p"]
    if not words:
        bash = process.shell.name.endswith("bash")
        for name, value in sorted(process.env.items()):
            process.out(
                f"declare -x {name}={_double_quote(value)}\n"
                if bash
                else f"export {name}={shlex.quote(value) if value else repr('')}\n"
            )
        return 0
    shell = process.shell
    for word in words:
        name, equals, value = word.partition("=")
        shell.assign(name, value if equals else shell.lookup(name) or "")
        shell.env[name] = shell.lookup(name) or ""
        shell.variables.pop(name, None)
    return 0


async def _unset(process: Process) -> int:
    for name in process.argv[1:]:
        process.shell.env.pop(name, None)
        process.shell.variables.pop(name, None)
    return 0


async def _set(process: Process) -> int:
    if len(process.argv) < 2:
        everything = {**process.env, **process.shell.variables}
        for name, value in sorted(everything.items()):
            process.out(f"{name}={shlex.quote(value)}\n")
    return 0


async def _exit(process: Process) -> int:
    text = process.argv[1] if len(process.argv) > 1 else str(process.shell.status)
    raise Exit(int(text) & 0xFF if text.lstrip("-").isdigit() else 2)


async def _trap(process: Process) -> int:
    words = process.argv[1:]
    if len(words) >= 2:
        for name in words[1:]:
            signal = {"15": "TERM", "2": "INT", "0": "EXIT"}.get(name, name.upper().removeprefix("SIG"))
            if words[0] == "-":
                process.shell.traps.pop(signal, None)
            else:
                process.shell.traps[signal] = words[0]
    return 0


async def _wait(process: Process) -> int:
    return await process.shell.wait()


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
        raise LoopControl(int(text) if text.isdigit() else 1, again)

    return program


async def _cd(process: Process) -> int:
    process.shell.directory = process.absolute(process.argv[1] if len(process.argv) > 1 else "/root")
    return 0


def _double_quote(value: str) -> str:
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


#: By name.
BUILTINS: Mapping[str, Program] = {
    "break": _loop_control(False),
    "cd": _cd,
    "continue": _loop_control(True),
    "eval": _eval,
    "exec": _exec,
    "exit": _exit,
    "export": _export,
    "return": _exit,
    "set": _set,
    "trap": _trap,
    "unset": _unset,
    "wait": _wait,
}

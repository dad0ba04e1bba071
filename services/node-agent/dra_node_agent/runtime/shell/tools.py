"""Small tools that scripts in GPU guides use with coreutils: `timeout`, `which`, `basename` and the like."""

import asyncio
from collections.abc import Mapping, Sequence

from dra_node_agent.runtime.shell.durations import FOREVER, parse_duration
from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, call, declare, parse_number
from dra_node_agent.runtime.shell.world import Process, Program

_KILLED = {"KILL", "9", "SIGKILL"}


@declare(
    Syntax(
        flags="pfv",
        valued="sk",
        status=125,
        ordered=True,
        long={"signal": "s", "kill-after": "k", "preserve-status": "p", "foreground": "f", "verbose": "v"},
    )
)
async def _timeout(process: Process, given: Given) -> int:
    """Run a command for a limited time. It then ends at once, whatever traps it has."""
    if len(given.operands) < 2:
        raise UsageError("usage: timeout [OPTION] DURATION COMMAND [ARG]...")
    text, *command = given.operands
    if parse_duration(text) is None or (given.values("k") and parse_duration(given.value("k")) is None):
        raise UsageError(
            f"invalid time interval ‘{text if parse_duration(text) is None else given.value('k')}’"
        )
    if "p" in given:
        raise UsageError("option --preserve-status is not simulated")
    # A duration of 0 means no limit.
    seconds = parse_duration(text) or FOREVER
    work = asyncio.ensure_future(call(process, command))
    timer = asyncio.ensure_future(process.shell.world.sleep(seconds))
    try:
        await asyncio.wait((work, timer), return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else 137 if given.value("s").upper() in _KILLED else 124
    finally:
        work.cancel()
        timer.cancel()


@declare(Syntax(flags="as"))
async def _which(process: Process, given: Given) -> int:
    return _print_paths(process, given.operands)


def _print_paths(process: Process, names: Sequence[str]) -> int:
    status = 0
    for name in names:
        if name in process.shell.world.programs:
            process.out(f"/usr/bin/{name}\n")
        else:
            status = 1
    return status


@declare(Syntax(flags="vp", ordered=True))
async def _command(process: Process, given: Given) -> int:
    if "v" in given:
        return _print_paths(process, given.operands)
    return await call(process, given.operands) if given.operands else 0


@declare(
    Syntax(flags="az", valued="s", long={"multiple": "a", "suffix": "s", "zero": "z"}),
)
async def _basename(process: Process, given: Given) -> int:
    names, suffix = list(given.operands), given.value("s")
    if not names:
        raise UsageError("missing operand")
    if not given.last("as") and len(names) > 1:
        if len(names) > 2:
            raise UsageError(f"extra operand ‘{names[2]}’")
        suffix = names.pop()
    for name in names:
        last = name.rstrip("/").rpartition("/")[2] or name[:1]
        kept = last.removesuffix(suffix) or last
        process.out(kept + ("\0" if "z" in given else "\n"))
    return 0


@declare(Syntax(flags="z", long={"zero": "z"}))
async def _dirname(process: Process, given: Given) -> int:
    if not given.operands:
        raise UsageError("missing operand")
    for name in given.operands:
        head, slash, _ = name.rstrip("/").rpartition("/")
        shown = head.rstrip("/") or ("/" if slash or name.startswith("/") else ".")
        process.out(shown + ("\0" if "z" in given else "\n"))
    return 0


@declare(Syntax(flags="\1", valued="\2", long={"all": "\1", "ignore": "\2"}))
async def _nproc(process: Process, given: Given) -> int:
    process.out(f"{max(64 - parse_number(given.value(chr(2), '0'), 'number to ignore'), 1)}\n")
    return 0


#: By name.
TOOLS: Mapping[str, Program] = {
    "basename": _basename,
    "command": _command,
    "dirname": _dirname,
    "nproc": _nproc,
    "timeout": _timeout,
    "which": _which,
}

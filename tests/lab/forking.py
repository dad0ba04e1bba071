"""A supervisor whose services are forked, in a separate process because pytest has threads. Prints results as JSON."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from dra_lab import forkserver
from dra_lab.forkserver import ForkServer, connect
from dra_lab.ports import Port
from dra_lab.supervisor import ServiceSpec, Supervisor
from dra_shared.errors import UserError

from tests.support.waiting import until

STUB = "tests.lab.stub_service"
Seen = dict[str, object]


async def starts(supervisor: Supervisor, lines: list[str], server: ForkServer) -> Seen:
    """Return properties of the forked services."""
    await supervisor.ready()
    pid = supervisor.pids()["one"]
    return {
        "parent": int(_about(pid, "status").partition("PPid:")[2].split()[0]) == server.pid,
        "session": os.getsid(pid) == pid,
        "folder": os.readlink(f"/proc/{pid}/cwd") == os.getcwd(),
        "name": _about(pid, "comm").strip(),
        "input": os.readlink(f"/proc/{pid}/fd/0")[:5],
        "output": os.readlink(f"/proc/{pid}/fd/1").rpartition("/")[2],
    }


async def restarts(supervisor: Supervisor, lines: list[str], server: ForkServer) -> Seen:
    """Kill a service."""
    await supervisor.ready()
    first = supervisor.pids()["one"]
    os.kill(first, signal.SIGKILL)
    await until(lambda: supervisor.restarts()["one"] and supervisor.pids()["one"] != first)
    await supervisor.ready()
    return {"lines": lines}


async def loses(supervisor: Supervisor, lines: list[str], server: ForkServer) -> Seen:
    """Kill the fork server. Its services end, and are executed instead."""
    await supervisor.ready()
    first = supervisor.pids()["one"]
    os.kill(server.pid, signal.SIGKILL)
    await until(lambda: supervisor.pids()["one"] != first)
    await supervisor.ready()
    command = _about(supervisor.pids()["one"], "cmdline").split("\0")
    return {"works": server.works, "executed": STUB in command, "lines": lines}


async def refuses(supervisor: Supervisor, lines: list[str], server: ForkServer) -> Seen:
    """Start a service that rejects its options."""
    try:
        await supervisor.ready()
    except UserError as error:
        return {"error": str(error), "code": error.code, "restarts": supervisor.restarts()}
    return {}


async def orphans(supervisor: Supervisor, lines: list[str], server: ForkServer) -> Seen:
    """Kill this process while a service is stopped and cannot notice it."""
    await supervisor.ready()
    pid = supervisor.pids()["one"]
    os.kill(pid, signal.SIGSTOP)
    sys.stdout.write(f"{pid} {server.pid}\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


_CASES: dict[str, tuple[Callable[..., Awaitable[Seen]], tuple[str, ...]]] = {
    "starts": (starts, ()),
    "restarts": (restarts, ()),
    "loses": (loses, ()),
    "orphans": (orphans, ()),
    "refuses": (refuses, ("--refuse",)),
}


async def _run(server: ForkServer, folder: Path, name: str) -> Seen:
    case, flags = _CASES[name]
    lines: list[str] = []
    with Port() as port:
        spec = ServiceSpec("one", STUB, port, flags, port_flag="--port", environment={"GREETING": "{hello}"})
        async with Supervisor([spec], folder, report=lines.append, forks=[server]) as supervisor:
            seen = await case(supervisor, lines, server)
            pid = supervisor.pids()["one"]
    return {**seen, "left": _there(pid)}


def _about(pid: int, file: str) -> str:
    return Path(f"/proc/{pid}/{file}").read_text()


def _there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def main() -> None:
    """Run the case that the second argument names."""
    forkserver._GRACE = 0.2
    server = ForkServer([STUB], server=connect())
    seen = asyncio.run(_run(server, Path(sys.argv[1]), sys.argv[2]))
    server.close()
    seen["server"] = _there(server.pid)
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dra_cli.errors import CommandError
from dra_cli.supervisor import ServiceSpec, Supervisor, free_port, port_in_use

from tests.reference import REPOSITORY

_ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY)}


def _stub(name: str, *flags: str) -> ServiceSpec:
    port = free_port()
    arguments = ["--port", str(port), *flags]
    return ServiceSpec(name, "tests.cli.stub_service", f"http://127.0.0.1:{port}", arguments, _ENVIRONMENT)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_starts_waits_and_stops_everything(tmp_path: Path) -> None:
    async with Supervisor([_stub("one"), _stub("two")], tmp_path, report=lambda _: None) as supervisor:
        await supervisor.ready()
        pids = supervisor.pids()
        assert all(_alive(pid) for pid in pids.values())
    assert not any(_alive(pid) for pid in pids.values())
    assert (tmp_path / "one.log").exists()


async def test_a_dead_service_is_reported_and_restarted(tmp_path: Path) -> None:
    lines: list[str] = []
    replaced = asyncio.Event()
    async with Supervisor([_stub("one")], tmp_path, report=lines.append, changed=replaced.set) as supervisor:
        await supervisor.ready()
        first = supervisor.pids()["one"]
        os.kill(first, signal.SIGKILL)
        await asyncio.wait_for(replaced.wait(), 30)
        await supervisor.ready()
        assert supervisor.pids()["one"] != first
        assert supervisor.restarts() == {"one": 1}
    assert "one was killed by SIGKILL; restarting it" in lines[0]


async def test_services_are_restarted_though_it_cannot_be_written_down(tmp_path: Path) -> None:
    lines: list[str] = []
    told = asyncio.Event()

    def full() -> None:
        told.set()
        raise OSError(28, "No space left on device", "cluster.json.part")

    async with Supervisor([_stub("one")], tmp_path, report=lines.append, changed=full) as supervisor:
        for restarts in (1, 2):
            await supervisor.ready()
            told.clear()
            os.kill(supervisor.pids()["one"], signal.SIGKILL)
            await asyncio.wait_for(told.wait(), 30)
            assert supervisor.restarts() == {"one": restarts}
    assert "one: [Errno 28] No space left on device: 'cluster.json.part'" in lines


async def test_a_service_that_keeps_dying_says_why(tmp_path: Path) -> None:
    async with Supervisor([_stub("bad", "--crash")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(CommandError, match="bad does not start: cannot open the thing"):
            await supervisor.ready()


async def test_a_service_that_refuses_its_options_is_not_tried_again(tmp_path: Path) -> None:
    async with Supervisor([_stub("bad", "--refuse")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(CommandError, match="bad does not start: no such GPU") as refused:
            await supervisor.ready()
        assert refused.value.code == 2
        assert supervisor.restarts() == {"bad": 0}


async def test_what_a_service_logged_last_is_said_in_plain_words(tmp_path: Path) -> None:
    async with Supervisor([_stub("bad", "--fail")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(CommandError, match="bad does not start: cannot go on: the disk is full"):
            await supervisor.ready()


async def test_a_service_that_is_never_ready_is_named(tmp_path: Path) -> None:
    async with Supervisor([_stub("slow", "--never-ready")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(CommandError, match="slow is not ready after 1 s"):
            await supervisor.ready(timeout=1)


def test_services_die_with_their_supervisor(tmp_path: Path) -> None:
    port = free_port()
    script = f"""
import asyncio
from pathlib import Path
from dra_cli.supervisor import ServiceSpec, Supervisor
async def main():
    spec = ServiceSpec("one", "tests.cli.stub_service", "http://127.0.0.1:{port}", ["--port", "{port}"])
    async with Supervisor([spec], Path({str(tmp_path)!r}), report=print) as supervisor:
        await supervisor.ready()
        print(supervisor.pids()["one"], flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    supervisor = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env={**os.environ, **_ENVIRONMENT}
    )
    assert supervisor.stdout is not None
    pid = int(supervisor.stdout.readline())
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    deadline = time.monotonic() + 30
    while port_in_use(port):
        assert time.monotonic() < deadline, f"process {pid} outlived its supervisor"
        time.sleep(0.02)

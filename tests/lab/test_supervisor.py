import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from dra_lab import supervisor as supervisor_module
from dra_lab.ports import Port, PortTaken
from dra_lab.supervisor import ServiceSpec, Supervisor
from dra_shared.clock import SystemClock
from dra_shared.errors import UserError
from dra_shared.listening import listening_socket
from dra_shared.service import HealthServer

from tests.support.reference import REPOSITORY
from tests.support.waiting import blocking_until

_ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY)}


Stub = Callable[..., ServiceSpec]


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Return a function that builds a stub with that name and those flags."""
    with ExitStack() as ports:

        def make(name: str, *flags: str, known: bool = False) -> ServiceSpec:
            return ServiceSpec(
                name,
                "tests.lab.stub_service",
                ports.enter_context(Port()),
                flags,
                port_flag="--port",
                known=known,
                environment=_ENVIRONMENT,
            )

        yield make


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_the_supervisor_starts_waits_for_and_stops_its_services(tmp_path: Path, stub: Stub) -> None:
    async with Supervisor([stub("one"), stub("two")], tmp_path, report=lambda _: None) as supervisor:
        await supervisor.ready()
        pids = supervisor.pids()
        assert all(_alive(pid) for pid in pids.values())
    assert not any(_alive(pid) for pid in pids.values())
    assert (tmp_path / "one.log").exists()


async def test_a_dead_service_is_reported_and_restarted(tmp_path: Path, stub: Stub) -> None:
    lines: list[str] = []
    replaced = asyncio.Event()
    async with Supervisor([stub("one")], tmp_path, report=lines.append, changed=replaced.set) as supervisor:
        await supervisor.ready()
        first = supervisor.pids()["one"]
        os.kill(first, signal.SIGKILL)
        await asyncio.wait_for(replaced.wait(), 60)
        await supervisor.ready()
        assert supervisor.pids()["one"] != first
        assert supervisor.restarts() == {"one": 1}
    assert "one was killed by SIGKILL; restarting it" in lines[0]


async def test_services_are_restarted_even_if_the_cluster_record_cannot_be_written(
    tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_ANNOUNCE_AGAIN", 0.01)
    lines: list[str] = []
    tried = asyncio.Event()

    def full() -> None:
        tried.set()
        raise OSError(28, "No space left on device", "cluster.json.part")

    async with Supervisor([stub("one")], tmp_path, report=lines.append, changed=full) as supervisor:
        for restarts in (1, 2):
            await supervisor.ready()
            os.kill(supervisor.pids()["one"], signal.SIGKILL)
            async with asyncio.timeout(60):
                while supervisor.restarts()["one"] < restarts:
                    tried.clear()
                    await tried.wait()
            assert supervisor.restarts() == {"one": restarts}
    assert "one: [Errno 28] No space left on device: 'cluster.json.part'" in lines


async def test_writing_the_cluster_record_is_retried_if_the_disk_is_full(
    tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_ANNOUNCE_AGAIN", 0.01)
    lines: list[str] = []
    written: list[int] = []
    done = asyncio.Event()

    def write_record() -> None:
        written.append(supervisor.pids()["one"])
        if len(written) < 3:
            raise OSError(28, "No space left on device", "cluster.json.part")
        done.set()

    async with Supervisor([stub("one")], tmp_path, report=lines.append, changed=write_record) as supervisor:
        await supervisor.ready()
        os.kill(supervisor.pids()["one"], signal.SIGKILL)
        await asyncio.wait_for(done.wait(), 60)
        assert written == [supervisor.pids()["one"]] * 3
    assert lines.count("one: [Errno 28] No space left on device: 'cluster.json.part'") == 1


async def test_a_service_that_keeps_crashing_is_reported_with_its_reason(tmp_path: Path, stub: Stub) -> None:
    async with Supervisor([stub("bad", "--crash")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(UserError, match="bad does not start: cannot open the thing"):
            await supervisor.ready()


async def test_a_service_that_rejects_its_options_is_not_restarted(tmp_path: Path, stub: Stub) -> None:
    async with Supervisor([stub("bad", "--refuse")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(UserError, match="bad does not start: no such GPU") as refused:
            await supervisor.ready()
        assert refused.value.code == 2
        assert supervisor.restarts() == {"bad": 0}


async def test_the_reason_of_a_service_that_does_not_start_is_recorded(tmp_path: Path, stub: Stub) -> None:
    changed = asyncio.Event()
    async with Supervisor([stub("one")], tmp_path, report=lambda _: None, changed=changed.set) as supervisor:
        await supervisor.add(stub("bad", "--refuse"))
        await changed.wait()
        assert supervisor.refusals() == {"bad": f"no such GPU (log: {tmp_path / 'bad.log'})"}


async def test_a_service_that_cannot_run_is_not_restarted(tmp_path: Path, stub: Stub) -> None:
    async with Supervisor([stub("bad", "--cannot-run")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(UserError, match="bad does not start: cannot go on: checkpoint") as refused:
            await supervisor.ready()
        assert refused.value.code == 1
        assert supervisor.restarts() == {"bad": 0}


async def test_the_last_log_message_of_a_service_is_shown_as_text(tmp_path: Path, stub: Stub) -> None:
    async with Supervisor([stub("bad", "--fail")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(UserError, match="bad does not start: cannot go on: the disk is full"):
            await supervisor.ready()


async def test_a_lost_leader_lease_is_reported_in_one_line(tmp_path: Path, stub: Stub) -> None:
    async with Supervisor([stub("bad", "--lose")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(UserError, match="bad does not start: cannot go on: could not renew lease a/b"):
            await supervisor.ready()


async def test_a_service_that_is_never_ready_is_named(tmp_path: Path, stub: Stub) -> None:
    async with Supervisor([stub("slow", "--never-ready")], tmp_path, report=lambda _: None) as supervisor:
        with pytest.raises(UserError, match="slow is not ready after 1 s"):
            await supervisor.ready(timeout=1)


class _Hurried(SystemClock):
    """A clock on which ten seconds pass with each sleep."""

    def __init__(self) -> None:
        super().__init__("")
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += 10
        await asyncio.sleep(0)


async def test_a_service_does_not_time_out_while_it_makes_progress(tmp_path: Path, stub: Stub) -> None:
    clock = _Hurried()
    nodes = itertools.chain(range(40), itertools.repeat(40))

    async def progress() -> object:
        return next(nodes)

    spec = stub("slow", "--never-ready")
    async with Supervisor([spec], tmp_path, report=lambda _: None, clock=clock) as supervisor:
        with pytest.raises(UserError, match="slow is not ready after 60 s without progress"):
            await supervisor.ready(progress=progress)
    assert 460 <= clock.seconds <= 500


async def test_a_service_whose_port_is_in_use_gets_another(tmp_path: Path, stub: Stub) -> None:
    lines: list[str] = []
    spec = stub("one")
    number = spec.port.number
    with listening_socket("127.0.0.1", number):
        async with Supervisor([spec], tmp_path, report=lines.append) as supervisor:
            await supervisor.ready()
            assert spec.port.number != number
            assert supervisor.restarts() == {"one": 0}
    assert lines == [f"one: port {number} is in use; it gets {spec.port.number}"]
    assert (
        f"cannot listen on 127.0.0.1:{number}: Address already in use" in (tmp_path / "one.log").read_text()
    )


async def test_another_program_on_the_port_is_not_mistaken_for_the_service(
    tmp_path: Path, stub: Stub
) -> None:
    spec = stub("slow", "--never-listen", known=True)
    async with (
        HealthServer("127.0.0.1", spec.port.number, {}),
        Supervisor([spec], tmp_path, report=lambda _: None) as supervisor,
    ):
        with pytest.raises(UserError, match="slow is not ready after 1 s"):
            await supervisor.ready(timeout=1)


async def test_a_used_port_that_is_fixed_is_an_error(tmp_path: Path, stub: Stub) -> None:
    spec = stub("one", known=True)
    with listening_socket("127.0.0.1", spec.port.number):
        async with Supervisor([spec], tmp_path, report=lambda _: None) as supervisor:
            with pytest.raises(PortTaken, match=f"port {spec.port.number} is in use"):
                await supervisor.ready()


async def test_a_restarted_service_keeps_its_port(tmp_path: Path, stub: Stub) -> None:
    spec, replaced = stub("one"), asyncio.Event()
    number = spec.port.number
    async with Supervisor([spec], tmp_path, report=lambda _: None, changed=replaced.set) as supervisor:
        await supervisor.ready()
        os.kill(supervisor.pids()["one"], signal.SIGKILL)
        await asyncio.wait_for(replaced.wait(), 60)
        await supervisor.ready()
        assert spec.port.number == number


def test_services_end_with_their_supervisor(tmp_path: Path) -> None:
    script = f"""
import asyncio
from pathlib import Path
from dra_lab.ports import Port
from dra_lab.supervisor import ServiceSpec, Supervisor
async def main():
    spec = ServiceSpec("one", "tests.lab.stub_service", Port(), [], port_flag="--port")
    async with Supervisor([spec], Path({str(tmp_path)!r}), report=print) as supervisor:
        await supervisor.ready()
        print(spec.port.number, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    supervisor = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env={**os.environ, **_ENVIRONMENT}
    )
    assert supervisor.stdout is not None
    port = int(supervisor.stdout.readline())
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    # The service must not outlive its supervisor.
    blocking_until(lambda: not _listens(port))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

"""Faults of the processes of a cluster's services: each is undone when its time is over, or before."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import msgspec
from dra_shared.errors import UserError
from dra_shared.faults.board import FaultError, Strike
from dra_shared.faults.catalog import API_SERVER

from dra_lab.ports import Port
from dra_lab.supervisor import ServiceSpec, Supervisor

SECOND = "second-scheduler"
#: Seconds that it has to become ready: who asked still waits then.
_START_TIMEOUT = 20.0


class ProcessFault(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What goes wrong with the process of ``service`` for ``seconds``."""

    fault: str
    seconds: float = 0.0
    service: str = API_SERVER


class ProcessFaults:
    """Faults of a supervisor's processes; ``scheduler`` says how the scheduler is started, None where there is none."""

    def __init__(self, supervisor: Supervisor, scheduler: Callable[[], ServiceSpec | None]) -> None:
        self._supervisor = supervisor
        self._scheduler = scheduler
        self._stopped = Counter[int]()
        self._killed: set[str] = set()

    def strikes(self) -> dict[str, Strike[ProcessFault]]:
        """The faults by name."""
        return {"kill": self._kill, "stop": self._stop, "two-schedulers": self._two_schedulers}

    def check(self, fault: ProcessFault) -> None:
        """See that there is what the fault strikes.

        Raises:
            FaultError: there is none.
        """
        if fault.fault == "two-schedulers":
            self._spec()
        elif fault.service not in (names := self._supervisor.pids()):
            raise FaultError(f"there is no service {fault.service!r}: choose {', '.join(names)}")

    async def away(self) -> list[str]:
        """The services that were killed and are not ready again."""
        for service in list(self._killed):
            if await self._supervisor.is_ready(service):
                self._killed.discard(service)
        return sorted(self._killed)

    @contextlib.asynccontextmanager
    async def _kill(self, fault: ProcessFault) -> AsyncIterator[None]:
        """The supervisor starts it again by itself."""
        self._send(fault.service, signal.SIGKILL)
        self._killed.add(fault.service)
        yield

    @contextlib.asynccontextmanager
    async def _stop(self, fault: ProcessFault) -> AsyncIterator[None]:
        pid = self._send(fault.service, 0)
        async with released(pid):
            self._send(fault.service, signal.SIGSTOP)
            self._stopped[pid] += 1
            try:
                yield
            finally:
                self._stopped[pid] -= 1
                # Two may have stopped it.
                if not self._stopped[pid]:
                    del self._stopped[pid]
                    _continue(pid)

    @contextlib.asynccontextmanager
    async def _two_schedulers(self, _: ProcessFault) -> AsyncIterator[None]:
        if SECOND in self._supervisor.pids():
            raise FaultError("there is a second scheduler already")
        scheduler = self._spec()
        with Port(scheme=scheduler.port.url.partition(":")[0]) as port:
            arguments = [*scheduler.arguments, "--leader-elect=false"]
            await self._supervisor.add(replace(scheduler, name=SECOND, port=port, arguments=arguments))
            try:
                await self._supervisor.ready(_START_TIMEOUT, only=(SECOND,))
                yield
            except UserError as error:
                raise FaultError(str(error)) from error
            finally:
                await self._supervisor.remove(SECOND)

    def _spec(self) -> ServiceSpec:
        scheduler = self._scheduler()
        if scheduler is None:
            raise FaultError("the cluster has no scheduler")
        return scheduler

    def _send(self, service: str, number: int) -> int:
        try:
            return self._supervisor.send(service, number)
        except UserError as error:
            raise FaultError(str(error)) from error


@contextlib.asynccontextmanager
async def released(pid: int) -> AsyncIterator[None]:
    """Within it the process continues if this program is killed: a shell waits for the end of a pipe from here."""
    shell = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        'read -r _; kill -CONT "$0" 2>/dev/null',
        str(pid),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        # The process may be gone by now, and its number another's.
        with contextlib.suppress(ProcessLookupError):
            shell.kill()
        await shell.wait()


def _continue(pid: int) -> None:
    # A process that was killed meanwhile has a successor, which runs.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)

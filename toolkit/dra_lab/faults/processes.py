"""Faults of the processes of a cluster's services. Each is undone after its time, or when it is ended early."""

import asyncio
import contextlib
import functools
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from dra_shared.errors import UserError
from dra_shared.faults.board import Strike
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.errors import FaultError
from dra_shared.faults.processes import ProcessFault, ProcessKind, SchedulingKind, ServiceFault

from dra_lab.ports import Port
from dra_lab.supervisor import ServiceSpec, Supervisor

SECOND = "second-scheduler"
#: The seconds for the second scheduler to become ready. The request for the fault waits for it.
_START_TIMEOUT = 20.0


class ProcessFaults:
    """Faults of a supervisor's processes.

    ``scheduler`` returns the command of the scheduler, or None if the cluster has none.
    """

    def __init__(self, supervisor: Supervisor, scheduler: Callable[[], ServiceSpec | None]) -> None:
        self._supervisor = supervisor
        self._scheduler = scheduler
        self._stopped = Counter[int]()
        self._killed: set[str] = set()

    def strikes(self) -> dict[str, Strike[ProcessFault]]:
        """Return the functions that apply the faults, by the fault's name."""
        return {
            name: functools.partial(kind.strike, self)
            for name, kind in KINDS.items()
            if isinstance(kind, ProcessKind | SchedulingKind)
        }

    def check(self, fault: ProcessFault) -> None:
        """Check that the target of the fault exists.

        Raises:
            FaultError: the target does not exist.
        """
        if not isinstance(fault, ServiceFault):
            self._spec()
        elif fault.service not in (names := self._supervisor.pids()):
            raise FaultError(f"there is no service {fault.service!r}: choose {', '.join(names)}")

    async def away(self) -> list[str]:
        """Return the services that were killed and are not ready again."""
        for service in list(self._killed):
            if await self._supervisor.is_ready(service):
                self._killed.discard(service)
        return sorted(self._killed)

    def kill(self, service: str) -> None:
        """Kill the process. The supervisor starts it again by itself."""
        self._send(service, signal.SIGKILL)
        self._killed.add(service)

    @contextlib.asynccontextmanager
    async def stop(self, service: str) -> AsyncIterator[None]:
        """Stop the process with SIGSTOP during the context."""
        pid = self._send(service, 0)
        async with resume_if_killed(pid):
            self._send(service, signal.SIGSTOP)
            self._stopped[pid] += 1
            try:
                yield
            finally:
                self._stopped[pid] -= 1
                # Two faults may have stopped it.
                if not self._stopped[pid]:
                    del self._stopped[pid]
                    _continue(pid)

    @contextlib.asynccontextmanager
    async def add_scheduler(self) -> AsyncIterator[None]:
        """Run a second scheduler inside the context, without leader election."""
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
async def resume_if_killed(pid: int) -> AsyncIterator[None]:
    """Resume the process if this program is killed during the block: a shell waits for the end of a pipe."""
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
        # The shell may have exited already.
        with contextlib.suppress(ProcessLookupError):
            shell.kill()
        await shell.wait()


def _continue(pid: int) -> None:
    # A process that was killed meanwhile has been replaced by one that runs.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)

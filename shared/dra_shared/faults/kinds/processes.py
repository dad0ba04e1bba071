"""Services that are stopped or killed, and a second scheduler."""

import contextlib
from collections.abc import AsyncIterator

from dra_shared.faults.parts import CLAIMS, CONTAINERS, OF_REQUESTS, ONCE, RIVALS, STORED
from dra_shared.faults.processes import Processes, ProcessFault, ProcessKind, SchedulingKind, ServiceFault


@contextlib.asynccontextmanager
async def _stop(processes: Processes, fault: ServiceFault) -> AsyncIterator[None]:
    async with processes.stop(fault.service):
        yield


STOP = ProcessKind(
    name="stop",
    what="a service's process is suspended, as on a machine that runs out of memory",
    promise="running pods keep running; pending work continues when the service is back",
    parts=OF_REQUESTS,
    strike=_stop,
)


@contextlib.asynccontextmanager
async def _kill(processes: Processes, fault: ServiceFault) -> AsyncIterator[None]:
    processes.kill(fault.service)
    yield


KILL = ProcessKind(
    name="kill",
    what="a service's process is killed without warning (SIGKILL), and started again",
    promise="it continues from the stored state; no acknowledged write is lost",
    parts=(CLAIMS, ONCE, STORED),
    strike=_kill,
    lasts=False,
)


@contextlib.asynccontextmanager
async def _add_scheduler(processes: Processes, fault: ProcessFault) -> AsyncIterator[None]:
    async with processes.add_scheduler():
        yield


TWO_SCHEDULERS = SchedulingKind(
    name="two-schedulers",
    what="a second scheduler works without leader election",
    promise="no device is in two claims and no pod on two nodes: the later write is rejected",
    parts=(RIVALS, CONTAINERS, CLAIMS),
    strike=_add_scheduler,
)

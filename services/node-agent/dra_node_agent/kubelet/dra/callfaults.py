"""Faults on demand of calls to DRA drivers: a driver that hangs, is slow, old or away, answers wrongly or not.

No counterpart upstream. They strike where the kubelet calls, so that every driver can have them, those of others too.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Literal

from dra_shared.clock import Clock, wait_for

from dra_node_agent.kubelet.dra.wire import CallError

CallFault = Literal["driver-hang", "driver-slow", "driver-wrong", "driver-gone", "driver-reset", "driver-old"]


@dataclass(eq=False)
class _Fault:
    kind: CallFault
    driver: str
    delay: float
    met: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)


class CallFaults:
    """The faults of one node's calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: list[_Fault] = []

    @contextlib.asynccontextmanager
    async def striking(self, kind: CallFault, driver: str, delay: float) -> AsyncIterator[Callable[[], int]]:
        """Within it calls to ``driver`` (empty: to any) meet the fault; calls that hang continue at its end.

        Gives what says how many have met it.
        """
        fault = _Fault(kind, driver, delay)
        self._active.append(fault)
        try:
            yield lambda: fault.met
        finally:
            self._active.remove(fault)
            fault.over.set()

    async def before(self, driver: str, endpoint: str, timeout: float) -> None:
        """What becomes of a call before the driver gets it.

        Raises:
            CallError: it fails, as a call that takes longer than ``timeout`` seconds, or to a driver that is away.
        """
        for fault in self._of(driver):
            fault.met += 1
            match fault.kind:
                case "driver-hang":
                    await wait_for(fault.over.wait(), timeout, self._clock)
                    if not fault.over.is_set():
                        raise CallError("DeadlineExceeded", "context deadline exceeded")
                case "driver-slow":
                    await self._clock.sleep(min(fault.delay, timeout))
                case "driver-gone":
                    dial = f"dial unix {endpoint}: connect: no such file or directory"
                    text = f'connection error: desc = "transport: Error while dialing: {dial}"'
                    raise CallError("Unavailable", text)

    def after(self, driver: str) -> None:
        """What becomes of the answer.

        Raises:
            CallError: it is lost, though the driver has done its work.
        """
        if any(fault.kind == "driver-reset" for fault in self._of(driver)):
            raise CallError("Unavailable", "error reading from server: EOF")

    def is_wrong(self, driver: str) -> bool:
        """Whether answers lack the claims that were asked for."""
        return any(fault.kind == "driver-wrong" for fault in self._of(driver))

    def is_old(self, driver: str) -> bool:
        """Whether the driver is to be spoken to as one of before Kubernetes 1.34, in v1beta1."""
        return any(fault.kind == "driver-old" for fault in self._of(driver))

    def _of(self, driver: str) -> list[_Fault]:
        return [fault for fault in self._active if fault.driver in ("", driver)]

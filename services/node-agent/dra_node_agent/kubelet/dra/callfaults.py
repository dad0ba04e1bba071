"""Faults of calls to DRA drivers on demand: hanging, slow, old or unreachable drivers, wrong or lost answers.

No counterpart upstream. They apply to the kubelet's calls, so that every driver can have them, including
external ones.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from dra_shared.clock import Clock, wait_for
from dra_shared.faults.nodes import CallFault

from dra_node_agent.kubelet.dra.wire import CallError


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
    async def inject(self, kind: CallFault, driver: str, delay: float) -> AsyncIterator[Callable[[], int]]:
        """Apply the fault to calls to ``driver`` (empty: any) inside the context.

        Hanging calls continue when the context ends. Yield a function that returns the number of affected
        calls.
        """
        fault = _Fault(kind, driver, delay)
        self._active.append(fault)
        try:
            yield lambda: fault.met
        finally:
            self._active.remove(fault)
            fault.over.set()

    async def before(self, driver: str, endpoint: str, timeout: float) -> None:
        """Apply faults before a call.

        Raises:
            CallError: it fails, as a call that takes longer than ``timeout`` seconds, or to an unreachable
                driver.
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
        """Apply faults after a call.

        Raises:
            CallError: the answer is lost, although the driver has done its work.
        """
        if any(fault.kind == "driver-reset" for fault in self._of(driver)):
            raise CallError("Unavailable", "error reading from server: EOF")

    def is_wrong(self, driver: str) -> bool:
        """True if answers lack the requested claims."""
        return any(fault.kind == "driver-wrong" for fault in self._of(driver))

    def is_old(self, driver: str) -> bool:
        """True if the driver is called like one from before Kubernetes 1.34, in v1beta1."""
        return any(fault.kind == "driver-old" for fault in self._of(driver))

    def _of(self, driver: str) -> list[_Fault]:
        return [fault for fault in self._active if fault.driver in ("", driver)]

"""The health of a driver's devices, for those who watch it (DRAResourceHealth of k8s.io/kubelet)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from dra_shared.clock import Clock, wait_for

#: How often health is reported if nothing changes, in seconds: the kubelet takes a report of 30 seconds ago for
#: out of date (DefaultHealthTimeout in pkg/kubelet/cm/dra/healthinfo.go).
HEALTH_PERIOD = 10.0


@dataclass(frozen=True)
class Health:
    """What a driver says about one device.

    Args:
        healthy: None where it does not know.
    """

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


class HealthBoard:
    """The health of a driver's devices, and those who wait for changes of it."""

    def __init__(self) -> None:
        self._devices: tuple[Health, ...] = ()
        self._changed = asyncio.Condition()

    async def set(self, devices: Sequence[Health]) -> None:
        """Report these from now on: all devices, each time."""
        async with self._changed:
            self._devices = tuple(devices)
            self._changed.notify_all()

    async def reports(self, clock: Clock) -> AsyncIterator[tuple[Health, ...]]:
        """The devices' health: now, after each change, and each :data:`HEALTH_PERIOD` without one."""
        while True:
            shown = self._devices
            yield shown
            await wait_for(self._changed_from(shown), HEALTH_PERIOD, clock)

    async def _changed_from(self, shown: tuple[Health, ...]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._devices is not shown)

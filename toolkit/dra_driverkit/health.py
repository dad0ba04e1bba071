"""The health of a driver's devices, for those who watch it (DRAResourceHealth of k8s.io/kubelet)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from dra_shared.clock import Clock, wait_for

from dra_driverkit.flags import Flag

#: How often health is reported if nothing changes, in seconds: the kubelet takes a report of 30 seconds ago for
#: out of date (DefaultHealthTimeout in pkg/kubelet/cm/dra/healthinfo.go).
HEALTH_PERIOD = 10.0


@dataclass(frozen=True, slots=True)
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
        # Another one for each change: who waits for it has seen what was there before.
        self._changed = Flag()

    async def set(self, devices: Sequence[Health]) -> None:
        """Report these from now on: all devices, each time."""
        self._devices = tuple(devices)
        changed, self._changed = self._changed, Flag()
        changed.set()

    async def reports(self, clock: Clock) -> AsyncIterator[tuple[Health, ...]]:
        """The devices' health: now, after each change, and each :data:`HEALTH_PERIOD` without one."""
        while True:
            changed = self._changed
            yield self._devices
            await wait_for(changed.wait(), HEALTH_PERIOD, clock)

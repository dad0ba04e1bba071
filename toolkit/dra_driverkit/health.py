"""The health of a driver's devices, for its watchers (DRAResourceHealth of k8s.io/kubelet)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from dra_shared.clock import Clock, wait_for

from dra_driverkit.flags import Flag

# The interval of health reports without changes, in seconds. The kubelet considers a report outdated after 30
# seconds (DefaultHealthTimeout in pkg/kubelet/cm/dra/healthinfo.go).
HEALTH_PERIOD = 10.0


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one device.

    Args:
        healthy: None if the driver does not know.
    """

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


class HealthBoard:
    """The health of a driver's devices, with support for waiting for changes."""

    def __init__(self) -> None:
        self._devices: tuple[Health, ...] = ()
        # A new flag for each change, so that a waiter of the old flag has seen the state before the change.
        self._changed = Flag()

    async def set(self, devices: Sequence[Health]) -> None:
        """Report the health of all devices. Each call replaces the previous one."""
        self._devices = tuple(devices)
        changed, self._changed = self._changed, Flag()
        changed.set()

    async def reports(self, clock: Clock) -> AsyncIterator[tuple[Health, ...]]:
        """Yield the devices' health now, after each change, and after :data:`HEALTH_PERIOD` without a change."""
        while True:
            changed = self._changed
            yield self._devices
            await wait_for(changed.wait(), HEALTH_PERIOD, clock)

"""The drivers that run on one node. Each can be stopped and started again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from dra_driverkit.flags import Flag
from dra_shared.log import logger

from dra_node_agent.drivers.base import Driver, DriverNode, Repairable, RunningDriver

_log = logger(__name__)


class NodeDrivers:
    """Runs drivers. ``on_ready`` is called once all of them have published their devices."""

    def __init__(self, drivers: Sequence[Driver], node: DriverNode, on_ready: Callable[[], None]) -> None:
        self._slots = [_Slot(driver, node) for driver in drivers]
        self._node = node
        self._on_ready = on_ready

    @property
    def names(self) -> list[str]:
        """The drivers' names."""
        return [slot.driver.name for slot in self._slots]

    async def run(self) -> None:
        """Run them until cancelled. Raises errors of a driver's start."""
        if len(self._slots) == 1:
            # Most nodes have one driver, which needs no task of its own.
            await self._slots[0].run(self._check_ready)
            return
        tasks = [
            asyncio.create_task(slot.run(self._check_ready), name=slot.driver.name) for slot in self._slots
        ]
        if not tasks:
            self._check_ready()
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _check_ready(self) -> None:
        """Call ``on_ready`` once all drivers have published. Called after each driver's first publication."""
        if all(slot.published for slot in self._slots):
            _log.info("drivers run", node=self._node.name, drivers=self.names)
            self._on_ready()

    @contextlib.asynccontextmanager
    async def stop(self, name: str) -> AsyncIterator[None]:
        """Stop the driver with that name (empty: every one) inside the context."""
        chosen = [slot for slot in self._slots if name in ("", slot.driver.name)]
        for slot in chosen:
            slot.wanted.clear()
            slot.unwanted.set()
        for slot in chosen:
            await slot.down.wait()
        try:
            yield
        finally:
            for slot in chosen:
                slot.unwanted.clear()
                slot.wanted.set()

    async def mark_repaired(self) -> None:
        """Make drivers remove the taints of device faults, because the devices work again."""
        for slot in self._slots:
            running: object = slot.running
            if isinstance(running, Repairable):
                await running.mark_repaired()


class _Slot:
    """One driver, running or not."""

    def __init__(self, driver: Driver, node: DriverNode) -> None:
        self.driver = driver
        self.running: RunningDriver | None = None
        self.published = False
        self.down = Flag()
        self.wanted, self.unwanted = Flag(), Flag()
        self.wanted.set()
        self.down.set()
        self._node = node

    async def run(self, on_published: Callable[[], None]) -> None:
        """Run the driver whenever it is not stopped by :meth:`NodeDrivers.stop`.

        ``on_published`` is called once, after its first publication.
        """
        while True:
            await self.wanted.wait()
            self.down.clear()
            try:
                async with self.driver.on_node(self._node) as self.running:
                    if await self._wait_until_published(self.running) and not self.published:
                        self.published = True
                        on_published()
                    await self.unwanted.wait()
            finally:
                self.running = None
                self.down.set()

    async def _wait_until_published(self, running: RunningDriver) -> bool:
        """Wait until the driver's devices are published or it has to stop. Return True if they are published."""
        published = asyncio.ensure_future(running.wait_until_published())
        unwanted = asyncio.ensure_future(self.unwanted.wait())
        try:
            await asyncio.wait([published, unwanted], return_when=asyncio.FIRST_COMPLETED)
            if not published.done():
                return False
            published.result()
            return True
        finally:
            published.cancel()
            unwanted.cancel()

"""The drivers that run because a container on the node runs `dralab-driver`."""

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager

from dra_driverkit.errors import DriverConfigError
from dra_shared.log import logger

from dra_node_agent.drivers.base import DriverNode, DriverOptions, RunningDriver
from dra_node_agent.drivers.catalog import find_driver, needs_machines, option_values
from dra_node_agent.runtime.shell.world import Process, Program

_log = logger(__name__)


class PodDrivers:
    """The drivers that the containers of one node run.

    Args: options: values of driver options that a container's environment does not set.
        configured: the names of the drivers that run on the node independent of its pods. machines: whether the
        node has machines for drivers that need them. node: returns the node. Called only after drivers may run
        on it.
    """

    def __init__(
        self,
        options: DriverOptions,
        configured: Collection[str],
        machines: bool,
        node: Callable[[], DriverNode],
    ) -> None:
        self._options = options
        self._configured = configured
        self._machines = machines
        self._node = node
        self._running: dict[str, asyncio.Lock] = {}

    def programs(self) -> Mapping[str, Program]:
        """Return `dralab-driver NAME`. It runs a driver, or the driver of a profile, until the container must stop."""
        return {"dralab-driver": self._run}

    async def _run(self, process: Process) -> int:
        name = process.argv[1] if len(process.argv) > 1 else ""
        driver_name = name.partition(":")[0]
        if driver_name in self._configured:
            process.err(
                f"dralab: {driver_name} runs on this node already, as --driver says: this container does nothing. "
                "With --driver none the driver runs where its pods are\n"
            )
            await process.shell.world.terminated.wait()
            return 0
        if needs_machines(driver_name) and not self._machines:
            process.err("dralab: this node has no GPUs for it: give it some with --gpus and --driver none\n")
            return 1
        try:
            driver = find_driver(name, self._options_from(driver_name, process.env))
        except DriverConfigError as error:
            process.err(f"dralab: {error}\n")
            return 1
        lock = self._running.setdefault(driver_name, asyncio.Lock())
        if lock.locked():
            process.err(
                f"dralab: {driver_name} runs in another container of this node: waiting for its end\n"
            )
        async with lock:
            return await self._serve(process, driver_name, driver.on_node(self._node()))

    async def _serve(
        self, process: Process, name: str, running: AbstractAsyncContextManager[RunningDriver]
    ) -> int:
        world = process.shell.world
        if world.terminated.is_set():
            return 0
        try:
            async with running as driver:
                await driver.wait_until_published()
                process.out(f"dralab: {name} runs and has published its devices\n")
                await world.terminated.wait()
        except DriverConfigError as error:
            process.err(f"dralab: {error}\n")
            return 1
        except asyncio.CancelledError:
            raise
        except Exception as error:
            _log.exception("driver of a container failed", driver=name)
            process.err(f"dralab: {name} failed: {error}\n")
            return 1
        return 0

    def _options_from(self, name: str, env: Mapping[str, str]) -> DriverOptions:
        """Return the options with the values that the chart of the driver sets in the environment of its container."""
        return dataclasses.replace(self._options, values=option_values(name, env))

"""Publishes pools that do not belong to a node, such as devices in a fabric, once for the cluster.

Each process with the driver competes for a Lease, and its holder publishes, like the controller of a driver
for network-attached devices.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator

from dra_driverkit.pools import PoolPublishers
from dra_driverkit.publisher import SlicePublisher
from dra_driverkit.resources import DriverResources
from dra_driverkit.serverversion import has_split_slices, join_counters
from dra_shared.client.leader import LeaderElector, LeadershipLost
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_node_agent.drivers.profile.binding import BindingConditionSetter
from dra_node_agent.drivers.profile.model import BindingConditions

_log = logger(__name__)


class ClusterPools:
    """Publishes from the time when the first node of this process joins until the last one leaves."""

    def __init__(
        self, driver: str, resources: DriverResources, binding_conditions: BindingConditions | None
    ) -> None:
        self._driver = driver
        self._resources = resources
        self._rules = binding_conditions
        self._members = 0
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def join(self, client: Client, clock: Clock) -> AsyncIterator[None]:
        """Join for a node inside the context."""
        if not self._resources.pools:
            yield
            return
        self._members += 1
        if self._task is None:
            self._task = asyncio.create_task(self._compete(client, clock), name=f"pools of {self._driver}")
        try:
            yield
        finally:
            self._members -= 1
            if not self._members:
                task, self._task = self._task, None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _compete(self, client: Client, clock: Clock) -> None:
        identity = f"{socket.gethostname()}_{os.getpid()}"
        while True:
            elector = LeaderElector(client, self._driver.replace("/", "-"), identity, clock=clock)
            try:
                await elector.run(lambda: self._publish(client, clock))
            except LeadershipLost as error:
                _log.warning("another process publishes the pools", driver=self._driver, error=str(error))

    async def _publish(self, client: Client, clock: Clock) -> None:
        publishers = PoolPublishers(
            lambda pool: SlicePublisher(client, self._driver, "", clock, pool=pool, own_domain=True),
            of_a_node=False,
        )
        split = await has_split_slices(client)
        publishers.publish(self._resources if split else join_counters(self._resources))
        publishers.start()
        try:
            if self._rules is None:
                await asyncio.Event().wait()
            else:
                pools = self._resources.pools
                await BindingConditionSetter(client, clock, self._driver, pools, self._rules).run()
        finally:
            await publishers.stop()

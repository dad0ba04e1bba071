"""The pools that one driver publishes from one node: the node's own pools, and pools that other nodes can also use.

The latter are published one by one, as with ReconcilePoolWithName of
k8s.io/dynamic-resource-allocation/resourceslice. Their slices have no node name, so the pool's name
identifies the owner.
"""

import asyncio
from collections.abc import Callable

from dra_driverkit.publisher import MakeResources, SlicePublisher
from dra_driverkit.resources import DriverResources


class PoolPublishers:
    """Runs the publishers that the wanted pools need.

    Args:
        make: returns the publisher of a pool that other nodes can use too, or for an empty name that of the node's
            own pools.
        of_a_node: True if there is a node with pools of its own.
    """

    def __init__(self, make: Callable[[str], SlicePublisher], *, of_a_node: bool = True) -> None:
        self._make = make
        self._publishers: dict[str, SlicePublisher] = {"": make("")} if of_a_node else {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = False

    def start(self) -> None:
        """Start to publish in the background."""
        self._running = True
        for pool in self._publishers:
            self._run(pool)

    async def stop(self) -> None:
        """Stop publishing. The slices are kept."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def publish(self, resources: DriverResources, again: MakeResources | None = None) -> None:
        """Publish exactly these pools from now on.

        ``again`` returns them once more, so that they are not kept in memory.
        """
        own = None if again is None else lambda: _own(again())
        wide = {name: DriverResources({name: p}) for name, p in resources.pools.items() if not p.of_one_node}
        for name in wide:
            if name not in self._publishers:
                self._publishers[name] = self._make(name)
                if self._running:
                    self._run(name)
        for name, publisher in self._publishers.items():
            if name:
                publisher.publish(wide.get(name, DriverResources()))
            else:
                publisher.publish(_own(resources), own)

    async def wait_until_published(self) -> None:
        """Wait until the resources of the last call are in the API server."""
        for publisher in list(self._publishers.values()):
            await publisher.wait_until_published()

    def _run(self, pool: str) -> None:
        name = f"slices of pool {pool}" if pool else "slices of the node"
        self._tasks[pool] = asyncio.create_task(self._publishers[pool].run(), name=name)


def _own(resources: DriverResources) -> DriverResources:
    return DriverResources({name: pool for name, pool in resources.pools.items() if pool.of_one_node})

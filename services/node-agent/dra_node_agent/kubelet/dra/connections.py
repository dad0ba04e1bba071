"""The kubelet's connections to registered drivers of a node, and the deletion of slices of missing drivers.

Follows pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go: several instances may serve one driver during an
update, and the newest connected one gets the calls. While a driver has no connected instance, its
ResourceSlices mislead the scheduler. They are deleted after a delay that leaves time for a restart of the
driver. At start, all of the node's slices are deleted.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence

import httpx
from dra_driverkit.transport import Sockets, UnixSockets
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.version import DEFAULT, V1_38, Version

from dra_node_agent.kubelet.dra.callfaults import CallFaults
from dra_node_agent.kubelet.dra.classichandles import ClassicHandles
from dra_node_agent.kubelet.dra.connection import (
    CALL_TIMEOUT,
    DriverConnection,
    DriverError,
    NoHealth,
    choose_service,
)
from dra_node_agent.kubelet.dra.health import DEFAULT_TIMEOUT, DeviceHealth
from dra_node_agent.kubelet.dra.registrationchecks import check_driver_name, check_endpoint
from dra_node_agent.tasks import Tasks

WIPING_DELAY = 30.0
# How long the last report of a driver is valid after its stream broke. A restart of the driver fits into this
# time.
HEALTH_GRACE = DEFAULT_TIMEOUT
_HEALTH_RETRY = 5.0
# Retry quickly at first: a server that starts together with the nodes is ready soon.
_FIRST_RETRY, _LONGEST_RETRY = 0.05, 300.0

_log = logger(__name__)

HealthHandler = Callable[[str, list[DeviceHealth]], Awaitable[None]]


class DriverConnections:
    """Manages the connections to each DRA driver on the node.

    ``on_health`` is awaited with each health report. ``on_health_end`` is called when a driver permanently
    stops reporting, ``on_register`` when a driver becomes callable.
    """

    def __init__(
        self,
        node_name: str,
        client: Client,
        clock: Clock,
        *,
        on_health: HealthHandler | None = None,
        on_health_end: Callable[[str], None] | None = None,
        on_register: Callable[[], None] | None = None,
        wiping_delay: float = WIPING_DELAY,
        rng: random.Random | None = None,
        faults: CallFaults | None = None,
        kubernetes: Version = DEFAULT,
        sockets: Sockets | None = None,
    ) -> None:
        self._node_name = node_name
        self._client = client
        self._clock = clock
        self._on_health = on_health
        self._on_health_end = on_health_end
        self._on_register = on_register
        self._wiping_delay = wiping_delay
        self._rng = rng
        self._faults = faults
        self._kubernetes = kubernetes
        self._sockets = sockets or UnixSockets()
        self._connections: dict[str, list[DriverConnection]] = {}
        self._watchers: dict[DriverConnection, list[asyncio.Task[None]]] = {}
        self._pending_wipes: dict[str, asyncio.Task[None]] = {}
        self._pending_ends: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self._tasks = Tasks()

    async def wipe_all(self) -> None:
        """Delete every slice of the node, with retries. Must be called before any driver registers."""
        await self._wipe(None)

    async def close(self) -> None:
        """End the background work and close all connections."""
        self._closed = True
        await self._tasks.close()
        for connections in self._connections.values():
            for connection in connections:
                await connection.close()
        self._connections.clear()

    def get(self, driver: str) -> DriverConnection:
        """Return the connection for calls to ``driver``.

        Raises:
            DriverError: none is registered.
        """
        if not driver:
            raise DriverError("DRA driver name is empty")
        connections = self._connections.get(driver)
        if not connections:
            raise DriverError(f"DRA driver {driver} is not registered")
        return next(
            (connection for connection in reversed(connections) if connection.connected), connections[-1]
        )

    def drivers(self) -> Sequence[str]:
        """Return the names of the registered drivers."""
        return list(self._connections)

    def validate(self, driver: str, endpoint: str, services: Sequence[str]) -> None:
        """Check a driver's registration.

        Raises:
            DriverError: the kubelet cannot use it.
        """
        if self._kubernetes >= V1_38:
            check_driver_name(driver)
            check_endpoint(endpoint)
        try:
            choose_service(services)
        except DriverError as error:
            raise DriverError(
                f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}: {error}"
            ) from error

    def register(
        self, driver: str, endpoint: str, services: Sequence[str], timeout: float = CALL_TIMEOUT
    ) -> None:
        """Connect to an instance of ``driver`` and use it from now on. A call may take ``timeout`` seconds.

        Raises:
            DriverError: the kubelet cannot use the driver, or another driver has registered with the endpoint.
        """
        self.validate(driver, endpoint, services)
        connections = self._connections.setdefault(driver, [])
        if any(known.endpoint == endpoint for known in connections):
            raise DriverError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        connection = DriverConnection(
            driver,
            endpoint,
            services,
            timeout=timeout,
            clock=self._clock,
            faults=self._faults,
            kubernetes=self._kubernetes,
            sockets=self._sockets,
            handles=ClassicHandles(self._client),
        )
        connections.append(connection)
        watchers = [self._tasks.start(self._watch_connection(connection))]
        if self._on_health is not None:
            watchers.append(self._tasks.start(self._watch_health(connection, self._on_health)))
        self._watchers[connection] = watchers
        _log.info(
            "driver registered",
            node=self._node_name,
            driver=driver,
            endpoint=endpoint,
            api=connection.chosen_service,
        )
        self._sync(driver)
        if self._on_register is not None:
            self._on_register()

    def deregister(self, driver: str, endpoint: str) -> None:
        """Close the connection to ``endpoint`` if it is known."""
        connections = self._connections.get(driver, [])
        for connection in connections:
            if connection.endpoint == endpoint:
                connections.remove(connection)
                if not connections:
                    del self._connections[driver]
                for watcher in self._watchers.pop(connection, ()):
                    watcher.cancel()
                self._tasks.start(connection.close())
                _log.info("driver is gone", node=self._node_name, driver=driver, endpoint=endpoint)
                self._sync(driver)
                return

    def _sync(self, driver: str) -> None:
        usable = any(connection.connected for connection in self._connections.get(driver, ()))
        pending = self._pending_wipes.get(driver)
        if usable:
            if pending is not None:
                pending.cancel()
                del self._pending_wipes[driver]
        elif pending is None:
            self._pending_wipes[driver] = self._tasks.start(self._wipe_later(driver))

    async def _wipe_later(self, driver: str) -> None:
        await self._clock.sleep(self._wiping_delay)
        try:
            await self._wipe(driver)
        finally:
            if self._pending_wipes.get(driver) is asyncio.current_task():
                del self._pending_wipes[driver]

    async def _wipe(self, driver: str | None) -> None:
        selector = f"spec.nodeName={self._node_name}"
        if driver is not None:
            selector += f",spec.driver={driver}"
        delay = _FIRST_RETRY
        while True:
            try:
                with contextlib.suppress(NotFound):
                    await self._client.delete_collection(RESOURCE_SLICES, field_selector=selector)
                _log.info("slices deleted", node=self._node_name, driver=driver or "(all)")
                return
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info("slices not deleted, trying again", node=self._node_name, error=str(error))
            # Created on demand: each takes 2.5 KiB, and there may be thousands of nodes.
            self._rng = self._rng or random.Random()
            await self._clock.sleep(delay * (1 + self._rng.random() / 5))
            delay = min(delay * 2, _LONGEST_RETRY)

    async def _watch_connection(self, connection: DriverConnection) -> None:
        async for connected in connection.watch_connectivity():
            if connected != connection.connected:
                connection.connected = connected
                _log.debug("driver connection changed", driver=connection.driver, connected=connected)
                self._sync(connection.driver)

    async def _watch_health(self, connection: DriverConnection, handle: HealthHandler) -> None:
        driver = connection.driver
        while True:
            try:
                async for devices in connection.watch_health():
                    self._cancel_health_end(driver)
                    await handle(driver, devices)
                    del devices  # Free the list now. It would take memory until the next report.
                self._end_health(driver)
            except NoHealth:
                self._end_health(driver)
                return
            except DriverError as error:
                _log.debug("health stream broke, trying again", driver=driver, error=str(error))
                self._end_health_unless_back(driver)
            except asyncio.CancelledError:
                self._end_health_unless_back(driver)
                raise
            await self._clock.sleep(_HEALTH_RETRY)

    def _end_health(self, driver: str) -> None:
        """Report that the driver itself ended its reports."""
        if self._on_health_end is not None:
            self._on_health_end(driver)

    def _end_health_unless_back(self, driver: str) -> None:
        """Start the timer after which the last report is dropped, unless the driver reports again."""
        if not self._closed and driver not in self._pending_ends:
            self._pending_ends[driver] = self._tasks.start(self._end_health_later(driver))

    def _cancel_health_end(self, driver: str) -> None:
        if (pending := self._pending_ends.pop(driver, None)) is not None:
            pending.cancel()

    async def _end_health_later(self, driver: str) -> None:
        await self._clock.sleep(HEALTH_GRACE)
        self._pending_ends.pop(driver, None)
        self._end_health(driver)

"""The plugins registered on a node, and the node's slices that must not outlive them.

Follows pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go: several plugins may serve one driver during an update, and the
newest that is connected gets the calls. While a driver has none connected its ResourceSlices mislead the scheduler,
so they are deleted after a delay that a restart of the driver fits into; at start all of the node's slices are.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import httpx
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.client.errors import ApiError, from_response
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_node_agent.kubelet.dra.health import DeviceHealth
from dra_node_agent.kubelet.dra.plugin import CALL_TIMEOUT, DraPlugin, NoHealth, PluginError, choose_service
from dra_node_agent.tasks import Tasks

WIPING_DELAY = 30.0
_HEALTH_RETRY = 5.0
# Quick at first: a server that starts together with the nodes is there in a moment.
_FIRST_RETRY, _LONGEST_RETRY = 0.05, 300.0

_log = logger(__name__)

HealthHandler = Callable[[str, list[DeviceHealth]], Awaitable[None]]


class DraPluginManager:
    """Keeps track of how to reach each DRA driver on the node.

    ``on_health`` is awaited with each health report; ``on_health_end`` is called when a driver's reports stop,
    ``on_register`` when a driver can be called that could not be before.
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
    ) -> None:
        self._node_name = node_name
        self._client = client
        self._clock = clock
        self._on_health = on_health
        self._on_health_end = on_health_end
        self._on_register = on_register
        self._wiping_delay = wiping_delay
        self._rng = rng or random.Random()
        self._plugins: dict[str, list[DraPlugin]] = {}
        self._watchers: dict[DraPlugin, list[asyncio.Task[None]]] = {}
        self._pending_wipes: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks()

    async def wipe_all(self) -> None:
        """Delete every slice of the node, trying until it works: no driver has registered yet."""
        await self._wipe(None)

    async def close(self) -> None:
        """End the background work and close all connections."""
        await self._tasks.close()
        for plugins in self._plugins.values():
            for plugin in plugins:
                await plugin.close()
        self._plugins.clear()

    def get(self, driver: str) -> DraPlugin:
        """The plugin to call for ``driver``.

        Raises:
            PluginError: none is registered.
        """
        if not driver:
            raise PluginError("DRA driver name is empty")
        plugins = self._plugins.get(driver)
        if not plugins:
            raise PluginError(f"DRA driver {driver} is not registered")
        return next((plugin for plugin in reversed(plugins) if plugin.connected), plugins[-1])

    def drivers(self) -> Sequence[str]:
        """The names of the registered drivers."""
        return list(self._plugins)

    def validate(self, driver: str, endpoint: str, services: Sequence[str]) -> None:
        """Check a plugin's registration.

        Raises:
            PluginError: the kubelet cannot use it.
        """
        try:
            choose_service(services)
        except PluginError as error:
            raise PluginError(
                f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}: {error}"
            ) from error

    def register(
        self, driver: str, endpoint: str, services: Sequence[str], timeout: float = CALL_TIMEOUT
    ) -> None:
        """Take a plugin in; it serves ``driver`` from now on. Each call to it may take ``timeout`` seconds.

        Raises:
            PluginError: the kubelet cannot use it, or its endpoint is taken.
        """
        self.validate(driver, endpoint, services)
        plugins = self._plugins.setdefault(driver, [])
        if any(known.endpoint == endpoint for known in plugins):
            raise PluginError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        plugin = DraPlugin(driver, endpoint, services, timeout=timeout, clock=self._clock)
        plugins.append(plugin)
        watchers = [self._tasks.start(self._watch_connection(plugin))]
        if self._on_health is not None:
            watchers.append(self._tasks.start(self._watch_health(plugin, self._on_health)))
        self._watchers[plugin] = watchers
        _log.info(
            "driver plugin registered",
            node=self._node_name,
            driver=driver,
            endpoint=endpoint,
            api=plugin.chosen_service,
        )
        self._sync(driver)
        if self._on_register is not None:
            self._on_register()

    def deregister(self, driver: str, endpoint: str) -> None:
        """Let go of the plugin at ``endpoint``, if it is known."""
        plugins = self._plugins.get(driver, [])
        for plugin in plugins:
            if plugin.endpoint == endpoint:
                plugins.remove(plugin)
                if not plugins:
                    del self._plugins[driver]
                for watcher in self._watchers.pop(plugin, ()):
                    watcher.cancel()
                self._tasks.start(plugin.close())
                _log.info("driver plugin is gone", node=self._node_name, driver=driver, endpoint=endpoint)
                self._sync(driver)
                return

    def _sync(self, driver: str) -> None:
        usable = any(plugin.connected for plugin in self._plugins.get(driver, ()))
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
                response = await self._client.raw(
                    "DELETE", RESOURCE_SLICES.path(), params={"fieldSelector": selector}
                )
                if response.status_code < 400 or response.status_code == 404:
                    _log.info("slices deleted", node=self._node_name, driver=driver or "(all)")
                    return
                error: Exception = from_response(response.status_code, response.content)
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as failure:
                error = failure
            _log.info("slices not deleted, trying again", node=self._node_name, error=str(error))
            await self._clock.sleep(delay * (1 + self._rng.random() / 5))
            delay = min(delay * 2, _LONGEST_RETRY)

    async def _watch_connection(self, plugin: DraPlugin) -> None:
        async for connected in plugin.connectivity():
            if connected != plugin.connected:
                plugin.connected = connected
                _log.debug("driver connection changed", driver=plugin.driver, connected=connected)
                self._sync(plugin.driver)

    async def _watch_health(self, plugin: DraPlugin, handle: HealthHandler) -> None:
        while True:
            try:
                async for devices in plugin.health():
                    await handle(plugin.driver, devices)
            except NoHealth:
                return
            except PluginError as error:
                _log.debug("health stream broke, trying again", driver=plugin.driver, error=str(error))
            finally:
                if self._on_health_end is not None:
                    self._on_health_end(plugin.driver)
            await self._clock.sleep(_HEALTH_RETRY)

"""Setup of a profile's driver on nodes."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import DeviceClass

from dra_node_agent.drivers.base import DriverNode, RunningDriver
from dra_node_agent.drivers.profile.cluster import ClusterPools
from dra_node_agent.drivers.profile.deviceplugin import ProfilePlugin, run_plugin
from dra_node_agent.drivers.profile.devices import cluster_resources
from dra_node_agent.drivers.profile.driver import ProfileDriver
from dra_node_agent.drivers.profile.model import Profile


class ProfileFactory:
    """A profile's driver, which can be started on any number of nodes.

    Raises:
        DriverConfigError: the profile's pools are inconsistent.
    """

    by_environment = False

    def __init__(self, profile: Profile) -> None:
        self.name = profile.driver
        self._profile = profile
        self._cluster_pools = ClusterPools(
            profile.driver, cluster_resources(profile), profile.binding_conditions
        )

    def device_classes(self) -> list[DeviceClass]:
        if self._profile.device_plugin is not None:
            return []
        return [
            DeviceClass(metadata=ObjectMeta(name=c.name), spec=c.spec) for c in self._profile.device_classes
        ]

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[RunningDriver]:
        template = self._profile.device_plugin
        if template is None:
            return self._driver(node)
        plugin = ProfilePlugin(self._profile, template, node.name)
        return run_plugin(plugin, node.kubelet_root, node.cdi_directory, node.clock)

    @contextlib.asynccontextmanager
    async def _driver(self, node: DriverNode) -> AsyncIterator[ProfileDriver]:
        driver = ProfileDriver(
            self._profile,
            node.name,
            node.directories(self.name),
            node.client,
            node.clock,
            slices=node.slices,
            kubernetes=node.kubernetes,
            sockets=node.sockets,
            instance=node.instance,
        )
        async with driver, self._cluster_pools.join(node.client, node.clock):
            yield driver

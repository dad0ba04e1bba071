"""Setup of NVIDIA's device plugin on nodes."""

from contextlib import AbstractAsyncContextManager

from dra_shared.api.resource import DeviceClass

from dra_node_agent.drivers.base import DriverNode, DriverOptions
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.machines import NvidiaMachines
from dra_node_agent.drivers.nvidia.plugin import PLUGIN_NAME, config
from dra_node_agent.drivers.nvidia.plugin.plugin import NvidiaPlugins


class NvidiaPluginFactory(NvidiaMachines):
    """The device plugin with its options, which can be started on any number of nodes.

    Raises:
        DriverConfigError: an option is wrong.
    """

    name = PLUGIN_NAME
    by_environment = True

    def __init__(self, options: DriverOptions) -> None:
        super().__init__(options, NvidiaGates())
        self._config = config.parse(options.values)

    def device_classes(self) -> list[DeviceClass]:
        """Return an empty list: device plugins have no classes."""
        return []

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[NvidiaPlugins]:
        return NvidiaPlugins(
            DeviceLibrary(self.host(node.name), NvidiaGates()),
            node.name,
            node.kubelet_root,
            node.cdi_directory,
            node.clock,
            self._config,
        )

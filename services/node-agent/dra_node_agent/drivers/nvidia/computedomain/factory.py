"""Setup of the driver for compute domains on nodes with real or simulated GPUs."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector

from dra_node_agent.drivers.base import DriverNode, DriverOptions
from dra_node_agent.drivers.nvidia import options
from dra_node_agent.drivers.nvidia.computedomain import DRIVER_NAME, api, imex
from dra_node_agent.drivers.nvidia.computedomain.controlplane import ControlPlane
from dra_node_agent.drivers.nvidia.computedomain.driver import ComputeDomainDriver
from dra_node_agent.drivers.nvidia.computedomain.imex import Imex
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.machines import DraMachines

_NAMESPACE = "compute-domain-namespace"
_ATTRIBUTES = f"device.attributes['{DRIVER_NAME}']"
_SELECTORS = {
    api.DAEMON_CLASS: f"device.driver == '{DRIVER_NAME}' && {_ATTRIBUTES}.type == 'daemon'",
    api.CHANNEL_CLASS: (
        f"device.driver == '{DRIVER_NAME}' && {_ATTRIBUTES}.type == 'channel' && {_ATTRIBUTES}.id == 0"
    ),
}


def from_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options that the chart sets on the container: feature gates, and the driver's namespace."""
    return {
        **options.from_environment(environment),
        **imex.from_environment(environment),
        _NAMESPACE: environment.get("NAMESPACE", ""),
    }


class ComputeDomainFactory(DraMachines):
    """The driver with its options, which can be started on any number of nodes.

    Raises:
        DriverConfigError: an option is wrong.
    """

    name = DRIVER_NAME

    def __init__(self, chosen: DriverOptions) -> None:
        super().__init__(chosen)
        self._namespace = chosen.values.get(_NAMESPACE) or api.NAMESPACE
        self._imex = Imex.parse(chosen.values, self.own.gates)
        self._plane = ControlPlane(self._namespace, self.own.gates, host_managed=self._imex.host_managed)

    def device_classes(self) -> list[DeviceClass]:
        return [
            DeviceClass(
                metadata=ObjectMeta(name=name),
                spec=DeviceClassSpec(
                    selectors=(DeviceSelector(cel=CELDeviceSelector(expression=expression)),)
                ),
            )
            for name, expression in _SELECTORS.items()
            if not (self._imex.host_managed and name == api.DAEMON_CLASS)
        ]

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[ComputeDomainDriver]:
        library = DeviceLibrary(self.host(node.name), self.own.gates)
        return ComputeDomainDriver(library, node, self._plane, self._namespace, self._imex)

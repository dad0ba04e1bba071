"""Setup of the NVIDIA driver on nodes with real or simulated GPUs."""

from contextlib import AbstractAsyncContextManager

from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector

from dra_node_agent.drivers.base import DriverNode, DriverOptions
from dra_node_agent.drivers.nvidia import DRIVER_NAME
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.driver import NvidiaDriver
from dra_node_agent.drivers.nvidia.machines import DraMachines

_TYPES = {"gpu.nvidia.com": "gpu", "mig.nvidia.com": "mig", "vfio.gpu.nvidia.com": "vfio"}


def device_classes() -> list[DeviceClass]:
    """Return one class for each type of device. Whole GPUs also provide ``nvidia.com/gpu``."""
    return [
        DeviceClass(
            metadata=ObjectMeta(name=name),
            spec=DeviceClassSpec(
                selectors=(
                    DeviceSelector(
                        cel=CELDeviceSelector(
                            expression=f"device.driver == '{DRIVER_NAME}' && "
                            f"device.attributes['{DRIVER_NAME}'].type == '{type_}'"
                        )
                    ),
                ),
                extended_resource_name="nvidia.com/gpu" if type_ == "gpu" else None,
            ),
        )
        for name, type_ in _TYPES.items()
    ]


class NvidiaFactory(DraMachines):
    """The driver with its options, which can be started on any number of nodes.

    Raises:
        DriverConfigError: an option is wrong.
    """

    name = DRIVER_NAME

    def __init__(self, options: DriverOptions) -> None:
        super().__init__(options)
        # Created only to validate the options now.
        Announcer(self.own.gates, self.own.shares)

    def device_classes(self) -> list[DeviceClass]:
        return device_classes()

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[NvidiaDriver]:
        return NvidiaDriver(
            self.host(node.name),
            node.name,
            node.directories(DRIVER_NAME),
            node.client,
            node.clock,
            self.own,
            slices=node.slices,
            sockets=node.sockets,
        )

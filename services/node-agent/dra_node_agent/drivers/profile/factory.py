"""Setting a profile's driver up on nodes."""

from contextlib import AbstractAsyncContextManager

from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import DeviceClass

from dra_node_agent.drivers.base import DriverNode, RunningDriver
from dra_node_agent.drivers.profile.driver import ProfileDriver
from dra_node_agent.drivers.profile.model import Profile


class ProfileFactory:
    """A profile's driver, to be started on any number of nodes."""

    def __init__(self, profile: Profile) -> None:
        self.name = profile.driver
        self._profile = profile

    def device_classes(self) -> list[DeviceClass]:
        return [
            DeviceClass(metadata=ObjectMeta(name=c.name), spec=c.spec) for c in self._profile.device_classes
        ]

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[RunningDriver]:
        return ProfileDriver(
            self._profile,
            node.name,
            node.kubelet_root,
            node.cdi_directory,
            node.client,
            node.clock,
            slices=node.slices,
        )

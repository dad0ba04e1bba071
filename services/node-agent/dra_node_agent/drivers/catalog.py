"""The drivers that a node can run, by name or as a profile's file."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dra_shared.api.resource import DeviceClass
from dra_shared.api.resources import DEVICE_CLASSES
from dra_shared.client.errors import AlreadyExists
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.clock import Clock

from dra_node_agent.drivers.claims import ClaimHandler
from dra_node_agent.drivers.errors import DriverConfigError
from dra_node_agent.drivers.nvidia import DRIVER_NAME as NVIDIA
from dra_node_agent.drivers.plugin import KubeletPlugin
from dra_node_agent.drivers.publisher import SliceHead
from dra_node_agent.nvml.node import DEFAULT_GPUS


@dataclass(frozen=True)
class DriverNode:
    """A node as a driver needs it.

    Args:
        kubelet_root: the kubelet's directory on that node.
        cdi_directory: where its container engine reads CDI files.
        slices: an informer of all ResourceSlices, if several drivers share one.
    """

    name: str
    kubelet_root: Path
    cdi_directory: Path
    client: Client
    clock: Clock
    slices: Informer[SliceHead] | None = None


class RunningDriver(ClaimHandler, Protocol):
    """A driver on a node, within its context."""

    @property
    def plugin(self) -> KubeletPlugin:
        """What serves the kubelet and publishes the slices."""
        ...


class Driver(Protocol):
    """A driver that can be started on nodes."""

    name: str

    def device_classes(self) -> list[DeviceClass]:
        """The classes that come with it."""
        ...

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[RunningDriver]:
        """The driver on a node: serves, publishes and prepares within the context.

        Raises:
            DriverConfigError: it cannot run there with its options.
        """
        ...


@dataclass(frozen=True)
class DriverOptions:
    """What a user may say about the drivers of a node.

    Args:
        gpus: the simulated GPUs, see :func:`dra_node_agent.nvml.node.parse_gpus`; ``host`` for the machine's own.
        gpu_models: directories with users' GPU models.
        nvidia_gates: the NVIDIA driver's feature gates; empty for what suits a lab.
        consumable_shares: the NVIDIA driver's option of that name.
        driver_root: where stand-ins of the driver's files may be put; shared by all nodes.
        machines: where the state of simulated machines is kept, one file a node.
    """

    driver_root: Path
    machines: Path
    gpus: str = DEFAULT_GPUS
    gpu_models: tuple[Path, ...] = ()
    nvidia_gates: str = ""
    consumable_shares: str = ""


def find_driver(name: str, options: DriverOptions) -> Driver:
    """The driver called ``name``, or the profile in the file of that path, perhaps with ``:variant`` behind.

    Raises:
        DriverConfigError: there is none; the message lists what there is. Or its options are wrong.
    """
    if name == NVIDIA:
        from dra_node_agent.drivers.nvidia.factory import NvidiaFactory

        return NvidiaFactory(options)
    from dra_node_agent.drivers.profile import known_profiles, load_profile
    from dra_node_agent.drivers.profile.factory import ProfileFactory

    profiles = known_profiles()
    base = name.partition(":")[0]
    if base in profiles or base.endswith((".yaml", ".yml")):
        return ProfileFactory(load_profile(name))
    raise DriverConfigError(
        f"unknown driver {name!r}, known drivers: {', '.join(sorted([NVIDIA, *profiles]))} (or a profile's .yaml file)"
    )


async def ensure_device_classes(client: Client, drivers: list[Driver]) -> None:
    """Create the drivers' DeviceClasses that are not there; those that are stay as they are.

    Raises:
        ApiError: the API server refuses one.
    """
    for driver in drivers:
        for device_class in driver.device_classes():
            try:
                await client.create(DEVICE_CLASSES, device_class)
            except AlreadyExists:
                continue

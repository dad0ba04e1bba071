"""The interface of a driver that can be started on nodes. :mod:`dra_node_agent.drivers.catalog` lists the drivers."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dra_driverkit.cdi import ContainerEdits
from dra_driverkit.directories import Directories
from dra_driverkit.sliceheads import SliceHeads
from dra_driverkit.transport import Sockets
from dra_shared.api.resource import DeviceClass
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.version import DEFAULT, Version

from dra_node_agent.nvml.node import DEFAULT_GPUS

if TYPE_CHECKING:
    from dra_node_agent.nvml.system import SimulatedSystem


@dataclass(frozen=True)
class DriverNode:
    """The node that a driver runs on.

    Args:
        kubelet_root: the kubelet's directory on that node. cdi_directory: where its container engine reads CDI
        files. slices: an informer of all ResourceSlices that several drivers share, if there is one.
        kubernetes: the version of Kubernetes that drivers follow there. sockets: where the driver listens for
        the kubelet. cluster: a client for objects that do not belong to a single node; if None, the driver's
        own client is used. durable: whether checkpoints are synced to the disk. instance: the UID of the
        driver's pod, for rolling updates in which a new pod starts before the old one ends.
    """

    name: str
    kubelet_root: Path
    cdi_directory: Path
    client: Client
    clock: Clock
    slices: SliceHeads | None = None
    kubernetes: Version = DEFAULT
    sockets: Sockets | None = None
    cluster: Client | None = None
    durable: bool = True
    instance: str = ""

    def directories(self, driver: str) -> Directories:
        """Return the directories of the driver with that name."""
        return Directories.below(driver, self.kubelet_root, self.cdi_directory, durable=self.durable)


class RunningDriver(Protocol):
    """A driver or device plugin that runs on a node, within its context."""

    async def wait_until_published(self) -> None:
        """Wait until its devices are published: its slices are in the API server, or the kubelet has registered it."""
        ...


class Driver(Protocol):
    """A driver or device plugin that can be started on nodes.

    Args:
        by_environment: whether the vendor's container runtime reads the environment of containers.
    """

    name: str
    by_environment: bool

    def device_classes(self) -> list[DeviceClass]:
        """Return the device classes that come with it."""
        ...

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[RunningDriver]:
        """Return a context in which the driver serves, publishes and prepares on the node.

        Raises:
            DriverConfigError: the driver cannot run on the node with its options.
        """
        ...


@runtime_checkable
class Repairable(Protocol):
    """A running driver that taints faulty devices until they are repaired."""

    async def mark_repaired(self) -> None:
        """Remove the taints of all device faults, because the devices work again."""
        ...


@runtime_checkable
class Machines(Protocol):
    """The machines that a driver runs on: simulated GPUs, the labels of their nodes, their container runtime."""

    def system(self, node_name: str, /) -> "SimulatedSystem | None":
        """Return the node's simulated machine, or None if it is real."""
        ...

    def labels(self, node_name: str, started: datetime, /) -> dict[str, str]:
        """Return the labels that feature discovery gives the node."""
        ...

    def environment_edits(
        self, node_name: str, environment: Mapping[str, str], mounts: Sequence[str], /
    ) -> ContainerEdits:
        """Return the edits of the vendor's container runtime for a container with this environment and these mounts."""
        ...


@dataclass(frozen=True)
class DriverOption:
    """An option of one driver: the command line's ``--NAME``."""

    name: str
    help: str


@dataclass(frozen=True)
class DriverOptions:
    """The machines that drivers run on, and the values of the drivers' own options.

    Args:
        driver_root: a directory for stand-ins of the driver's files, shared by all nodes.
        machines: a directory with the state of simulated machines, one file a node.
        gpus: the simulated GPUs, see :func:`dra_node_agent.nvml.node.parse_gpus`; ``host`` for the machine's own.
        gpu_models: directories with users' GPU models.
        values: by :attr:`DriverOption.name`; only the driver that declares an option parses it.
        systems: the simulated machines by node, which all drivers share.
    """

    driver_root: Path
    machines: Path
    gpus: str = DEFAULT_GPUS
    gpu_models: tuple[Path, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    systems: "dict[str, SimulatedSystem]" = field(default_factory=dict)

"""The machines of nodes with NVIDIA GPUs, simulated or real. All drivers for such GPUs share them."""

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime

import msgspec
import pynvml
from dra_driverkit.cdi import ContainerEdits
from dra_driverkit.errors import DriverConfigError
from dra_shared.log import logger

from dra_node_agent.drivers.base import DriverOptions
from dra_node_agent.drivers.nvidia import containerruntime
from dra_node_agent.drivers.nvidia.devices import Gpu
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary, DiscoveryError
from dra_node_agent.drivers.nvidia.features import node_labels
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.host import Host
from dra_node_agent.drivers.nvidia.options import NvidiaOptions
from dra_node_agent.drivers.nvidia.realhost import RealHost
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.model import ModelError, UnknownModelError
from dra_node_agent.nvml.node import GpuSpecError, open_system, parse_gpus
from dra_node_agent.nvml.system import SimulatedSystem

HOST_GPUS = "host"

_log = logger(__name__)


class NvidiaMachines:
    """The machines that the options describe.

    Raises:
        DriverConfigError: such machines cannot exist.
    """

    def __init__(self, options: DriverOptions, gates: NvidiaGates) -> None:
        self._options = options
        self._gates = gates
        self._labels: dict[Hashable, dict[str, str]] = {}
        self._builds: dict[Hashable, list[Gpu]] = {}
        # Validate the options now. Otherwise an error would only appear when a node's driver starts.
        if options.gpus == HOST_GPUS:
            _real_host()
        else:
            try:
                parse_gpus(options.gpus, "", options.gpu_models)
            except (GpuSpecError, UnknownModelError, ModelError) as error:
                raise DriverConfigError(str(error)) from error

    def system(self, node_name: str) -> SimulatedSystem | None:
        """Return the simulated machine of a node, or None if the GPUs are real.

        All callers share one object: the driver creates MIG devices on it, and nvidia-smi in a container
        shows them.
        """
        if self._options.gpus == HOST_GPUS:
            return None
        systems = self._options.systems
        if node_name not in systems:
            path = self._options.machines / f"{node_name}.json"
            systems[node_name] = open_system(self._options.gpus, node_name, path, self._options.gpu_models)
        return systems[node_name]

    def in_rack(self) -> bool:
        """True if simulated GPUs of a node are in an NVLink domain with those of other nodes."""
        if self._options.gpus == HOST_GPUS:
            return False
        gpus = parse_gpus(self._options.gpus, "", self._options.gpu_models)
        return any(gpu.fabric is not None and gpu.fabric.cluster.int for gpu in gpus)

    def host(self, node_name: str) -> Host:
        """Return the machine of a node as a driver sees it."""
        system = self.system(node_name)
        if system is None:
            return _real_host()
        return SimulatedHost(system, self._options.driver_root, self._builds)

    def labels(self, node_name: str, started: datetime) -> dict[str, str]:
        """Return the labels that feature discovery gives the node. ``started`` is the start of discovery."""
        system = self.system(node_name)
        if system is None:
            return self._discover_labels(node_name, started)
        # Equal machines have equal labels, and querying all values from NVML takes long.
        build = system.build
        if build not in self._labels:
            self._labels[build] = self._discover_labels(node_name, started)
        return dict(self._labels[build])

    def environment_edits(
        self, node_name: str, environment: Mapping[str, str], mounts: Sequence[str]
    ) -> ContainerEdits:
        """Return the edits of NVIDIA's container runtime for a container with this environment and these mounts."""
        wanted = containerruntime.wanted_devices(environment, mounts)
        if wanted is None:
            return ContainerEdits()
        library = DeviceLibrary(self.host(node_name), NvidiaGates())
        try:
            # Leave out environment variables, because the container has its own.
            return msgspec.structs.replace(containerruntime.device_edits(library, wanted), env=())
        except DiscoveryError as error:
            _log.warning("cannot inject GPUs", node=node_name, error=str(error))
            return ContainerEdits()

    def _discover_labels(self, node_name: str, started: datetime) -> dict[str, str]:
        try:
            return node_labels(DeviceLibrary(self.host(node_name), self._gates), started)
        except (DiscoveryError, DriverConfigError) as error:
            _log.warning("no labels for the node's GPUs", node=node_name, error=str(error))
            return {}


class DraMachines(NvidiaMachines):
    """The machines for one of NVIDIA's DRA drivers. ``own`` has the driver's own options.

    Raises:
        DriverConfigError: an option is wrong.
    """

    by_environment = False

    def __init__(self, options: DriverOptions) -> None:
        self.own = NvidiaOptions.parse(options.values)
        super().__init__(options, self.own.gates)


def _real_host() -> RealHost:
    try:
        return RealHost()
    except pynvml.NVMLError as error:
        # Without the library, NVML cannot be initialized.
        missing = isinstance(error, pynvml.NVMLError_Uninitialized | pynvml.NVMLError_LibraryNotFound)
        why = "no NVIDIA driver" if missing else f"no NVIDIA driver that works: {error}"
        raise DriverConfigError(f"--gpus {HOST_GPUS}: this machine has {why}") from error

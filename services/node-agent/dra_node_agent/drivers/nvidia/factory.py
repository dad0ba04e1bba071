"""Setting the NVIDIA driver up on nodes, with real or simulated GPUs."""

from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager
from datetime import datetime

import pynvml
from dra_shared.api.resource import DeviceClass
from dra_shared.log import logger

from dra_node_agent.drivers.base import DriverNode, DriverOptions, RunningDriver
from dra_node_agent.drivers.errors import DriverConfigError
from dra_node_agent.drivers.nvidia import DRIVER_NAME
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.classes import device_classes
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary, DiscoveryError
from dra_node_agent.drivers.nvidia.driver import NvidiaDriver
from dra_node_agent.drivers.nvidia.features import node_labels
from dra_node_agent.drivers.nvidia.host import Host, RealHost, SimulatedHost
from dra_node_agent.drivers.nvidia.options import NvidiaOptions
from dra_node_agent.nvml.model import ModelError, UnknownModelError
from dra_node_agent.nvml.node import GpuSpecError, open_system, parse_gpus
from dra_node_agent.nvml.system import SimulatedGpu, SimulatedSystem

HOST_GPUS = "host"

_log = logger(__name__)


class NvidiaFactory:
    """The driver with its options, to be started on any number of nodes.

    Raises:
        DriverConfigError: an option is wrong.
    """

    name = DRIVER_NAME

    def __init__(self, options: DriverOptions) -> None:
        self._options = options
        self._own = NvidiaOptions.parse(options.values)
        self._systems: dict[str, SimulatedSystem] = {}
        self._labels: dict[Hashable, dict[str, str]] = {}
        # Checks the options now: a node would only find out when its driver starts.
        Announcer(self._own.gates, self._own.shares)
        if options.gpus == HOST_GPUS:
            _real_host()
        else:
            try:
                parse_gpus(options.gpus, "", options.gpu_models)
            except (GpuSpecError, UnknownModelError, ModelError) as error:
                raise DriverConfigError(str(error)) from error

    def with_options(self, options: DriverOptions) -> "NvidiaFactory":
        """The driver set up otherwise, for the same machines; raises as the constructor does."""
        made = NvidiaFactory(options)
        made._systems = self._systems
        return made

    def device_classes(self) -> list[DeviceClass]:
        return device_classes()

    def system(self, node_name: str) -> SimulatedSystem | None:
        """The simulated machine of a node; None where the GPUs are real.

        One object for all who ask: the driver makes MIG devices on it, and nvidia-smi in a container shows them.
        """
        if self._options.gpus == HOST_GPUS:
            return None
        if node_name not in self._systems:
            path = self._options.machines / f"{node_name}.json"
            self._systems[node_name] = open_system(
                self._options.gpus, node_name, path, self._options.gpu_models
            )
        return self._systems[node_name]

    def labels(self, node_name: str, started: datetime) -> dict[str, str]:
        """The labels that feature discovery gives the node; ``started`` is when it began."""
        system = self.system(node_name)
        if system is None:
            return self._discovered(node_name, started)
        # Equal machines have the same labels, and asking NVML for everything takes its time.
        key = tuple(_layout(gpu) for gpu in system.gpus)
        if key not in self._labels:
            self._labels[key] = self._discovered(node_name, started)
        return dict(self._labels[key])

    def _discovered(self, node_name: str, started: datetime) -> dict[str, str]:
        try:
            return node_labels(DeviceLibrary(self._host(node_name), self._own.gates), started)
        except (DiscoveryError, DriverConfigError) as error:
            _log.warning("no labels for the node's GPUs", node=node_name, error=str(error))
            return {}

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[RunningDriver]:
        return NvidiaDriver(
            self._host(node.name),
            node.name,
            node.kubelet_root,
            node.cdi_directory,
            node.client,
            node.clock,
            self._own,
            slices=node.slices,
        )

    def _host(self, node_name: str) -> Host:
        system = self.system(node_name)
        if system is not None:
            return SimulatedHost(system, self._options.driver_root)
        return _real_host()


def _real_host() -> RealHost:
    try:
        return RealHost()
    except pynvml.NVMLError as error:
        # Without the library there is nothing that could be initialized.
        missing = isinstance(error, pynvml.NVMLError_Uninitialized | pynvml.NVMLError_LibraryNotFound)
        why = "no NVIDIA driver" if missing else f"no NVIDIA driver that works: {error}"
        raise DriverConfigError(f"--gpus {HOST_GPUS}: this machine has {why}") from error


def _layout(gpu: SimulatedGpu) -> Hashable:
    instances = tuple(sorted(instance.profile.id for instance in gpu.instances.values()))
    return gpu.model.name, gpu.lost, gpu.mig_enabled, instances

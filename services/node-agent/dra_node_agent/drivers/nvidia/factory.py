"""Setting the NVIDIA driver up on nodes, with real or simulated GPUs."""

from contextlib import AbstractAsyncContextManager

import pynvml
from dra_shared.api.resource import DeviceClass

from dra_node_agent.drivers.catalog import DriverNode, DriverOptions, RunningDriver
from dra_node_agent.drivers.errors import DriverConfigError
from dra_node_agent.drivers.nvidia import DRIVER_NAME, gates
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.classes import device_classes
from dra_node_agent.drivers.nvidia.driver import NvidiaDriver, NvidiaOptions
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.host import Host, RealHost, SimulatedHost
from dra_node_agent.nvml.model import ModelError, UnknownModelError
from dra_node_agent.nvml.node import GpuSpecError, open_system, parse_gpus
from dra_node_agent.nvml.system import SimulatedSystem

HOST_GPUS = "host"


class NvidiaFactory:
    """The driver with its options, to be started on any number of nodes.

    Raises:
        DriverConfigError: an option is wrong.
    """

    name = DRIVER_NAME

    def __init__(self, options: DriverOptions) -> None:
        self._options = options
        self._gates = NvidiaGates.parse(options.nvidia_gates or gates.LAB_DEFAULTS)
        self._systems: dict[str, SimulatedSystem] = {}
        Announcer(self._gates, options.consumable_shares)
        if options.gpus != HOST_GPUS:
            try:
                parse_gpus(options.gpus, "", options.gpu_models)
            except (GpuSpecError, UnknownModelError, ModelError) as error:
                raise DriverConfigError(str(error)) from error

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

    def on_node(self, node: DriverNode) -> AbstractAsyncContextManager[RunningDriver]:
        options = NvidiaOptions(self._gates, self._options.consumable_shares)
        return NvidiaDriver(
            self._host(node.name),
            node.name,
            node.kubelet_root,
            node.cdi_directory,
            node.client,
            node.clock,
            options,
            slices=node.slices,
        )

    def _host(self, node_name: str) -> Host:
        system = self.system(node_name)
        if system is not None:
            return SimulatedHost(system, self._options.driver_root)
        try:
            return RealHost()
        except pynvml.NVMLError as error:
            raise DriverConfigError(
                f"GPUs {HOST_GPUS!r}: this machine has no NVIDIA driver ({error})"
            ) from error

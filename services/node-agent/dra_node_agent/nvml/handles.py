"""The handles that NVML gives its callers, and the simulated objects behind them."""

import ctypes
import itertools
from typing import Any

from dra_node_agent.nvml import system as state
from dra_node_agent.nvml.system import (
    ComputeInstance,
    EventSet,
    GpuInstance,
    NvmlReturn,
    SimulatedGpu,
    SimulatedSystem,
)

# Handles are addresses that are unique in the process, so a stale or foreign one is always detected.
_addresses = itertools.count(0x7F0000001000, 0x10)

Mig = tuple[SimulatedGpu, GpuInstance, ComputeInstance]


class Handles:
    """One library's handles: for GPUs, MIG devices, GPU and compute instances, and event sets."""

    def __init__(self, system: SimulatedSystem) -> None:
        self.system = system
        self._objects: dict[int, Any] = {}
        self._handles: dict[Any, int] = {}

    def _handle(self, key: Any, thing: Any) -> int:
        address = self._handles.get(key)
        if address is None:
            address = self._handles[key] = next(_addresses)
            self._objects[address] = thing
        return address

    def _forget(self, key: Any) -> None:
        self._objects.pop(self._handles.pop(key, 0), None)

    def _thing(self, handle: Any) -> Any:
        address = ctypes.cast(handle, ctypes.c_void_p).value
        if address is None or address not in self._objects:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        return self._objects[address]

    def _gpu(self, handle: Any) -> SimulatedGpu:
        thing = self._thing(handle)
        if isinstance(thing, tuple):
            raise NvmlReturn(state.INVALID_ARGUMENT)
        if not isinstance(thing, SimulatedGpu):
            raise NvmlReturn(state.INVALID_ARGUMENT)
        return check_alive(thing)

    def _parent(self, handle: Any) -> SimulatedGpu:
        """Return the GPU of a handle that may also be for a MIG device."""
        thing = self._thing(handle)
        return check_alive(thing[0] if isinstance(thing, tuple) else thing)

    def _mig(self, handle: Any) -> Mig:
        thing = self._thing(handle)
        if not isinstance(thing, tuple) or len(thing) != 3:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        gpu, instance, compute = thing
        if instance.compute_instances.get(compute.id) is not compute:
            raise NvmlReturn(state.NOT_FOUND)
        return gpu, instance, compute

    def _instance(self, handle: Any) -> tuple[SimulatedGpu, GpuInstance]:
        thing = self._thing(handle)
        if not isinstance(thing, tuple) or len(thing) != 2:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        if thing[0].instances.get(thing[1].id) is not thing[1]:
            raise NvmlReturn(state.NOT_FOUND)
        return thing

    def _gpu_address(self, gpu: SimulatedGpu) -> int:
        return self._handle(gpu.uuid, gpu)

    def _mig_address(self, mig: Mig) -> int:
        return self._handle(mig[2].uuid, mig)

    def _instance_address(self, gpu: SimulatedGpu, instance: GpuInstance) -> int:
        return self._handle((gpu.uuid, id(instance)), (gpu, instance))

    def _compute_address(self, mig: Mig) -> int:
        return self._handle(("ci", mig[2].uuid), ("ci", *mig))

    def _compute(self, handle: Any) -> Mig:
        thing = self._thing(handle)
        if not isinstance(thing, tuple) or len(thing) != 4:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        return thing[1], thing[2], thing[3]

    def _events(self, handle: Any) -> EventSet:
        events = self._thing(handle)
        if not isinstance(events, EventSet):
            raise NvmlReturn(state.INVALID_ARGUMENT)
        return events


def check_alive(gpu: SimulatedGpu) -> SimulatedGpu:
    """Return the GPU. Raises NvmlReturn if it is lost."""
    if gpu.lost:
        raise NvmlReturn(state.GPU_IS_LOST)
    return gpu

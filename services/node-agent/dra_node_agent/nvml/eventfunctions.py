"""NVML's functions for events: XIDs, memory errors and lost GPUs."""

import ctypes
from typing import Any

import pynvml

from dra_node_agent.nvml import arguments
from dra_node_agent.nvml import system as state
from dra_node_agent.nvml.handles import Handles
from dra_node_agent.nvml.system import EventSet, NvmlReturn


class EventFunctions(Handles):
    """The functions as methods, named as in nvml.h."""

    def _nvmlDeviceGetSupportedEventTypes(self, handle: Any, out: Any) -> None:
        self._gpu(handle)
        arguments.store(out, state.SUPPORTED_EVENTS)

    def _nvmlEventSetCreate(self, out: Any) -> None:
        events = EventSet()
        self.system.event_sets.append(events)
        arguments.point(out, self._handle(("events", id(events)), events))

    def _nvmlEventSetFree(self, handle: Any) -> None:
        events = self._events(handle)
        self.system.event_sets.remove(events)
        self._forget(("events", id(events)))

    def _nvmlDeviceRegisterEvents(self, handle: Any, types: Any, events: Any) -> None:
        if arguments.integer(types) & ~state.SUPPORTED_EVENTS:
            raise NvmlReturn(state.NOT_SUPPORTED)
        gpu = self._gpu(handle)
        masks = self._events(events).masks
        masks[gpu.index] = masks.get(gpu.index, 0) | arguments.integer(types)

    def _nvmlEventSetWait_v2(self, handle: Any, out: Any, timeout_ms: Any) -> None:
        events = self._events(handle)
        with events.arrived:
            events.arrived.wait_for(
                lambda: bool(events.pending) or self.system.any_lost(), arguments.integer(timeout_ms) / 1000
            )
            if events.pending:
                event = events.pending.pop(0)
            elif self.system.any_lost():
                raise NvmlReturn(state.GPU_IS_LOST)
            else:
                raise NvmlReturn(state.TIMEOUT)
        data = out._obj
        gpu = self.system.gpus[event.gpu]
        data.device = ctypes.cast(ctypes.c_void_p(self._gpu_address(gpu)), pynvml.c_nvmlDevice_t)
        data.eventType, data.eventData = event.type, event.data
        data.gpuInstanceId, data.computeInstanceId = event.gpu_instance, event.compute_instance

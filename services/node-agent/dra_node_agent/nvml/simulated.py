"""The C functions of NVML over a :class:`SimulatedSystem`, as ctypes callers know them.

Functions take what pynvml's wrappers pass: ``byref`` objects and pointers to write to, handles, plain ints or
c_uints to read from; they return NVML's return codes. Names and struct layouts are those of nvml.h.
"""

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import pynvml

from dra_node_agent.nvml import arguments
from dra_node_agent.nvml import system as state
from dra_node_agent.nvml.model import COMPUTE_INSTANCE_SLOTS, GpuInstanceProfile
from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import (
    ComputeInstance,
    EventSet,
    GpuInstance,
    NvmlReturn,
    SimulatedGpu,
    SimulatedSystem,
    compute_slices,
)

_SUCCESS = 0
_MIB = 1024 * 1024

_ARCHITECTURES = {
    "Kepler": 2,
    "Maxwell": 3,
    "Pascal": 4,
    "Volta": 5,
    "Turing": 6,
    "Ampere": 7,
    "Ada Lovelace": 8,
    "Hopper": 9,
    "Blackwell": 10,
}
_BRANDS = {"Unknown": 0, "Quadro": 1, "Tesla": 2, "GeForce": 5, "Titan": 6, "NvidiaRTX": 13, "Nvidia": 14}
_ADDRESSING = {"None": 0, "HMM": 1, "ATS": 2}

#: Handles are addresses that no two objects of the process share, so a stale or foreign one is never mistaken.
_addresses = itertools.count(0x7F0000001000, 0x10)

_Mig = tuple[SimulatedGpu, GpuInstance, ComputeInstance]


class SimulatedLibrary:
    """One node's libnvidia-ml: the functions as attributes, each guarded by the system's lock."""

    def __init__(self, system: SimulatedSystem) -> None:
        self.system = system
        self._objects: dict[int, Any] = {}
        self._handles: dict[Any, int] = {}
        self._users = 0

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:
        """Run the C function ``name``; raises AttributeError where NVML has no such symbol here."""
        function: Callable[..., None] = getattr(self, f"_{name}")
        try:
            if name == "nvmlEventSetWait_v2":
                function(*arguments)
            else:
                with self.system.lock:
                    function(*arguments)
        except NvmlReturn as returned:
            return returned.code
        return _SUCCESS

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
        return _alive(thing)

    def _parent(self, handle: Any) -> SimulatedGpu:
        """The GPU of a handle that may also be a MIG device's."""
        thing = self._thing(handle)
        return _alive(thing[0] if isinstance(thing, tuple) else thing)

    def _mig(self, handle: Any) -> _Mig:
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

    def _mig_address(self, mig: _Mig) -> int:
        return self._handle(mig[2].uuid, mig)

    def _instance_address(self, gpu: SimulatedGpu, instance: GpuInstance) -> int:
        return self._handle((gpu.uuid, id(instance)), (gpu, instance))

    def _compute_address(self, mig: _Mig) -> int:
        return self._handle(("ci", mig[2].uuid), ("ci", *mig))

    def _nvmlInitWithFlags(self, flags: Any) -> None:
        self._users += 1

    def _nvmlShutdown(self) -> None:
        if not self._users:
            raise NvmlReturn(state.UNINITIALIZED)
        self._users -= 1

    def _nvmlSystemGetDriverVersion(self, buffer: Any, length: Any) -> None:
        buffer.value = self.system.driver_version.encode()

    def _nvmlSystemGetNVMLVersion(self, buffer: Any, length: Any) -> None:
        buffer.value = f"13.{self.system.driver_version}".encode()

    def _nvmlSystemGetCudaDriverVersion(self, out: Any) -> None:
        arguments.store(out, self.system.cuda_driver_version)

    _nvmlSystemGetCudaDriverVersion_v2 = _nvmlSystemGetCudaDriverVersion

    def _nvmlDeviceGetCount_v2(self, out: Any) -> None:
        arguments.store(out, len(self.system.visible()))

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, out: Any) -> None:
        gpus = self.system.visible()
        if not 0 <= arguments.integer(index) < len(gpus):
            raise NvmlReturn(state.INVALID_ARGUMENT)
        arguments.point(out, self._gpu_address(_alive(gpus[arguments.integer(index)])))

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, out: Any) -> None:
        wanted = arguments.text(uuid)
        for gpu in self.system.visible():
            if gpu.uuid == wanted:
                arguments.point(out, self._gpu_address(_alive(gpu)))
                return
            for instance, compute in gpu.mig_devices():
                if compute.uuid == wanted:
                    arguments.point(out, self._mig_address((gpu, instance, compute)))
                    return
        raise NvmlReturn(state.NOT_FOUND)

    def _nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: Any, out: Any) -> None:
        wanted = arguments.text(bus_id).lower()[-12:]
        for gpu in self.system.visible():
            if gpu.pci_bus_id[-12:] == wanted:
                arguments.point(out, self._gpu_address(_alive(gpu)))
                return
        raise NvmlReturn(state.NOT_FOUND)

    def _nvmlDeviceGetIndex(self, handle: Any, out: Any) -> None:
        arguments.store(out, self.system.visible().index(self._gpu(handle)))

    def _nvmlDeviceGetMinorNumber(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).index)

    def _nvmlDeviceGetName(self, handle: Any, buffer: Any, length: Any) -> None:
        thing = self._thing(handle)
        name = self._parent(handle).model.name
        if isinstance(thing, tuple):
            name += f" MIG {profile_name(thing[0], thing[1].profile)}"
        buffer.value = name.encode()

    def _nvmlDeviceGetUUID(self, handle: Any, buffer: Any, length: Any) -> None:
        thing = self._thing(handle)
        if isinstance(thing, tuple):
            buffer.value = self._mig(handle)[2].uuid.encode()
        else:
            buffer.value = self._gpu(handle).uuid.encode()

    def _nvmlDeviceGetSerial(self, handle: Any, buffer: Any, length: Any) -> None:
        buffer.value = self._gpu(handle).serial.encode()

    def _nvmlDeviceGetBrand(self, handle: Any, out: Any) -> None:
        arguments.store(out, _BRANDS.get(self._parent(handle).model.brand, 0))

    def _nvmlDeviceGetArchitecture(self, handle: Any, out: Any) -> None:
        arguments.store(out, _ARCHITECTURES.get(self._parent(handle).model.architecture, 0xFFFFFFFF))

    def _nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> None:
        left, right = self._parent(handle).model.cuda_compute_capability.split(".")
        arguments.store(major, int(left))
        arguments.store(minor, int(right))

    def _memory(self, handle: Any) -> tuple[int, int]:
        thing = self._thing(handle)
        if isinstance(thing, tuple):
            gpu, instance, compute = self._mig(handle)
            used = sum(
                p.used_mib
                for p in gpu.processes
                if (p.gpu_instance, p.compute_instance) == (instance.id, compute.id)
            )
            return instance.profile.memory_mib * _MIB, used * _MIB
        gpu = self._gpu(handle)
        return gpu.memory_bytes, gpu.used_mib * _MIB

    def _nvmlDeviceGetMemoryInfo(self, handle: Any, out: Any) -> None:
        info = out._obj
        info.total, info.used = self._memory(handle)
        info.free = info.total - info.used

    def _nvmlDeviceGetMemoryInfo_v2(self, handle: Any, out: Any) -> None:
        self._nvmlDeviceGetMemoryInfo(handle, out)
        out._obj.reserved = 0

    def _nvmlDeviceGetPciInfo_v3(self, handle: Any, out: Any) -> None:
        gpu, info = self._parent(handle), out._obj
        info.domain, info.bus, info.device = 0, gpu.pci_bus, 0
        info.pciDeviceId = gpu.model.pci_device_id
        info.busId = f"00000000:{gpu.pci_bus:02X}:00.0".encode()
        info.busIdLegacy = f"0000:{gpu.pci_bus:02X}:00.0".encode()

    def _nvmlDeviceGetAddressingMode(self, handle: Any, out: Any) -> None:
        mode = self._parent(handle).model.addressing_mode
        if mode is None:
            raise NvmlReturn(state.NOT_SUPPORTED)
        out._obj.value = _ADDRESSING[mode]

    def _nvmlDeviceGetNumaNodeId(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).numa_node)

    def _nvmlDeviceGetVirtualizationMode(self, handle: Any, out: Any) -> None:
        self._parent(handle)
        arguments.store(out, 0)

    def _nvmlDeviceGetUtilizationRates(self, handle: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        if gpu.mig_enabled:
            raise NvmlReturn(state.NOT_SUPPORTED)
        out._obj.gpu = gpu.utilization
        out._obj.memory = gpu.used_mib * 100 // gpu.model.memory_mib

    def _nvmlDeviceGetTemperature(self, handle: Any, sensor: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).temperature)

    def _nvmlDeviceGetTemperatureV(self, handle: Any, out: Any) -> None:
        out._obj.temperature = self._gpu(handle).temperature

    def _nvmlDeviceGetPowerUsage(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).power_milliwatts)

    def _nvmlDeviceGetEnforcedPowerLimit(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).model.power_limit_watts * 1000)

    def _nvmlDeviceGetPerformanceState(self, handle: Any, out: Any) -> None:
        arguments.store(out, 0 if self._gpu(handle).utilization else 8)

    def _nvmlDeviceGetPersistenceMode(self, handle: Any, out: Any) -> None:
        arguments.store(out, int(self._gpu(handle).persistence))

    def _nvmlDeviceSetPersistenceMode(self, handle: Any, mode: Any) -> None:
        self._gpu(handle).persistence = bool(arguments.integer(mode))
        self.system.changed()

    def _nvmlDeviceGetComputeMode(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).compute_mode)

    def _nvmlDeviceSetComputeMode(self, handle: Any, mode: Any) -> None:
        if not 0 <= arguments.integer(mode) <= 3:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        self._gpu(handle).compute_mode = arguments.integer(mode)
        self.system.changed()

    def _nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, counter: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        if not gpu.model.ecc:
            raise NvmlReturn(state.NOT_SUPPORTED)
        arguments.store(out, gpu.uncorrected_ecc if arguments.integer(kind) else gpu.corrected_ecc)

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, out: Any) -> None:
        thing = self._thing(handle)
        gpu = self._parent(handle)
        processes = list(gpu.processes)
        if isinstance(thing, tuple):
            _, instance, compute = self._mig(handle)
            wanted = (instance.id, compute.id)
            processes = [p for p in processes if (p.gpu_instance, p.compute_instance) == wanted]
        room = arguments.fetch(count)
        arguments.store(count, len(processes))
        if len(processes) > room or (processes and out is None):
            raise NvmlReturn(state.INSUFFICIENT_SIZE)
        for place, process in enumerate(processes):
            entry = out[place]
            entry.pid, entry.usedGpuMemory = process.pid, process.used_mib * _MIB
            entry.gpuInstanceId, entry.computeInstanceId = process.gpu_instance, process.compute_instance

    _nvmlDeviceGetComputeRunningProcesses_v2 = _nvmlDeviceGetComputeRunningProcesses_v3

    def _nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> None:
        gpu = self._gpu(handle)
        if not gpu.mig_capable:
            raise NvmlReturn(state.NOT_SUPPORTED)
        arguments.store(current, int(gpu.mig_enabled))
        arguments.store(pending, int(gpu.mig_pending))

    def _nvmlDeviceSetMigMode(self, handle: Any, mode: Any, activation: Any) -> None:
        gpu = self._gpu(handle)
        try:
            gpu.set_mig_mode(bool(arguments.integer(mode)))
        except NvmlReturn as refused:
            arguments.store(activation, refused.code)
            raise
        arguments.store(activation, _SUCCESS)
        self.system.changed()

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).model.max_mig_devices)

    def _nvmlDeviceIsMigDeviceHandle(self, handle: Any, out: Any) -> None:
        arguments.store(out, int(isinstance(self._thing(handle), tuple)))

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        gpu.check_mig()
        devices = list(gpu.mig_devices())
        if arguments.integer(index) >= gpu.model.max_mig_devices:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        if arguments.integer(index) >= len(devices):
            raise NvmlReturn(state.NOT_FOUND)
        arguments.point(out, self._mig_address((gpu, *devices[arguments.integer(index)])))

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any, out: Any) -> None:
        arguments.point(out, self._gpu_address(self._mig(handle)[0]))

    def _nvmlDeviceGetGpuInstanceId(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._mig(handle)[1].id)

    def _nvmlDeviceGetComputeInstanceId(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._mig(handle)[2].id)

    def _nvmlDeviceGetAttributes_v2(self, handle: Any, out: Any) -> None:
        _, instance, compute = self._mig(handle)
        profile, info = instance.profile, out._obj
        info.multiprocessorCount = _multiprocessors(profile, compute.slices)
        info.sharedCopyEngineCount = profile.copy_engines
        info.sharedDecoderCount, info.sharedEncoderCount = profile.decoders, profile.encoders
        info.sharedJpegCount, info.sharedOfaCount = profile.jpeg_engines, profile.ofa_engines
        info.gpuInstanceSliceCount, info.computeInstanceSliceCount = profile.slices, compute.slices
        info.memorySizeMB = profile.memory_mib

    def _nvmlDeviceGetGpuInstanceProfileInfo(self, handle: Any, slot: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        profile, info = gpu.profile_by_slot(arguments.integer(slot)), out._obj
        info.id, info.isP2pSupported, info.sliceCount = profile.id, 0, profile.slices
        info.instanceCount, info.multiprocessorCount = profile.instances, profile.multiprocessors
        info.copyEngineCount, info.decoderCount = profile.copy_engines, profile.decoders
        info.encoderCount, info.jpegCount = profile.encoders, profile.jpeg_engines
        info.ofaCount, info.memorySizeMB = profile.ofa_engines, profile.memory_mib

    def _nvmlDeviceGetGpuInstanceProfileInfoV(self, handle: Any, slot: Any, out: Any) -> None:
        self._nvmlDeviceGetGpuInstanceProfileInfo(handle, slot, out)
        gpu = self._gpu(handle)
        out._obj.name = f"MIG {profile_name(gpu, gpu.profile_by_slot(arguments.integer(slot)))}".encode()

    def _nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        self, handle: Any, profile_id: Any, placements: Any, count: Any
    ) -> None:
        profile = self._gpu(handle).profile_by_id(arguments.integer(profile_id))
        starts = profile.placements.starts
        room = arguments.fetch(count)
        arguments.store(count, len(starts))
        if placements is None:
            return
        if room < len(starts):
            raise NvmlReturn(state.INSUFFICIENT_SIZE)
        array = arguments.view(placements, pynvml.c_nvmlGpuInstancePlacement_t)
        for place, start in enumerate(starts):
            array[place].start, array[place].size = start, profile.placements.size

    def _nvmlDeviceGetGpuInstanceRemainingCapacity(self, handle: Any, profile_id: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        gpu.check_mig()
        profile = gpu.profile_by_id(arguments.integer(profile_id))
        taken: set[int] = set()
        fit = 0
        for start in gpu.free_starts(profile):
            wanted = set(range(start, start + profile.placements.size))
            if taken.isdisjoint(wanted):
                taken |= wanted
                fit += 1
        alike = sum(1 for i in gpu.instances.values() if i.profile is profile)
        arguments.store(out, min(fit, profile.instances - alike))

    def _nvmlDeviceCreateGpuInstance(self, handle: Any, profile_id: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        self._created(gpu, gpu.create_instance(gpu.profile_by_id(arguments.integer(profile_id))), out)

    def _nvmlDeviceCreateGpuInstanceWithPlacement(
        self, handle: Any, profile_id: Any, placement: Any, out: Any
    ) -> None:
        gpu = self._gpu(handle)
        start = arguments.view(placement, pynvml.c_nvmlGpuInstancePlacement_t)[0].start
        self._created(gpu, gpu.create_instance(gpu.profile_by_id(arguments.integer(profile_id)), start), out)

    def _created(self, gpu: SimulatedGpu, instance: GpuInstance, out: Any) -> None:
        arguments.point(out, self._instance_address(gpu, instance))
        self.system.changed()

    def _nvmlGpuInstanceDestroy(self, handle: Any) -> None:
        gpu, instance = self._instance(handle)
        gpu.destroy_instance(instance.id)
        self._forget((gpu.uuid, id(instance)))
        self.system.changed()

    def _nvmlDeviceGetGpuInstances(self, handle: Any, profile_id: Any, out: Any, count: Any) -> None:
        gpu = self._gpu(handle)
        gpu.check_mig()
        profile = gpu.profile_by_id(arguments.integer(profile_id))
        alike = [i for _, i in sorted(gpu.instances.items()) if i.profile is profile]
        array = arguments.view(out, ctypes.c_void_p)
        for place, instance in enumerate(alike):
            array[place] = self._instance_address(gpu, instance)
        arguments.store(count, len(alike))

    def _nvmlDeviceGetGpuInstanceById(self, handle: Any, instance_id: Any, out: Any) -> None:
        gpu = self._gpu(handle)
        arguments.point(out, self._instance_address(gpu, gpu.instance(arguments.integer(instance_id))))

    def _nvmlGpuInstanceGetInfo(self, handle: Any, out: Any) -> None:
        gpu, instance = self._instance(handle)
        info = out._obj
        info.device = ctypes.cast(ctypes.c_void_p(self._gpu_address(gpu)), pynvml.c_nvmlDevice_t)
        info.id, info.profileId = instance.id, instance.profile.id
        info.placement.start, info.placement.size = instance.start, instance.profile.placements.size

    def _nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, handle: Any, slot: Any, engine: Any, out: Any
    ) -> None:
        _, instance = self._instance(handle)
        profile = instance.profile
        slices = next((n for n, s in COMPUTE_INSTANCE_SLOTS.items() if s == arguments.integer(slot)), 0)
        if slices not in compute_slices(profile) or arguments.integer(engine) != 0:
            raise NvmlReturn(state.NOT_SUPPORTED)
        info = out._obj
        info.id, info.sliceCount = arguments.integer(slot), slices
        info.instanceCount = profile.slices // slices
        info.multiprocessorCount = _multiprocessors(profile, slices)
        info.sharedCopyEngineCount, info.sharedDecoderCount = profile.copy_engines, profile.decoders
        info.sharedEncoderCount, info.sharedJpegCount = profile.encoders, profile.jpeg_engines
        info.sharedOfaCount = profile.ofa_engines

    _nvmlGpuInstanceGetComputeInstanceProfileInfoV = _nvmlGpuInstanceGetComputeInstanceProfileInfo

    def _nvmlGpuInstanceCreateComputeInstance(self, handle: Any, profile_id: Any, out: Any) -> None:
        gpu, instance = self._instance(handle)
        compute = gpu.create_compute_instance(instance, arguments.integer(profile_id))
        arguments.point(out, self._compute_address((gpu, instance, compute)))
        self.system.changed()

    def _nvmlGpuInstanceGetComputeInstanceById(self, handle: Any, compute_id: Any, out: Any) -> None:
        gpu, instance = self._instance(handle)
        compute = instance.compute_instances.get(arguments.integer(compute_id))
        if compute is None:
            raise NvmlReturn(state.NOT_FOUND)
        arguments.point(out, self._compute_address((gpu, instance, compute)))

    def _compute(self, handle: Any) -> _Mig:
        thing = self._thing(handle)
        if not isinstance(thing, tuple) or len(thing) != 4:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        return thing[1], thing[2], thing[3]

    def _nvmlComputeInstanceGetInfo_v2(self, handle: Any, out: Any) -> None:
        gpu, instance, compute = mig = self._compute(handle)
        info = out._obj
        info.device = ctypes.cast(ctypes.c_void_p(self._mig_address(mig)), pynvml.c_nvmlDevice_t)
        info.gpuInstance = ctypes.cast(
            ctypes.c_void_p(self._instance_address(gpu, instance)), pynvml.c_nvmlGpuInstance_t
        )
        info.id, info.profileId = compute.id, compute.profile_id
        info.placement.start, info.placement.size = compute.start, compute.slices

    def _nvmlComputeInstanceDestroy(self, handle: Any) -> None:
        gpu, instance, compute = self._compute(handle)
        gpu.destroy_compute_instance(instance, compute.id)
        self._forget(("ci", compute.uuid))
        self.system.changed()

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
                event = events.pending.popleft()
            elif self.system.any_lost():
                raise NvmlReturn(state.GPU_IS_LOST)
            else:
                raise NvmlReturn(state.TIMEOUT)
        data = out._obj
        gpu = self.system.gpus[event.gpu]
        data.device = ctypes.cast(ctypes.c_void_p(self._gpu_address(gpu)), pynvml.c_nvmlDevice_t)
        data.eventType, data.eventData = event.type, event.data
        data.gpuInstanceId, data.computeInstanceId = event.gpu_instance, event.compute_instance

    def _events(self, handle: Any) -> EventSet:
        events = self._thing(handle)
        if not isinstance(events, EventSet):
            raise NvmlReturn(state.INVALID_ARGUMENT)
        return events


def _multiprocessors(profile: GpuInstanceProfile, slices: int) -> int:
    if slices == profile.slices:
        return profile.multiprocessors
    return profile.multiprocessors // profile.slices * slices


def _alive(gpu: SimulatedGpu) -> SimulatedGpu:
    if gpu.lost:
        raise NvmlReturn(state.GPU_IS_LOST)
    return gpu

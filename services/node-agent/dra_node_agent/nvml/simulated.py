"""The C functions of NVML over a :class:`SimulatedSystem`, in the form that ctypes callers know.

Functions accept the arguments of pynvml's wrappers: ``byref`` objects and pointers for results, and handles,
plain ints or c_uints for inputs. They return NVML's return codes. Names and struct layouts are those of
nvml.h.
"""

from collections.abc import Callable
from typing import Any

from dra_node_agent.nvml import arguments
from dra_node_agent.nvml import system as state
from dra_node_agent.nvml.eventfunctions import EventFunctions
from dra_node_agent.nvml.fabricfunctions import FabricFunctions
from dra_node_agent.nvml.handles import check_alive
from dra_node_agent.nvml.migfunctions import MigFunctions
from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import NvmlReturn, SimulatedSystem

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


class SimulatedLibrary(MigFunctions, EventFunctions, FabricFunctions):
    """The libnvidia-ml of one node: its functions are attributes, and the lock of the system guards each call."""

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self._users = 0

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:
        """Call the C function ``name``. Raises AttributeError if NVML has no such function here."""
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
        arguments.store(out, len(self.system.visible_gpus()))

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, out: Any) -> None:
        gpus = self.system.visible_gpus()
        if not 0 <= arguments.integer(index) < len(gpus):
            raise NvmlReturn(state.INVALID_ARGUMENT)
        arguments.point(out, self._gpu_address(check_alive(gpus[arguments.integer(index)])))

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, out: Any) -> None:
        wanted = arguments.text(uuid)
        for gpu in self.system.visible_gpus():
            if gpu.uuid == wanted:
                arguments.point(out, self._gpu_address(check_alive(gpu)))
                return
            for instance, compute in gpu.mig_devices():
                if compute.uuid == wanted:
                    arguments.point(out, self._mig_address((gpu, instance, compute)))
                    return
        raise NvmlReturn(state.NOT_FOUND)

    def _nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: Any, out: Any) -> None:
        wanted = arguments.text(bus_id).lower()[-12:]
        for gpu in self.system.visible_gpus():
            if gpu.pci_bus_id[-12:] == wanted:
                arguments.point(out, self._gpu_address(check_alive(gpu)))
                return
        raise NvmlReturn(state.NOT_FOUND)

    def _nvmlDeviceGetIndex(self, handle: Any, out: Any) -> None:
        arguments.store(out, self.system.visible_gpus().index(self._gpu(handle)))

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
        info.domain, info.bus, info.device = gpu.pci_domain, gpu.pci_bus, 0
        info.pciDeviceId = gpu.model.pci_device_id
        info.busId = gpu.nvml_bus_id.encode()
        info.busIdLegacy = gpu.nvml_bus_id[4:].encode()

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
        self.system.notify_change()

    def _nvmlDeviceGetComputeMode(self, handle: Any, out: Any) -> None:
        arguments.store(out, self._gpu(handle).compute_mode)

    def _nvmlDeviceSetComputeMode(self, handle: Any, mode: Any) -> None:
        if not 0 <= arguments.integer(mode) <= 3:
            raise NvmlReturn(state.INVALID_ARGUMENT)
        self._gpu(handle).compute_mode = arguments.integer(mode)
        self.system.notify_change()

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

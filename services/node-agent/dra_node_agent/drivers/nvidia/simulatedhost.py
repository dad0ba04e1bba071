"""A machine with simulated GPUs."""

from collections.abc import Hashable, Mapping
from pathlib import Path

from dra_node_agent.drivers.nvidia.devices import Gpu
from dra_node_agent.drivers.nvidia.host import (
    BINARIES,
    CAPS_MODE,
    CHANNELS,
    DEVICE_MODE,
    NVIDIA_MAJOR,
    CharDevice,
    PciGpu,
)
from dra_node_agent.nvml.library import NvmlLibrary, SimulatedNvml
from dra_node_agent.nvml.system import SimulatedSystem, caps_minor

# Each library with the number in the name by which programs load it, if it has one.
_SIMULATED_LIBRARIES = {
    "libcuda.so": "1",
    "libcudadebugger.so": "1",
    "libnvidia-allocator.so": "1",
    "libnvidia-cfg.so": "1",
    "libnvidia-gpucomp.so": None,
    "libnvidia-ml.so": "1",
    "libnvidia-nvvm.so": "4",
    "libnvidia-opencl.so": "1",
    "libnvidia-ptxjitcompiler.so": "1",
}
_SIMULATED_LIBRARY_DIR = "usr/lib/x86_64-linux-gnu"

# Character device majors of NVIDIA's kernel modules other than nvidia. They are not fixed.
_SIMULATED_UVM_MAJOR = 508
_SIMULATED_CAPS_MAJOR = 511
_SIMULATED_CHANNELS_MAJOR = 510
# The minor number of the IMEX management device. It follows those of MIG instances, of which 32 GPUs have 4320.
_SIMULATED_IMEX_MINOR = 4323
_CONTROL_MINORS = {"/dev/nvidia-modeset": 254, "/dev/nvidiactl": 255}

_DISPLAY, _COMPUTE = 0x0300, 0x0302
# NVML's brand names of GPUs that drive displays.
_WITH_DISPLAY = frozenset(("GeForce", "GeForceRTX", "NvidiaRTX", "Quadro", "QuadroRTX", "Titan", "TitanRTX"))
_SIMULATED_MACHINE = "dralab"
_STUB = "#!/bin/sh\nexit 0\n"


class SimulatedHost:
    """The machine of a simulated node.

    Args:
        driver_root: a directory for stand-ins of the driver's files, so that mounts of them have a source; it
            may be shared between nodes.
        builds: the discovered GPUs by the build of the machine, shared by hosts with equal GPUs.
    """

    def __init__(
        self, system: SimulatedSystem, driver_root: Path, builds: dict[Hashable, list[Gpu]] | None = None
    ) -> None:
        self.system = system
        self.nvml: NvmlLibrary = SimulatedNvml(system)
        self._root = driver_root.absolute()
        self._files: dict[str, list[tuple[str, str]]] = {}
        self._builds = {} if builds is None else builds

    def equal_gpus(self) -> list[Gpu] | None:
        return self._builds.get(self.system.build)

    def note_gpus(self, gpus: list[Gpu]) -> None:
        self._builds[self.system.build] = gpus

    def _gpu(self, pci_bus_id: str) -> int | None:
        return next((gpu.index for gpu in self.system.gpus if gpu.pci_bus_id == pci_bus_id), None)

    def pcie_root(self, pci_bus_id: str) -> str | None:
        index = self._gpu(pci_bus_id)
        return None if index is None else self.system.gpus[index].pcie_root

    def numa_node(self, pci_bus_id: str) -> int:
        index = self._gpu(pci_bus_id)
        return -1 if index is None else self.system.gpus[index].numa_node

    def pci_gpus(self) -> list[PciGpu]:
        return [
            PciGpu(
                address=gpu.pci_bus_id,
                name=gpu.model.name,
                device_id=gpu.model.pci_device_id >> 16,
                vendor_id=gpu.model.pci_device_id & 0xFFFF,
                numa_node=gpu.numa_node,
                iommu_group=20 + gpu.index,
                iommu_fd=f"vfio{gpu.index}",
                addressable_memory_bytes=_power_of_two_above(gpu.memory_bytes),
            )
            for gpu in sorted(self.system.gpus, key=lambda gpu: gpu.pci_bus_id)
        ]

    def pci_class(self, pci_bus_id: str) -> int:
        index = self._gpu(pci_bus_id)
        if index is None:
            return 0
        return _DISPLAY if self.system.gpus[index].model.brand in _WITH_DISPLAY else _COMPUTE

    def machine_type(self) -> str:
        return _SIMULATED_MACHINE

    def bind_vfio(self, pci_bus_id: str, bound: bool) -> None:
        index = self._gpu(pci_bus_id)
        if index is None:
            raise FileNotFoundError(f"no PCI device {pci_bus_id}")
        self.system.gpus[index].vfio = bound
        self.system.notify_change()

    def iommu_fd_enabled(self) -> bool:
        return True

    def gpu_node(self, minor: int) -> CharDevice:
        return CharDevice(f"/dev/nvidia{minor}", NVIDIA_MAJOR, minor, DEVICE_MODE)

    def control_nodes(self) -> list[CharDevice]:
        return [
            CharDevice(path, major, minor, DEVICE_MODE)
            for path, major, minor in (
                ("/dev/nvidia-modeset", NVIDIA_MAJOR, _CONTROL_MINORS["/dev/nvidia-modeset"]),
                ("/dev/nvidia-uvm", _SIMULATED_UVM_MAJOR, 0),
                ("/dev/nvidia-uvm-tools", _SIMULATED_UVM_MAJOR, 1),
                ("/dev/nvidiactl", NVIDIA_MAJOR, _CONTROL_MINORS["/dev/nvidiactl"]),
            )
        ]

    def caps_node(self, gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> CharDevice:
        minor = caps_minor(gpu_minor, gpu_instance, compute_instance)
        return CharDevice(f"/dev/nvidia-caps/nvidia-cap{minor}", _SIMULATED_CAPS_MAJOR, minor, CAPS_MODE)

    def gpu_modules(self) -> Mapping[str, int]:
        return {gpu.pci_bus_id: gpu.index + 1 for gpu in self.system.gpus}

    def has_switches(self) -> bool:
        return any(gpu.fabric is not None and not gpu.fabric.cluster.int for gpu in self.system.gpus)

    def imex_channel(self, number: int) -> CharDevice:
        return CharDevice(f"{CHANNELS}/channel{number}", _SIMULATED_CHANNELS_MAJOR, number, DEVICE_MODE)

    def imex_management(self) -> CharDevice:
        minor = _SIMULATED_IMEX_MINOR
        return CharDevice(f"/dev/nvidia-caps/nvidia-cap{minor}", _SIMULATED_CAPS_MAJOR, minor, CAPS_MODE)

    def check_imex(self, socket: str) -> None:
        if not self.system.imex_ready:
            raise OSError("host nvidia-imex daemon not ready: UNAVAILABLE\n")

    def driver_files(self, driver_version: str) -> list[tuple[str, str]]:
        if driver_version not in self._files:
            inside = [f"/usr/bin/{name}" for name in BINARIES]
            inside += [f"/{_SIMULATED_LIBRARY_DIR}/{name}.{driver_version}" for name in _SIMULATED_LIBRARIES]
            files = [(str(self._root) + path, path) for path in inside]
            for host, _ in [*files, (self.hook_path(), "")]:
                _stand_in(Path(host))
            self._files[driver_version] = files
        return self._files[driver_version]

    def library_dir(self) -> str:
        return f"/{_SIMULATED_LIBRARY_DIR}"

    def soname(self, library: str) -> str | None:
        name = library.rpartition("/")[2].partition(".so.")[0] + ".so"
        number = _SIMULATED_LIBRARIES.get(name)
        return f"{name}.{number}" if number else None

    def hook_path(self) -> str:
        return str(self._root / "usr/bin/nvidia-cdi-hook")


def _power_of_two_above(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _stand_in(path: Path) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_STUB)
        path.chmod(0o755)

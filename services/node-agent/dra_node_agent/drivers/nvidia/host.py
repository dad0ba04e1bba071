"""What the driver reads from a machine besides NVML: sysfs, the kernel driver's proc files, its libraries."""

import os
import re
import stat
import subprocess
import uuid
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dra_node_agent.drivers.nvidia.devices import Gpu
from dra_node_agent.nvml.library import NvmlLibrary, RealNvml, SimulatedNvml
from dra_node_agent.nvml.system import SimulatedSystem, caps_minor

_LIBRARY_DIRS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
_BINARIES = (
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-smi",
)
#: With the number in the name by which programs load them, where they have one of their own.
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

#: Character device majors of the NVIDIA kernel modules; only nvidia's own is fixed.
NVIDIA_MAJOR = 195
_SIMULATED_UVM_MAJOR = 508
_SIMULATED_CAPS_MAJOR = 511
_SIMULATED_CHANNELS_MAJOR = 510
# Behind those of MIG instances, of which 32 GPUs have 4320.
_SIMULATED_IMEX_MINOR = 4323
_CHANNELS = "/dev/nvidia-caps-imex-channels"
_CONTROL_MINORS = {"/dev/nvidia-modeset": 254, "/dev/nvidiactl": 255}

_DISPLAY, _COMPUTE = 0x0300, 0x0302
# By NVML's name of the brand: GPUs that drive displays.
_WITH_DISPLAY = frozenset(("GeForce", "GeForceRTX", "NvidiaRTX", "Quadro", "QuadroRTX", "Titan", "TitanRTX"))
_SIMULATED_MACHINE = "dralab"

_IMEX_CONTROL = "nvidia-imex-ctl"
_PROGRAM_DIRS = ("", "opt/bin", "usr/bin", "usr/sbin", "bin", "sbin")
_IMEX_SECONDS = 10.0

_DEVICE_MODE = 0o666
_CAPS_MODE = 0o444
_STUB = "#!/bin/sh\nexit 0\n"


@dataclass(frozen=True)
class CharDevice:
    """A character device node; numbers are 0 where the engine is to look at the node itself."""

    path: str
    major: int = 0
    minor: int = 0
    mode: int = 0


@dataclass(frozen=True)
class PciGpu:
    """An NVIDIA GPU on the PCI bus, whichever kernel driver holds it."""

    address: str
    name: str
    device_id: int
    vendor_id: int
    numa_node: int
    iommu_group: int
    iommu_fd: str
    addressable_memory_bytes: int


class Host(Protocol):
    """The machine that the driver runs on."""

    nvml: NvmlLibrary

    def equal_gpus(self) -> list[Gpu] | None:
        """The GPUs of a machine whose UUIDs alone are others, by index; None where none is known."""
        ...

    def note_gpus(self, gpus: list[Gpu]) -> None:
        """Remember the GPUs that NVML found on this one, for machines that are built the same way."""
        ...

    def pcie_root(self, pci_bus_id: str) -> str | None:
        """The PCIe root complex above the device, ``pci0000:64``, if it is known."""
        ...

    def numa_node(self, pci_bus_id: str) -> int:
        """The device's NUMA node, -1 if it has none."""
        ...

    def pci_gpus(self) -> list[PciGpu]:
        """All NVIDIA GPUs on the bus, by address."""
        ...

    def pci_class(self, pci_bus_id: str) -> int:
        """The device's class and subclass: 0x0300 for a display controller, 0x0302 for a 3D one; 0 if unknown."""
        ...

    def machine_type(self) -> str:
        """What the machine is, as its firmware says."""
        ...

    def bind_vfio(self, pci_bus_id: str, bound: bool) -> None:
        """Hand the device to vfio-pci, or back to the nvidia driver; raises OSError."""
        ...

    def iommu_fd_enabled(self) -> bool: ...

    def gpu_node(self, minor: int) -> CharDevice: ...

    def control_nodes(self) -> list[CharDevice]: ...

    def caps_node(self, gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> CharDevice:
        """The /dev/nvidia-caps node that guards a MIG instance; raises OSError if there is none."""
        ...

    def gpu_modules(self) -> Mapping[str, int]:
        """The GPUs' places on their baseboard, from one, by PCI address."""
        ...

    def has_switches(self) -> bool:
        """Whether the GPUs are behind NVLink switches of this machine."""
        ...

    def imex_channel(self, number: int) -> CharDevice:
        """A channel to the GPU memory of other nodes; raises OSError if the machine has none."""
        ...

    def imex_management(self) -> CharDevice:
        """The /dev/nvidia-caps node that an IMEX daemon needs; raises OSError if there is none."""
        ...

    def check_imex(self, socket: str) -> None:
        """Ask the machine's own IMEX daemon, which listens there; raises OSError unless it is ready."""
        ...

    def driver_files(self, driver_version: str) -> list[tuple[str, str]]:
        """(path on the host, path in containers) of the driver's libraries and programs."""
        ...

    def library_dir(self) -> str:
        """Where libcuda.so lies, as containers see it."""
        ...

    def soname(self, library: str) -> str | None:
        """The name under which programs load a library of the host: a link next to it, ``libcuda.so.1``."""
        ...

    def hook_path(self) -> str:
        """The nvidia-cdi-hook program."""
        ...


class SimulatedHost:
    """The machine of a simulated node.

    Args:
        driver_root: a directory for stand-ins of the driver's files, so that mounts of them have a source; it
            may be shared between nodes.
        builds: the GPUs of machines by how these are built, which hosts of one choice of GPUs share.
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
        self.system.changed()

    def iommu_fd_enabled(self) -> bool:
        return True

    def gpu_node(self, minor: int) -> CharDevice:
        return CharDevice(f"/dev/nvidia{minor}", NVIDIA_MAJOR, minor, _DEVICE_MODE)

    def control_nodes(self) -> list[CharDevice]:
        return [
            CharDevice(path, major, minor, _DEVICE_MODE)
            for path, major, minor in (
                ("/dev/nvidia-modeset", NVIDIA_MAJOR, _CONTROL_MINORS["/dev/nvidia-modeset"]),
                ("/dev/nvidia-uvm", _SIMULATED_UVM_MAJOR, 0),
                ("/dev/nvidia-uvm-tools", _SIMULATED_UVM_MAJOR, 1),
                ("/dev/nvidiactl", NVIDIA_MAJOR, _CONTROL_MINORS["/dev/nvidiactl"]),
            )
        ]

    def caps_node(self, gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> CharDevice:
        minor = caps_minor(gpu_minor, gpu_instance, compute_instance)
        return CharDevice(f"/dev/nvidia-caps/nvidia-cap{minor}", _SIMULATED_CAPS_MAJOR, minor, _CAPS_MODE)

    def gpu_modules(self) -> Mapping[str, int]:
        return {gpu.pci_bus_id: gpu.index + 1 for gpu in self.system.gpus}

    def has_switches(self) -> bool:
        return any(gpu.fabric is not None and not gpu.fabric.cluster.int for gpu in self.system.gpus)

    def imex_channel(self, number: int) -> CharDevice:
        return CharDevice(f"{_CHANNELS}/channel{number}", _SIMULATED_CHANNELS_MAJOR, number, _DEVICE_MODE)

    def imex_management(self) -> CharDevice:
        minor = _SIMULATED_IMEX_MINOR
        return CharDevice(f"/dev/nvidia-caps/nvidia-cap{minor}", _SIMULATED_CAPS_MAJOR, minor, _CAPS_MODE)

    def check_imex(self, socket: str) -> None:
        if not self.system.imex_ready:
            raise OSError("host nvidia-imex daemon not ready: UNAVAILABLE\n")

    def driver_files(self, driver_version: str) -> list[tuple[str, str]]:
        if driver_version not in self._files:
            inside = [f"/usr/bin/{name}" for name in _BINARIES]
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


class RealHost:
    """The machine itself.

    Args:
        driver_root: where the NVIDIA driver is installed, as in ``/`` or ``/run/nvidia/driver``.

    Raises:
        NVMLError: there is no NVIDIA driver.
    """

    def __init__(self, driver_root: Path = Path("/"), hook: str = "/usr/bin/nvidia-cdi-hook") -> None:
        self.nvml: NvmlLibrary = RealNvml()
        self._root = driver_root
        self._hook = hook

    def equal_gpus(self) -> list[Gpu] | None:
        return None

    def note_gpus(self, gpus: list[Gpu]) -> None:
        """Nothing: the process sees no other machine."""

    def pcie_root(self, pci_bus_id: str) -> str | None:
        match = re.search(r"/(pci[0-9a-f]{4}:[0-9a-f]{2})(/|$)", str(_pci(pci_bus_id).resolve()))
        return match[1] if match else None

    def numa_node(self, pci_bus_id: str) -> int:
        try:
            return int((_pci(pci_bus_id) / "numa_node").read_text())
        except (OSError, ValueError):
            return -1

    def pci_gpus(self) -> list[PciGpu]:
        found = []
        for path in sorted(Path("/sys/bus/pci/devices").glob("*")):
            try:
                vendor = int((path / "vendor").read_text(), 16)
                if vendor != 0x10DE or (path / "class").read_text()[:6] not in ("0x0300", "0x0302"):
                    continue
                group = (path / "iommu_group").resolve().name
                cdevs = [p.name for p in (path / "vfio-dev").glob("vfio*")]
                found.append(
                    PciGpu(
                        address=path.name,
                        name=f"NVIDIA {(path / 'device').read_text().strip()}",
                        device_id=int((path / "device").read_text(), 16),
                        vendor_id=vendor,
                        numa_node=self.numa_node(path.name),
                        iommu_group=int(group) if group.isdigit() else -1,
                        iommu_fd=cdevs[0] if cdevs else "",
                        addressable_memory_bytes=_total_bars((path / "resource").read_text().splitlines()),
                    )
                )
            except (OSError, ValueError):
                continue
        return found

    def pci_class(self, pci_bus_id: str) -> int:
        try:
            return int((_pci(pci_bus_id) / "class").read_text(), 16) >> 8
        except (OSError, ValueError):
            return 0

    def machine_type(self) -> str:
        try:
            return Path("/sys/class/dmi/id/product_name").read_text().strip()
        except OSError:
            return "unknown"

    def bind_vfio(self, pci_bus_id: str, bound: bool) -> None:
        device = _pci(pci_bus_id)
        (device / "driver_override").write_text("vfio-pci" if bound else "\n")
        if (device / "driver").exists():
            (device / "driver" / "unbind").write_text(pci_bus_id)
        Path("/sys/bus/pci/drivers_probe").write_text(pci_bus_id)

    def iommu_fd_enabled(self) -> bool:
        return Path("/dev/iommu").exists()

    def gpu_node(self, minor: int) -> CharDevice:
        return _char_device(f"/dev/nvidia{minor}")

    def control_nodes(self) -> list[CharDevice]:
        names = ("nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl")
        return [_char_device(f"/dev/{name}") for name in names if Path(f"/dev/{name}").exists()]

    def caps_node(self, gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> CharDevice:
        where = f"gpu{gpu_minor}/mig/gi{gpu_instance}"
        if compute_instance is not None:
            where += f"/ci{compute_instance}"
        return _capability(f"{where}/access")

    def gpu_modules(self) -> Mapping[str, int]:
        """None: a real Fabric Manager would have to be asked for the partitions."""
        return {}

    def has_switches(self) -> bool:
        return False

    def imex_channel(self, number: int) -> CharDevice:
        return CharDevice(
            f"{_CHANNELS}/channel{number}", _major("nvidia-caps-imex-channels"), number, _DEVICE_MODE
        )

    def imex_management(self) -> CharDevice:
        return _capability("fabric-imex-mgmt")

    def check_imex(self, socket: str) -> None:
        if not any((self._root / folder / _IMEX_CONTROL).is_file() for folder in _PROGRAM_DIRS):
            raise OSError(
                f'{_IMEX_CONTROL} not found under driver root "{self._root}": error locating "{_IMEX_CONTROL}" '
                "(is nvidia-imex installed on this node?)"
            )
        command = ["chroot", str(self._root), _IMEX_CONTROL, "-q", f"--u={socket}"]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_IMEX_SECONDS,
        )
        if done.returncode:
            raise OSError(
                f'error running {_IMEX_CONTROL} (socket "{socket}"): exit status {done.returncode}, '
                f"output: {done.stdout}"
            )
        if "READY" not in done.stdout:
            raise OSError(f"host nvidia-imex daemon not ready: {done.stdout}")

    def driver_files(self, driver_version: str) -> list[tuple[str, str]]:
        paths = [p for name in _BINARIES if (p := self._root / "usr/bin" / name).exists()]
        for directory in _LIBRARY_DIRS:
            paths += sorted((self._root / directory).glob(f"*.so.{driver_version}"))
        return [(str(path), "/" + str(path.relative_to(self._root))) for path in paths]

    def library_dir(self) -> str:
        for directory in _LIBRARY_DIRS:
            if any((self._root / directory).glob("libcuda.so.*")):
                return "/" + directory
        return "/" + _LIBRARY_DIRS[0]

    def soname(self, library: str) -> str | None:
        path = Path(library)
        base = path.name.partition(".so.")[0]
        links = (link for link in sorted(path.parent.glob(f"{base}.so.*")) if link.is_symlink())
        pattern = re.compile(re.escape(base) + r"\.so\.\d+")
        return next(
            (x.name for x in links if pattern.fullmatch(x.name) and x.resolve() == path.resolve()), None
        )

    def hook_path(self) -> str:
        return self._hook


def vfio_uuid(pci_bus_id: str) -> str:
    """A passthrough device's UUID: derived from its address, so that it is always the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, pci_bus_id))


def _char_device(path: str) -> CharDevice:
    try:
        info = os.stat(path)
    except OSError:
        return CharDevice(path)
    return CharDevice(path, os.major(info.st_rdev), os.minor(info.st_rdev), stat.S_IMODE(info.st_mode))


def _capability(name: str) -> CharDevice:
    path = Path("/proc/driver/nvidia/capabilities", name)
    text = path.read_text()
    match = re.search(r"DeviceFileMinor: *(\d+)", text)
    if match is None:
        raise OSError(f"no DeviceFileMinor in {path}")
    mode = re.search(r"DeviceFileMode: *(\d+)", text)
    return CharDevice(
        f"/dev/nvidia-caps/nvidia-cap{match[1]}",
        _major("nvidia-caps"),
        int(match[1]),
        int(mode[1]) if mode else _CAPS_MODE,
    )


def _pci(pci_bus_id: str) -> Path:
    return Path("/sys/bus/pci/devices") / pci_bus_id


def _major(name: str) -> int:
    for line in Path("/proc/devices").read_text().partition("Block devices:")[0].splitlines():
        number, _, device = line.strip().partition(" ")
        if device == name:
            return int(number)
    raise OSError(f"{name} is not in /proc/devices")


def _total_bars(lines: Iterable[str]) -> int:
    total = 0
    for line in lines:
        start, end, _ = (int(part, 16) for part in line.split())
        if end:
            total += end - start + 1
    return total


def _power_of_two_above(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _stand_in(path: Path) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_STUB)
        path.chmod(0o755)

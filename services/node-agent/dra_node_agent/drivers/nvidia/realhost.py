"""A machine with real GPUs."""

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from dra_node_agent.drivers.nvidia.devices import Gpu
from dra_node_agent.drivers.nvidia.host import BINARIES, CAPS_MODE, CHANNELS, DEVICE_MODE, CharDevice, PciGpu
from dra_node_agent.nvml.library import NvmlLibrary, RealNvml

_LIBRARY_DIRS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
_IMEX_CONTROL = "nvidia-imex-ctl"
_PROGRAM_DIRS = ("", "opt/bin", "usr/bin", "usr/sbin", "bin", "sbin")
_IMEX_SECONDS = 10.0


class RealHost:
    """The machine that this process runs on, with its real GPUs.

    Args:
        driver_root: the directory where the NVIDIA driver is installed, such as ``/`` or ``/run/nvidia/driver``.

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
        """No-op: a real host has only its own GPUs."""

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
        """Return no modules: the partitions would have to be queried from a real Fabric Manager."""
        return {}

    def has_switches(self) -> bool:
        return False

    def imex_channel(self, number: int) -> CharDevice:
        return CharDevice(
            f"{CHANNELS}/channel{number}", _major("nvidia-caps-imex-channels"), number, DEVICE_MODE
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
        paths = [p for name in BINARIES if (p := self._root / "usr/bin" / name).exists()]
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
        int(mode[1]) if mode else CAPS_MODE,
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

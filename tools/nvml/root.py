"""``python -m tools.nvml.root 2xT4 DIR``: make DIR a driver root with libnvidia-ml.so for simulated whole GPUs.

The library is compiled with ``cc``. Creating device nodes needs root. docs/conformance.md and
docs/compute-domains.md use it with NVIDIA's DRA drivers.
"""

import argparse
import os
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pynvml
from dra_node_agent.drivers.nvidia.host import NVIDIA_MAJOR
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.fabricfunctions import HEALTH_MASK
from dra_node_agent.nvml.node import open_system
from dra_node_agent.nvml.system import CUDA_DRIVER_VERSION, DRIVER_VERSION, SimulatedGpu

_SOURCE = Path(__file__).with_name("library.c")
_EMPTY_PROGRAM = "#!/bin/sh\n"
# /proc/devices with the majors, and the capability that an IMEX daemon needs.
_PROC_DEVICES = """\
Character devices:
{nvidia} nvidia
{channels} nvidia-caps-imex-channels
{caps} nvidia-caps

Block devices:
"""
_IMEX_MANAGEMENT = "DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n"


def make(gpus: Sequence[SimulatedGpu], root: Path) -> Path:
    """Write libnvidia-ml.so and the other files that drivers look for into root. Return the library's path.

    Raises:
        subprocess.CalledProcessError: the compiler fails.
    """
    libraries, programs = root / "usr/lib64", root / "usr/bin"
    for folder in (libraries, programs):
        folder.mkdir(parents=True, exist_ok=True)
    library = libraries / f"libnvidia-ml.so.{DRIVER_VERSION}"
    with tempfile.TemporaryDirectory() as tables:
        Path(tables, "gpus.h").write_text(_table(gpus))
        words = [
            "cc",
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Werror",
            "-I",
            tables,
            "-o",
            str(library),
            str(_SOURCE),
        ]
        subprocess.run(words, check=True)
    # NVIDIA's CDI library takes the driver's version from this name.
    (libraries / f"libcuda.so.{DRIVER_VERSION}").touch()
    for name in ("libnvidia-ml.so", "libcuda.so"):
        link = libraries / f"{name}.1"
        link.unlink(missing_ok=True)
        link.symlink_to(f"{name}.{DRIVER_VERSION}")
    for name in ("nvidia-smi", "nvidia-cdi-hook"):
        (programs / name).write_text(_EMPTY_PROGRAM)
        (programs / name).chmod(0o755)
    return library


def make_kernel_files(host: SimulatedHost, root: Path) -> Path:
    """Write the kernel's files about IMEX channels and capabilities.

    Return the stand-in for /proc/devices, whose path programs read from ALT_PROC_DEVICES_PATH.
    """
    channel, management = host.imex_channel(0), host.imex_management()
    folder = root / "proc/driver/nvidia/capabilities"
    folder.mkdir(parents=True, exist_ok=True)
    text = _IMEX_MANAGEMENT.format(minor=management.minor, mode=management.mode)
    (folder / "fabric-imex-mgmt").write_text(text)
    devices = root / "proc/devices"
    devices.write_text(
        _PROC_DEVICES.format(nvidia=NVIDIA_MAJOR, channels=channel.major, caps=management.major)
    )
    return devices


def make_devices(gpus: Sequence[SimulatedGpu], root: Path) -> None:
    """Create the device nodes. They must be character devices, because NVIDIA's CDI library ignores other files.

    Raises:
        PermissionError: the process is not root.
    """
    folder = root / "dev"
    folder.mkdir(parents=True, exist_ok=True)
    minors = {"nvidiactl": 255, **{f"nvidia{gpu.index}": gpu.index for gpu in gpus}}
    for name, minor in minors.items():
        (folder / name).unlink(missing_ok=True)
        os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(NVIDIA_MAJOR, minor))


def _table(gpus: Sequence[SimulatedGpu]) -> str:
    entries = ",\n".join(_entry(gpu) for gpu in gpus)
    return (
        f'#define DRIVER_VERSION "{DRIVER_VERSION}"\n'
        f"#define CUDA_VERSION {CUDA_DRIVER_VERSION}\n"
        f"#define FABRIC_HEALTH {HEALTH_MASK}\n"
        f"static struct gpu GPUS[] = {{\n{entries}\n}};\n"
    )


def _entry(gpu: SimulatedGpu) -> str:
    model = gpu.model
    architecture = getattr(pynvml, f"NVML_DEVICE_ARCH_{model.architecture.upper()}", 0xFFFFFFFF)
    brand = getattr(pynvml, f"NVML_BRAND_{model.brand.upper()}", 0)
    major, minor = model.cuda_compute_capability.split(".")
    numbers = (
        f"{model.memory_mib}ull << 20",
        gpu.pci_domain,
        gpu.pci_bus,
        f"{model.pci_device_id}u",
        f"{architecture}u",
        brand,
        gpu.numa_node,
        major,
        minor,
        0,
    )
    texts = (gpu.uuid, model.name, gpu.nvml_bus_id)
    member = gpu.fabric
    cluster = bytes(16) if member is None else member.cluster.bytes
    fabric = (
        str(int(member is not None)),
        "{" + ", ".join(map(str, cluster)) + "}",
        f"{0 if member is None else member.clique}u",
    )
    return "{" + ", ".join([*(f'"{text}"' for text in texts), *map(str, numbers), *fabric]) + "}"


def main() -> None:
    """Create the driver root."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpus", help="the GPUs, in the form of `dralab up --gpus`, such as 2xT4")
    parser.add_argument("root", type=Path)
    parser.add_argument("--node", default="node-0", help="the node whose GPUs these are")
    chosen = parser.parse_args()
    system = open_system(chosen.gpus, chosen.node)
    print(make(system.gpus, chosen.root))
    print(make_kernel_files(SimulatedHost(system, chosen.root), chosen.root))
    make_devices(system.gpus, chosen.root)


if __name__ == "__main__":
    main()

"""The library of simulated GPUs for programs that load libnvidia-ml.so themselves."""

import ctypes
import shutil
from pathlib import Path

import pytest
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.node import open_system, parse_gpus

from tools.nvml.root import make, make_kernel_files


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_program_that_loads_the_nvml_library_finds_the_simulated_gpus(tmp_path: Path) -> None:
    gpus = parse_gpus("1xT4, 1xA100-SXM4-40GB:whole", "node-0")
    make(gpus, tmp_path)
    nvml = ctypes.CDLL(str(tmp_path / "usr/lib64/libnvidia-ml.so.1"))
    assert nvml.nvmlInit_v2() == 0
    count = ctypes.c_uint()
    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert count.value == len(gpus)
    for gpu in gpus:
        device, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        assert nvml.nvmlDeviceGetHandleByUUID(gpu.uuid.encode(), ctypes.byref(device)) == 0
        assert nvml.nvmlDeviceGetName(device, text, 96) == 0
        assert text.value.decode() == gpu.model.name
        assert nvml.nvmlDeviceGetName(device, text, 2) == 7
        memory = (ctypes.c_ulonglong * 3)()
        assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
        assert list(memory) == [gpu.model.memory_mib << 20, gpu.model.memory_mib << 20, 0]
    assert nvml.nvmlDeviceGetHandleByUUID(b"GPU-0", ctypes.byref(ctypes.c_void_p())) == 6


class _Fabric(ctypes.Structure):
    """nvmlGpuFabricInfo_t."""

    _fields_ = (
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_int),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_gpus_of_a_rack_are_in_its_fabric(tmp_path: Path) -> None:
    gpus = parse_gpus("1xGB200,1xT4", "node-3")
    make(gpus, tmp_path)
    nvml = ctypes.CDLL(str(tmp_path / "usr/lib64/libnvidia-ml.so.1"))
    found, device = _Fabric(), ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByUUID(gpus[0].uuid.encode(), ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetGpuFabricInfo(device, ctypes.byref(found)) == 0
    assert gpus[0].fabric is not None
    assert (bytes(found.cluster), found.clique) == (gpus[0].fabric.cluster.bytes, gpus[0].fabric.clique)
    assert found.state == 3
    assert nvml.nvmlDeviceGetHandleByUUID(gpus[1].uuid.encode(), ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetGpuFabricInfo(device, ctypes.byref(found)) == 3


def test_files_of_the_kernel_are_those_of_simulated_nodes(tmp_path: Path) -> None:
    host = SimulatedHost(open_system("1xGB200", "node-0"), tmp_path)
    devices = make_kernel_files(host, tmp_path).read_text()
    assert f"\n{host.imex_channel(0).major} nvidia-caps-imex-channels\n" in devices
    text = (tmp_path / "proc/driver/nvidia/capabilities/fabric-imex-mgmt").read_text()
    assert f"DeviceFileMinor: {host.imex_management().minor}\n" in text

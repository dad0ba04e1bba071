"""The library of simulated GPUs for programs that load libnvidia-ml.so themselves."""

import ctypes
import shutil
from pathlib import Path

import pytest
from dra_node_agent.nvml.node import parse_gpus

from tools.nvml.root import make


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_program_sees_the_simulated_gpus(tmp_path: Path) -> None:
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

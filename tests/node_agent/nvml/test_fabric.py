"""NVLink fabrics as the real pynvml reads them."""

import ctypes
import uuid

import pynvml
import pytest
from dra_node_agent.nvml.library import SimulatedNvml
from dra_node_agent.nvml.node import open_system

from tests.support.cases import each_case


def _fabric(gpus: str, node: str, index: int = 0) -> tuple[uuid.UUID, int]:
    with SimulatedNvml(open_system(gpus, node)).active():
        pynvml.nvmlInit()
        info = pynvml.c_nvmlGpuFabricInfo_t()
        pynvml.nvmlDeviceGetGpuFabricInfo(pynvml.nvmlDeviceGetHandleByIndex(index), ctypes.byref(info))
    assert (info.state, info.status) == (pynvml.NVML_GPU_FABRIC_STATE_COMPLETED, pynvml.NVML_SUCCESS)
    return uuid.UUID(bytes=bytes(info.clusterUuid)), info.cliqueId


def test_eighteen_nodes_with_four_gpus_each_are_one_nvlink_rack() -> None:
    first = _fabric("4xGB200", "gb-0")
    assert first[0].int
    assert first[1] == 32766
    assert [
        _fabric("4xGB200", f"gb-{number}", index) == first for number, index in ((0, 3), (17, 1), (18, 0))
    ] == [
        True,
        True,
        False,
    ]
    assert _fabric("4xGB200", "gb-35") == _fabric("4xGB200", "gb-18")


def test_racks_of_differently_named_nodes_and_models_are_different() -> None:
    places = [
        _fabric("4xGB200", "gb-0"),
        _fabric("4xGB200", "other-0"),
        _fabric("4xGB300", "gb-0"),
        _fabric("1xGH200-NVL32", "gb-0"),
    ]
    assert len(set(places)) == len(places)
    assert _fabric("1xGH200-NVL32", "gb-31") == places[3] != _fabric("1xGH200-NVL32", "gb-32")


def test_the_fabric_of_a_single_machine_has_no_cluster_uuid() -> None:
    assert _fabric("8xH100", "node-0") == (uuid.UUID(int=0), 0)


@each_case("model", ["GH200", "H100-PCIe", "H100-NVL", "RTX-PRO-6000", "L40S", "T4"])
def test_gpus_without_switches_have_no_fabric(model: str) -> None:
    with pytest.raises(pynvml.NVMLError_NotSupported):
        _fabric(f"1x{model}", "node-0")


def test_later_versions_report_the_health_of_the_fabric() -> None:
    with SimulatedNvml(open_system("4xGB300", "gb-0")).active():
        pynvml.nvmlInit()
        info = pynvml.c_nvmlGpuFabricInfo_v3_t()
        pynvml.nvmlDeviceGetGpuFabricInfoV(pynvml.nvmlDeviceGetHandleByIndex(0), ctypes.byref(info))
    assert info.cliqueId == 32766
    assert info.healthSummary == pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY
    bandwidth = info.healthMask & pynvml.NVML_GPU_FABRIC_HEALTH_MASK_WIDTH_DEGRADED_BW
    assert bandwidth == pynvml.NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE


def test_gpus_of_a_gb200_node_have_the_pci_addresses_and_numa_nodes_of_real_ones() -> None:
    with SimulatedNvml(open_system("4xGB200", "gb-0")).active():
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(4)]
        assert [pynvml.nvmlDeviceGetPciInfo(handle).busId for handle in handles] == [
            f"0000{domain}:06:00.0" for domain in ("0008", "0009", "0018", "0019")
        ]
        assert [pynvml.nvmlDeviceGetNumaNodeId(handle) for handle in handles] == [0, 0, 1, 1]

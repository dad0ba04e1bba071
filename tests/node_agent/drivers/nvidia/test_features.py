"""Labels of nodes with GPUs are those of gpu-feature-discovery."""

import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.features import node_labels
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.node import open_system

_STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def _labels(directory: Path, gpus: str) -> dict[str, str]:
    host = SimulatedHost(open_system(gpus, "node-0"), directory)
    return node_labels(DeviceLibrary(host, NvidiaGates.parse("")), _STARTED)


def test_whole_gpus_have_the_labels_of_feature_discovery(tmp_path: Path) -> None:
    assert _labels(tmp_path, "2xH100") == {
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/pci-0302_10de.present": "true",
        "nvidia.com/cuda.driver.major": "580",
        "nvidia.com/cuda.driver.minor": "95",
        "nvidia.com/cuda.driver.rev": "05",
        "nvidia.com/cuda.runtime.major": "13",
        "nvidia.com/cuda.runtime.minor": "0",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/cuda.driver-version.minor": "95",
        "nvidia.com/cuda.driver-version.revision": "05",
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/cuda.runtime-version.major": "13",
        "nvidia.com/cuda.runtime-version.minor": "0",
        "nvidia.com/cuda.runtime-version.full": "13.0",
        "nvidia.com/gfd.timestamp": "1767225600",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.machine": "dralab",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/vgpu.present": "false",
    }


def test_nodes_in_a_rack_carry_its_clique(tmp_path: Path) -> None:
    labels = _labels(tmp_path, "4xGB200")
    cluster, _, clique = labels["nvidia.com/gpu.clique"].partition(".")
    assert uuid.UUID(cluster).int
    assert clique == "32766"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-GB200"
    assert "nvidia.com/gpu.clique" not in _labels(tmp_path, "8xB200")


def test_labels_count_mig_devices_separately(tmp_path: Path) -> None:
    labels = _labels(tmp_path, "8xA100-SXM4-40GB:half-balanced")
    assert labels["nvidia.com/gpu.count"] == "8"
    assert labels["nvidia.com/gpu.replicas"] == "1"
    assert {key: value for key, value in labels.items() if key.startswith("nvidia.com/mig-1g.5gb.")} == {
        "nvidia.com/mig-1g.5gb.count": "8",
        "nvidia.com/mig-1g.5gb.engines.copy": "1",
        "nvidia.com/mig-1g.5gb.engines.decoder": "0",
        "nvidia.com/mig-1g.5gb.engines.encoder": "0",
        "nvidia.com/mig-1g.5gb.engines.jpeg": "0",
        "nvidia.com/mig-1g.5gb.engines.ofa": "0",
        "nvidia.com/mig-1g.5gb.memory": "4864",
        "nvidia.com/mig-1g.5gb.multiprocessors": "14",
        "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "nvidia.com/mig-1g.5gb.replicas": "1",
        "nvidia.com/mig-1g.5gb.sharing-strategy": "none",
        "nvidia.com/mig-1g.5gb.slices.ci": "1",
        "nvidia.com/mig-1g.5gb.slices.gi": "1",
    }
    assert labels["nvidia.com/mig-3g.20gb.count"] == "4"


def test_the_replicas_label_is_0_if_all_gpus_are_divided_by_mig(tmp_path: Path) -> None:
    labels = _labels(tmp_path, "2xA100-SXM4-40GB:3g.20gb+3g.20gb")
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.replicas"]) == ("2", "0")


@pytest.mark.parametrize(
    ("gpus", "family", "capable"),
    [
        ("1xT4", "turing", "false"),
        ("1xV100", "volta", "false"),
        ("1xL4", "ada-lovelace", "false"),
        ("1xA30", "ampere", "true"),
        ("1xB200", "blackwell", "true"),
    ],
)
def test_family_and_mig_capability_are_labels(tmp_path: Path, gpus: str, family: str, capable: str) -> None:
    labels = _labels(tmp_path, gpus)
    assert (labels["nvidia.com/gpu.family"], labels["nvidia.com/mig.capable"]) == (family, capable)

"""The partitions of a machine's NVLink switches."""

from pathlib import Path

import pytest
from dra_driverkit.errors import PrepareError
from dra_node_agent.drivers.nvidia.fabricmanager import FabricPartitions
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.node import open_system


def partitions(directory: Path, gpus: str) -> tuple[FabricPartitions, list[str]]:
    host = SimulatedHost(open_system(gpus, "node-0"), directory)
    modules = host.gpu_modules()
    return FabricPartitions(modules, switched=host.has_switches()), list(modules)


def test_each_gpu_is_in_one_nvlink_partition_of_each_size(tmp_path: Path) -> None:
    fabric, addresses = partitions(tmp_path, "8xH100")
    found = [
        {name: attribute.int_ for name, attribute in fabric.attributes(address).items()}
        for address in addresses
    ]
    assert found[0] == {"gpuModuleID": 1, "partition8": 0, "partition4": 1, "partition2": 3, "partition1": 7}
    assert found[2] == {"gpuModuleID": 3, "partition8": 0, "partition4": 1, "partition2": 3, "partition1": 9}
    assert found[7] == {"gpuModuleID": 8, "partition8": 0, "partition4": 2, "partition2": 6, "partition1": 14}


def test_the_gpus_of_a_claim_must_form_an_nvlink_partition(tmp_path: Path) -> None:
    fabric, gpus = partitions(tmp_path, "8xH100")
    assert fabric.activate([gpus[2], gpus[0]]) == 3
    assert fabric.activate(gpus) == 0
    assert fabric.activate([]) is None
    with pytest.raises(PrepareError, match=r"GPU module set \[1 2\] does not match any FM partition"):
        fabric.activate(gpus[:2])


@pytest.mark.parametrize(("gpus", "names"), [("4xGB200", ["gpuModuleID"]), ("2xT4", ["gpuModuleID"])])
def test_a_machine_without_switches_has_no_partitions(tmp_path: Path, gpus: str, names: list[str]) -> None:
    fabric, addresses = partitions(tmp_path, gpus)
    assert list(fabric.attributes(addresses[0])) == names
    assert fabric.activate(addresses[:2]) is None


def test_a_smaller_machine_has_smaller_partitions(tmp_path: Path) -> None:
    fabric, gpus = partitions(tmp_path, "4xH100")
    assert list(fabric.attributes(gpus[0])) == ["gpuModuleID", "partition4", "partition1"]
    assert fabric.activate(gpus[1:2]) == 2

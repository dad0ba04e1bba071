"""Machines with equal GPUs: NVML is queried for everything once, and for the UUIDs of each."""

from collections.abc import Callable, Hashable
from pathlib import Path

import pytest
from dra_node_agent.drivers.nvidia.devices import Gpu
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary, DiscoveryError
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.node import open_system
from dra_node_agent.nvml.simulated import SimulatedLibrary
from dra_node_agent.nvml.system import SimulatedSystem

_Builds = dict[Hashable, list[Gpu]]


def _library(system: SimulatedSystem, directory: Path, builds: _Builds | None = None) -> DeviceLibrary:
    return DeviceLibrary(SimulatedHost(system, directory, builds), NvidiaGates.parse("DynamicMIG=true"))


@pytest.mark.parametrize("gpus", ["8xH100", "2xA100-SXM4-40GB", "4xGB200", "1xL4"])
def test_gpus_of_an_equal_machine_are_those_that_nvml_reports(tmp_path: Path, gpus: str) -> None:
    builds: _Builds = {}
    for name in ("node-0", "node-1"):
        shared = _library(open_system(gpus, name), tmp_path, builds).enumerate()
        assert shared == _library(open_system(gpus, name), tmp_path).enumerate()
    assert len(builds) == 1


def test_only_uuids_are_queried_from_nvml_on_a_machine_equal_to_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    call = SimulatedLibrary.call

    def count_call(self: SimulatedLibrary, name: str, arguments: tuple[object, ...]) -> int:
        calls.append(name)
        return call(self, name, arguments)

    monkeypatch.setattr(SimulatedLibrary, "call", count_call)
    builds: _Builds = {}
    _library(open_system("8xH100", "node-0"), tmp_path, builds).gpus()
    calls.clear()
    _library(open_system("8xH100", "node-1"), tmp_path, builds).gpus()
    assert calls == ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"] * 8


def _lose(system: SimulatedSystem) -> None:
    system.lose(0)


def _passed_through(system: SimulatedSystem) -> None:
    system.gpus[0].vfio = True


def _mig(system: SimulatedSystem) -> None:
    system.gpus[0].set_mig_mode(True)


@pytest.mark.parametrize("change", [_lose, _passed_through, _mig])
def test_nvml_is_queried_again_on_a_machine_with_other_gpus(
    tmp_path: Path, change: Callable[[SimulatedSystem], None]
) -> None:
    builds: _Builds = {}
    system = open_system("2xH100", "node-0")
    _library(system, tmp_path, builds).gpus()
    change(system)

    def discover(known: _Builds | None) -> list[Gpu] | str:
        try:
            return _library(system, tmp_path, known).gpus()
        except DiscoveryError as error:
            return str(error)

    assert discover(builds) == discover(None)

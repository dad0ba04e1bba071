"""The NVIDIA driver with the real GPUs of this machine. Skipped if there are none."""

from pathlib import Path

import pytest
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.devices import Gpu
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.realhost import RealHost
from dra_node_agent.drivers.nvidia.state import DeviceState
from dra_node_agent.nvml.library import has_gpus

from tests.driverkit.cdi.schema import check_file
from tests.driverkit.claims import claim, ref

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpus(), reason="no NVIDIA GPU on this machine"),
]


def test_real_gpus_are_published_and_prepared(tmp_path: Path) -> None:
    gates = NvidiaGates()
    library = DeviceLibrary(RealHost(), gates)
    plugin, cdi = tmp_path / "plugin", tmp_path / "cdi"
    plugin.mkdir()
    cdi.mkdir()
    state = DeviceState(library, gates, plugin, cdi)
    state.open()
    (slice_,) = Announcer(gates).resources("node", state.per_gpu, {}, False).pools["node"].slices
    assert slice_.devices
    gpu = next(d for found in state.per_gpu.values() for d in found.values() if isinstance(d, Gpu))
    published = next(device for device in slice_.devices if device.name == gpu.name)
    assert published.attributes["uuid"].string == gpu.uuid
    assert published.attributes["cudaComputeCapability"].version is not None
    assert published.capacity["memory"].value != "0"
    wanted = claim("uid-1", gpu.name)
    state.prepare(wanted)
    (path,) = cdi.iterdir()
    document = check_file(path)
    nodes = document["devices"][0]["containerEdits"]["deviceNodes"]
    assert [node["path"] for node in nodes] == [f"/dev/nvidia{gpu.minor}"]
    state.unprepare(ref(wanted))
    assert not list(cdi.iterdir())


def test_real_mig_profiles_have_names() -> None:
    library = DeviceLibrary(RealHost(), NvidiaGates())
    for gpu in library.gpus():
        for mig in library.mig_devices(gpu):
            assert mig.profile_name.partition("g.")[0].isdigit()
        assert bool(gpu.profiles) <= gpu.mig_capable

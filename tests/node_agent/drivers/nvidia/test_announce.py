"""Published devices for every kind of GPU and setting."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.resources import DriverResources, Pool, PoolSlice
from dra_driverkit.serverversion import join_counters
from dra_node_agent.drivers.nvidia import discovery
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.devices import GiProfile, Gpu
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.node import open_system
from dra_shared.api.resource import Device, DeviceTaint

from tests.support.cases import each_case


def _publish(
    directory: Path,
    gpus: str,
    gates: str = "",
    shares: str = "",
    *,
    taints: dict[str, tuple[DeviceTaint, ...]] | None = None,
) -> tuple[PoolSlice, ...]:
    parsed = NvidiaGates.parse(gates)
    library = DeviceLibrary(SimulatedHost(open_system(gpus, "node-0"), directory), parsed)
    found = library.enumerate()
    partitioned = parsed.is_enabled("DynamicMIG") and library.has_mig_capable()
    resources = Announcer(parsed, shares).resources("node-0", found, taints or {}, partitioned)
    (pool,) = resources.pools.values()
    return pool.slices


def _attributes(device: Device) -> dict[str, object]:
    plain = msgspec.to_builtins(device.attributes)
    return {name: next(iter(value.values())) for name, value in plain.items()}


def _capacity(device: Device) -> dict[str, str]:
    return {name: capacity.value for name, capacity in device.capacity.items()}


def test_a_gpu_is_published_with_its_attributes(tmp_path: Path) -> None:
    (slice_,) = _publish(tmp_path, "1xH100")
    (gpu,) = slice_.devices
    assert gpu.name == "gpu-0"
    assert _attributes(gpu) == {
        "type": "gpu",
        "uuid": open_system("1xH100", "node-0").gpus[0].uuid,
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": "9.0.0",
        "driverVersion": "580.95.5",
        "cudaDriverVersion": "13.0.0",
        "addressingMode": "HMM",
        "resource.kubernetes.io/pciBusID": "0000:07:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:06",
        "resource.kubernetes.io/numaNode": 0,
    }
    assert gpu.attributes["cudaComputeCapability"].version == "9.0.0"
    assert _capacity(gpu) == {"memory": "81559Mi"}
    assert gpu.consumes_counters == ()
    assert gpu.allow_multiple_allocations is None


def test_static_mig_devices_are_published_in_place_of_their_gpu(tmp_path: Path) -> None:
    (slice_,) = _publish(tmp_path, "8xA100-SXM4-40GB")
    names = [device.name for device in slice_.devices]
    assert names[:4] == [
        "gpu-0-mig-1g5gb-19-2",
        "gpu-0-mig-1g5gb-19-3",
        "gpu-0-mig-2g10gb-14-0",
        "gpu-0-mig-3g20gb-9-4",
    ]
    assert names[-4:] == ["gpu-4", "gpu-5", "gpu-6", "gpu-7"]
    mig = slice_.devices[3]
    system = open_system("8xA100-SXM4-40GB", "node-0")
    attributes = _attributes(mig)
    assert attributes["type"] == "mig"
    assert attributes["profile"] == "3g.20gb"
    assert attributes["parentUUID"] == system.gpus[0].uuid
    assert str(attributes["uuid"]).startswith("MIG-")
    assert "addressingMode" not in attributes
    assert _capacity(mig) == {
        "multiprocessors": "42",
        "copyEngines": "3",
        "decoders": "2",
        "encoders": "0",
        "jpegEngines": "0",
        "ofaEngines": "0",
        "memory": "19968Mi",
        "memorySlice4": "1",
        "memorySlice5": "1",
        "memorySlice6": "1",
        "memorySlice7": "1",
    }


def test_dynamic_mig_splits_counters_and_gpus_over_slices(tmp_path: Path) -> None:
    counters, first, second = _publish(tmp_path, "2xH100:whole", "DynamicMIG=true")
    assert counters.devices == ()
    assert [c.name for c in counters.shared_counters] == ["gpu-0-counter-set", "gpu-1-counter-set"]
    assert {name: c.value for name, c in counters.shared_counters[0].counters.items()} == {
        "multiprocessors": "132",
        "copy-engines": "8",
        "decoders": "7",
        "encoders": "0",
        "jpeg-engines": "7",
        "ofa-engines": "1",
        "memory": "81152Mi",
        **{f"memory-slice-{n}": "1" for n in range(8)},
    }
    assert len(first.devices) == len(second.devices) == 26
    gpu = first.devices[0]
    assert gpu.name == "gpu-0"
    assert _capacity(gpu)["memory"] == "81152Mi"
    assert gpu.consumes_counters[0].counters == counters.shared_counters[0].counters
    mig = next(d for d in first.devices if d.name == "gpu-0-mig-1g10gb-me-20-6")
    assert "uuid" not in mig.attributes
    assert mig.attributes["profile"].string == "1g.10gb+me"
    assert "memorySlice6" not in mig.capacity
    consumed = {name: c.value for name, c in mig.consumes_counters[0].counters.items()}
    assert mig.consumes_counters[0].counter_set == "gpu-0-counter-set"
    assert consumed["memory-slice-6"] == "1"
    assert [name for name in consumed if name.startswith("memory-slice")] == ["memory-slice-6"]
    assert consumed["ofa-engines"] == "1"


def test_ampere_in_mig_mode_publishes_counters_and_no_whole_gpu(tmp_path: Path) -> None:
    counters, slice_ = _publish(tmp_path, "1xA100:mig", "DynamicMIG=true")
    assert [c.name for c in counters.shared_counters] == ["gpu-0-counter-set"]
    assert len(slice_.devices) == 25
    assert "gpu-0" not in {device.name for device in slice_.devices}


def test_gpus_without_dynamic_mig_get_no_counters(tmp_path: Path) -> None:
    counters, ampere, turing, hopper = _publish(tmp_path, "1xA100:whole,1xT4,1xH100", "DynamicMIG=true")
    assert [c.name for c in counters.shared_counters] == ["gpu-2-counter-set"]
    assert [d.name for d in (*ampere.devices, *turing.devices)] == ["gpu-0", "gpu-1"]
    assert ampere.devices[0].consumes_counters == ()
    assert _capacity(ampere.devices[0]) == {"memory": "40Gi"}
    assert len(hopper.devices) == 26


def test_dynamic_mig_has_no_effect_without_a_capable_gpu(tmp_path: Path) -> None:
    (slice_,) = _publish(tmp_path, "2xT4", "DynamicMIG=true")
    assert [d.name for d in slice_.devices] == ["gpu-0", "gpu-1"]


def test_slices_for_old_servers_have_one_gpu_each_with_its_counters(tmp_path: Path) -> None:
    split = DriverResources({"node-0": Pool(_publish(tmp_path, "2xH100:whole", "DynamicMIG=true"))})

    slices = join_counters(split).pools["node-0"].slices

    assert [(len(s.devices), len(s.shared_counters)) for s in slices] == [(26, 1), (26, 1)]


def test_passthrough_publishes_each_gpu_also_as_a_vfio_device(tmp_path: Path) -> None:
    (slice_,) = _publish(tmp_path, "2xL4", "PassthroughSupport=true")
    assert [d.name for d in slice_.devices] == ["gpu-0", "gpu-vfio-0", "gpu-1", "gpu-vfio-1"]
    vfio = slice_.devices[1]
    attributes = _attributes(vfio)
    assert attributes.pop("uuid") == str(uuid.uuid5(uuid.NAMESPACE_DNS, "0000:07:00.0"))
    assert attributes == {
        "type": "vfio",
        "deviceID": "0x27b8",
        "vendorID": "0x10de",
        "productName": "NVIDIA L4",
        "iommuFDEnabled": True,
        "resource.kubernetes.io/pciBusID": "0000:07:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:06",
        "resource.kubernetes.io/numaNode": 0,
    }
    assert _capacity(vfio) == {"addressableMemory": "32Gi"}


def test_list_attributes_carry_the_numa_node_as_a_list(tmp_path: Path) -> None:
    (slice_,) = _publish(tmp_path, "1xL4", "DRAListTypeAttributes=true")
    assert slice_.devices[0].attributes["resource.kubernetes.io/numaNode"].ints == (0,)


@pytest.mark.parametrize(
    ("shares", "capacity", "policy"),
    [
        ("unlimited", "memory", ("0", "0", "81559Mi", "1Mi")),
        ("memory", "memory", ("81559Mi", "1Mi", "81559Mi", "1Mi")),
        ("4", "shares", ("1", "1", "4", "1")),
        ("4", "memory", ("0", "0", "81559Mi", "1Mi")),
    ],
)
def test_consumable_shares_publish_a_request_policy(
    tmp_path: Path, shares: str, capacity: str, policy: tuple[str, str, str, str]
) -> None:
    (slice_,) = _publish(tmp_path, "1xH100", "ConsumableShares=true", shares)
    gpu = slice_.devices[0]
    assert gpu.allow_multiple_allocations is True
    found = gpu.capacity[capacity].request_policy
    assert found is not None
    assert found.valid_range is not None
    assert msgspec.to_builtins(found)["validRange"]["min"] == policy[1], "published, also where it is 0"
    range_ = found.valid_range
    assert (found.default, range_.min, range_.max, range_.step) == policy


@pytest.mark.parametrize("shares", ["unlimited", "memory", " 4 "])
def test_shared_memory_is_rounded_down_to_the_step(tmp_path: Path, shares: str) -> None:
    gates = NvidiaGates.parse("ConsumableShares=true")
    found = DeviceLibrary(SimulatedHost(open_system("1xL4", "node-0"), tmp_path), gates).enumerate()
    ((gpu,),) = (devices.values() for devices in found.values())
    assert isinstance(gpu, Gpu)
    gpu.memory_bytes = 10 * 1024 * 1024 + 500
    (slice_,) = Announcer(gates, shares).resources("node-0", found, {}, False).pools["node-0"].slices
    memory = slice_.devices[0].capacity["memory"]
    assert memory.request_policy is not None
    assert memory.request_policy.valid_range is not None
    assert (memory.value, memory.request_policy.valid_range.max) == ("10Mi", "10Mi")


@pytest.mark.parametrize("shares", ["disabled", " disabled ", ""])
def test_disabled_sharing_needs_no_feature_gate(tmp_path: Path, shares: str) -> None:
    (slice_,) = _publish(tmp_path, "1xH100", shares=shares)
    assert slice_.devices[0].allow_multiple_allocations is None
    assert slice_.devices[0].capacity["memory"].request_policy is None


@pytest.mark.parametrize(
    ("gates", "shares", "message"),
    [
        ("", "4", "--consumable-shares requires feature gate ConsumableShares to be enabled"),
        ("ConsumableShares=true", "many", 'invalid value for --consumable-shares: "many"'),
        ("ConsumableShares=true", "0", r"must be 'disabled', 'memory', 'unlimited', or a positive integer"),
    ],
)
def test_invalid_sharing_options_are_rejected(gates: str, shares: str, message: str) -> None:
    with pytest.raises(DriverConfigError, match=message):
        Announcer(NvidiaGates.parse(gates), shares)


@each_case(
    ("gates", "message"),
    [
        ("Nonsense=true", "unrecognized feature gate: Nonsense"),
        ("DynamicMIG", "want Name=true or Name=false"),
        ("DynamicMIG=true,MPSSupport=true", "DynamicMIG is currently mutually exclusive with MPSSupport"),
        ("DynamicMIG=true,PassthroughSupport=true", "mutually exclusive with PassthroughSupport"),
        ("DynamicMIG=true,NVMLDeviceHealthCheck=true", "mutually exclusive with NVMLDeviceHealthCheck"),
        ("PassthroughSupport=true,NVMLDeviceHealthCheck=true", "mutually exclusive"),
        (
            "IMEXDaemonsWithDNSNames=false",
            "feature gate ComputeDomainCliques requires IMEXDaemonsWithDNSNames to also be enabled",
        ),
        ("DeviceMetadata=true", "requires PassthroughSupport"),
    ],
)
def test_invalid_nvidia_feature_gates_are_rejected(gates: str, message: str) -> None:
    with pytest.raises(DriverConfigError, match=message):
        NvidiaGates.parse(gates)


def test_all_alpha_and_all_beta_set_every_gate_of_their_stage() -> None:
    gates = NvidiaGates.parse("AllBeta=false,IMEXDaemonsWithDNSNames=true,LoggingAlphaOptions=true")
    # As NVIDIA's compute-domain-controller writes it into the daemons' environment, in the order of names.
    assert gates.text() == (
        "AllAlpha=false,AllBeta=false,ComputeDomainCliques=false,ConsumableShares=false,ContextualLogging=true,"
        "CrashOnNVLinkFabricErrors=false,DRAListTypeAttributes=false,DeviceMetadata=false,DynamicMIG=false,"
        "FabricManagerPartitioning=false,HostManagedIMEXDaemon=false,IMEXDaemonsWithDNSNames=true,"
        "LoggingAlphaOptions=true,LoggingBetaOptions=false,MPSSupport=false,NVMLDeviceHealthCheck=false,"
        "PassthroughSupport=false,TimeSlicingSettings=false,"
    )


def test_taints_are_published_with_their_device(tmp_path: Path) -> None:
    taint = DeviceTaint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule")
    (slice_,) = _publish(tmp_path, "2xL4", taints={"gpu-1": (taint,)})
    assert [device.taints for device in slice_.devices] == [(), (taint,)]


def test_profiles_are_queried_once_for_gpus_of_one_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    profiles = discovery._profiles

    def count_call(handle: object) -> Iterator[GiProfile]:
        asked.append(handle)
        return profiles(handle)

    monkeypatch.setattr(discovery, "_profiles", count_call)
    system = open_system("6xA100-SXM4-40GB:whole,2xH100", "node-0")
    gpus = DeviceLibrary(SimulatedHost(system, tmp_path), NvidiaGates()).gpus()
    assert len(asked) == 2
    assert [gpu.profiles == gpus[0].profiles for gpu in gpus] == [True] * 6 + [False] * 2

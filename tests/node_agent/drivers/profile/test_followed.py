"""Profiles that follow published drivers: attributes, capacities and edits are those of the named sources."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from dra_driverkit.cdi import resolve
from dra_driverkit.directories import Directories
from dra_node_agent.drivers.profile import known_profiles, load_profile
from dra_node_agent.drivers.profile.devices import loop_values, resources
from dra_node_agent.drivers.profile.state import ProfileState
from dra_recordings.validate import answer
from dra_shared.api.resource import Device

from tests.driverkit.claims import claim, result
from tests.support.cases import each_case
from tests.support.reference import REPOSITORY

_FOLLOWED = [name for name in known_profiles() if load_profile(name).follows]
_PAGE = (REPOSITORY / "docs" / "followed-drivers.md").read_text()
_PCIE_ROOT = {"resource.kubernetes.io/pcieRoot": "string"}

#: By profile, the types of a device's attributes and its capacity.
_PUBLISHED: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "gpu.amd.com": (
        {
            **dict.fromkeys(
                ("type", "pciAddr", "deviceID", "family", "productName", "driverSrcVersion"), "string"
            ),
            "cardIndex": "int",
            "renderIndex": "int",
            "driverVersion": "version",
            "partitionProfile": "string",
            **_PCIE_ROOT,
        },
        {"memory": "196592Mi", "computeUnits": "304", "simdUnits": "1216"},
    ),
    "gpu.amd.com:cpx": (
        {
            **dict.fromkeys(("type", "parentPciAddr", "parentDeviceID", "family", "productName"), "string"),
            **dict.fromkeys(("driverSrcVersion", "partitionProfile"), "string"),
            "cardIndex": "int",
            "renderIndex": "int",
            "driverVersion": "version",
            **_PCIE_ROOT,
        },
        {"memory": "24574Mi", "computeUnits": "38", "simdUnits": "152"},
    ),
    "gpu.intel.com": (
        {
            **dict.fromkeys(
                ("model", "family", "driver", "type", "pciId", "pciAddress", "pciRoot", "health"), "string"
            ),
            "sriov": "bool",
            "resource.kubernetes.io/pciBusID": "string",
            **_PCIE_ROOT,
        },
        {"memory": "24480Mi", "millicores": "1k"},
    ),
    "gaudi.intel.com": (
        {"model": "string", "serial": "string", "healthy": "bool", "pciRoot": "string", **_PCIE_ROOT},
        {},
    ),
    "qat.intel.com": ({"services": "string"}, {}),
    "tpu.google.com": (
        {
            **dict.fromkeys(("uuid", "tpuGen", "brand", "accelerator", "topology"), "string"),
            "index": "int",
            "chipCount": "int",
        },
        {},
    ),
    "dra.cpu": (
        {
            **dict.fromkeys(("dra.cpu/numaNodeID", "dra.cpu/socketID", "dra.cpu/numCPUs"), "int"),
            "dra.cpu/smtEnabled": "bool",
            "dra.net/numaNode": "int",
        },
        {"dra.cpu/cpu": "32"},
    ),
    "dra.cpu:individual": (
        {
            **{
                f"dra.cpu/{name}": "int"
                for name in ("numaNodeID", "socketID", "cacheL3ID", "coreID", "cpuID")
            },
            "dra.cpu/smtEnabled": "bool",
            "dra.cpu/coreType": "string",
            "dra.net/numaNode": "int",
        },
        {},
    ),
    "dra.net": (
        {
            **{
                f"dra.net/{name}": "string"
                for name in (
                    *("ifName", "mac", "encapsulation", "alias", "pciAddress", "pciDevice", "pciVendor"),
                    *("rdmaDevice", "state", "type"),
                )
            },
            **{f"dra.net/{name}": "bool" for name in ("ebpf", "rdma", "sriov", "virtual")},
            **{f"dra.net/{name}": "int" for name in ("mtu", "numaNode", "sriovVfs")},
            **_PCIE_ROOT,
        },
        {},
    ),
    "sriovnetwork.k8snetworkplumbingwg.io": (
        {
            **dict.fromkeys(
                (
                    *("vendor", "deviceID", "pfDeviceID", "pciAddress", "PFName", "EswitchMode"),
                    *("pfPciAddress", "linkType", "k8s.cni.cncf.io/deviceID"),
                ),
                "string",
            ),
            "resource.kubernetes.io/pciBusID": "string",
            "vfID": "int",
            "rdmaCapable": "bool",
            "dra.net/numaNode": "int",
            **_PCIE_ROOT,
        },
        {},
    ),
}


def _devices(name: str) -> list[Device]:
    return [
        d for part in resources(load_profile(name), "node-0").pools["node-0"].slices for d in part.devices
    ]


@each_case("name", _PUBLISHED)
def test_devices_have_the_attributes_and_capacities_of_the_real_driver(name: str) -> None:
    first = _devices(name)[0]
    attributes, capacity = _PUBLISHED[name]
    published = {key: next(iter(msgspec.to_builtins(value))) for key, value in first.attributes.items()}
    assert published == attributes
    assert {key: value.value for key, value in first.capacity.items()} == capacity


@each_case("name", _FOLLOWED)
def test_the_api_server_accepts_the_published_slices(name: str) -> None:
    for variant in (None, *load_profile(name).variants):
        devices = _devices(f"{name}:{variant}" if variant else name)
        slice_ = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "slice"},
            "spec": {
                "driver": name,
                "nodeName": "node-0",
                "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
                "devices": msgspec.to_builtins(devices),
            },
        }
        assert answer({"object": slice_})["server"]["errors"] == []


@each_case("name", _FOLLOWED)
def test_the_docs_name_the_version_of_the_real_driver_that_a_profile_follows(name: str) -> None:
    repository, version = load_profile(name).follows.split(":")[0].split(" ", 1)
    assert f"[{repository}](https://github.com/{repository})" in _PAGE
    row = next(line for line in _PAGE.splitlines() if line.startswith(f"| `{name}`"))
    assert version.split("(")[0].removeprefix("at ").strip() in row


def test_partitions_have_the_identity_attributes_of_their_parent_device() -> None:
    partitions = _devices("gpu.amd.com:cpx")
    assert [device.name for device in partitions[7:9]] == ["gpu-7-135", "gpu-8-136"]
    parents = [device.attributes["parentDeviceID"].string for device in partitions]
    assert len(set(parents)) == 8
    assert len(set(parents[:8])) == 1
    assert all(parent is not None and parent.isdigit() for parent in parents)


def test_all_chips_of_a_host_have_one_uuid() -> None:
    chips = _devices("tpu.google.com")
    assert [chip.name for chip in chips] == [str(number) for number in range(8)]
    assert len({chip.attributes["uuid"].string for chip in chips}) == 1


def test_virtual_functions_are_numbered_along_their_addresses() -> None:
    functions = _devices("sriovnetwork.k8snetworkplumbingwg.io")
    assert len(functions) == 16
    assert [one.name for one in functions[5:8]] == ["0000-08-00-7", "0000-08-01-0", "0000-08-01-1"]
    assert [one.attributes["vfID"].int_ for one in functions] == [*range(8), *range(8)]


def test_the_two_threads_of_a_cpu_core_are_consecutive_devices() -> None:
    cpus = _devices("dra.cpu:individual")
    assert [cpu.name for cpu in cpus] == [f"cpudev{number:03}" for number in range(64)]
    ids = [cpu.attributes["dra.cpu/cpuID"].int_ for cpu in cpus]
    assert ids[:4] == [0, 32, 1, 33]
    assert sorted(id_ for id_ in ids if id_ is not None) == list(range(64))


@pytest.mark.parametrize(
    ("name", "device", "paths"),
    [
        ("gpu.amd.com", "gpu-8-136", ["/dev/kfd", "/dev/dri/card8", "/dev/dri/renderD136"]),
        ("gpu.intel.com", "0000-3a-00-0-0xe211", ["/dev/dri/card1", "/dev/dri/renderD129"]),
        (
            "gaudi.intel.com",
            "0000-43-00-0-0x1060",
            ["/dev/accel/accel2", "/dev/accel/accel_controlD2", "/dev/infiniband/uverbs2"],
        ),
        ("qat.intel.com", "qatvf-0000-70-01-0", ["/dev/vfio/23"]),
        ("tpu.google.com", "3", ["/dev/vfio/3", "/dev/vfio/vfio"]),
    ],
)
def test_containers_get_the_device_nodes_of_the_real_driver(
    name: str, device: str, paths: list[str], tmp_path: Path
) -> None:
    profile = load_profile(name)
    devices = {("node-0", one.name): one for one in _devices(name)}
    directories = Directories(tmp_path, tmp_path, tmp_path / "cdi")
    state = ProfileState(profile, "node-0", devices, directories, loops=loop_values(profile, "node-0"))
    (tmp_path / "cdi").mkdir()
    state.open()
    answers = state.prepare(claim("uid-1", result(device, driver=name)))
    ids = [id_ for one in answers for id_ in one.cdi_ids]
    assert all(id_.startswith(f"{profile.vendor}/{profile.cdi_class}=") for id_ in ids)
    assert [node.path for node in resolve(ids, tmp_path / "cdi").device_nodes] == paths

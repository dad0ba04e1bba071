"""NVIDIA's device plugin on simulated GPUs."""

from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.cdi import resolve
from dra_driverkit.errors import DriverConfigError
from dra_node_agent.drivers.base import DriverNode, DriverOptions
from dra_node_agent.drivers.catalog import find_driver
from dra_node_agent.drivers.deviceplugin import AllocationError
from dra_node_agent.drivers.nvidia.devices import MigDevice
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.plugin import config
from dra_node_agent.drivers.nvidia.plugin.devicemap import DeviceMap, device_map
from dra_node_agent.drivers.nvidia.plugin.factory import NvidiaPluginFactory
from dra_node_agent.drivers.nvidia.plugin.plugin import NvidiaResource
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.node import open_system
from dra_shared.client.rest import Client
from dra_shared.clock import SystemClock

from tests.driverkit.cdi.schema import check_file
from tests.node_agent.drivers.pluginkubelet import PluginKubelet
from tests.support.waiting import until

_MIXED = "1xA100-SXM4-40GB,1xA100-SXM4-40GB:1g.5gb+1g.5gb+3g.20gb"
_SLICED = """
version: v1
sharing:
  timeSlicing:
    renameByDefault: {renamed}
    failRequestsGreaterThanOne: true
    resources:
    - {{name: nvidia.com/gpu, replicas: 3}}
"""


def _library(root: Path, gpus: str) -> DeviceLibrary:
    return DeviceLibrary(SimulatedHost(open_system(gpus, "node-0"), root / "driver"), NvidiaGates())


def _map(root: Path, gpus: str, **values: str) -> DeviceMap:
    return device_map(_library(root, gpus), config.parse({k.replace("_", "-"): v for k, v in values.items()}))


def _resource(root: Path, gpus: str, name: str = "nvidia.com/gpu", **values: str) -> NvidiaResource:
    parsed = config.parse({key.replace("_", "-"): value for key, value in values.items()})
    library = _library(root, gpus)
    return NvidiaResource(name, device_map(library, parsed)[name], parsed, library)


def _counts(found: DeviceMap) -> dict[str, int]:
    return {name: len(entries) for name, entries in found.items()}


class TestResources:
    def test_resources_depend_on_the_mig_strategy(self, tmp_path: Path) -> None:
        assert _counts(_map(tmp_path, _MIXED)) == {"nvidia.com/gpu": 2}
        mixed = _map(tmp_path, _MIXED, mig_strategy="mixed")
        assert _counts(mixed) == {
            "nvidia.com/gpu": 1,
            "nvidia.com/mig-1g.5gb": 2,
            "nvidia.com/mig-3g.20gb": 1,
        }
        assert [entry.index for entry in mixed["nvidia.com/mig-1g.5gb"].values()] == ["1:0", "1:1"]
        assert all(id_.startswith("MIG-") for id_ in mixed["nvidia.com/mig-3g.20gb"])
        single = _map(tmp_path, "2xA100-SXM4-40GB:1g.5gb+1g.5gb+1g.5gb", mig_strategy="single")
        assert _counts(single) == {"nvidia.com/gpu": 6}

    @pytest.mark.parametrize(
        ("gpus", "message"),
        [
            (_MIXED, "more than one MIG device type present on node"),
            (
                "1xA100-SXM4-40GB,1xA100-SXM4-40GB:1g.5gb+1g.5gb",
                "all devices on the node must be configured with",
            ),
        ],
    )
    def test_the_single_strategy_requires_one_profile(self, tmp_path: Path, gpus: str, message: str) -> None:
        with pytest.raises(DriverConfigError, match=message):
            _map(tmp_path, gpus, mig_strategy="single")

    @pytest.mark.parametrize(
        ("renamed", "name"), [("true", "nvidia.com/gpu.shared"), ("false", "nvidia.com/gpu")]
    )
    def test_time_slicing_publishes_each_device_several_times(
        self, tmp_path: Path, renamed: str, name: str
    ) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(_SLICED.format(renamed=renamed))
        found = _map(tmp_path, "2xA100-SXM4-40GB", device_plugin_config=str(file))
        assert _counts(found) == {name: 6}
        assert [id_.partition("::")[2] for id_ in found[name]] == ["0", "1", "2"] * 2

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"mig-strategy": "both"}, "unknown MIG strategy: both"),
            ({"device-list-strategy": "envvar,x"}, "invalid strategy: x"),
            ({"device-id-strategy": "name"}, "invalid --device-id-strategy option: name"),
            (
                {"device-plugin-config": "/nowhere.yaml"},
                "error opening config file: /nowhere.yaml: No such file",
            ),
        ],
    )
    def test_invalid_options_of_the_device_plugin_are_rejected(
        self, values: dict[str, str], message: str
    ) -> None:
        with pytest.raises(DriverConfigError, match=message):
            config.parse(values)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("version: v2", "unknown version"),
            ("sharing: {timeSlicing: {renameByDefault: true}}", "no resources specified"),
            (
                "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}",
                "number of replicas must be >= 2",
            ),
            ("imex: {channelIDs: [0], required: true}", "requested IMEX channel channel0 does not exist"),
            ("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}", "sharing.mps is not simulated"),
        ],
    )
    def test_invalid_config_files_are_rejected(self, tmp_path: Path, text: str, message: str) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(text)
        with pytest.raises(DriverConfigError, match=message):
            config.parse({"device-plugin-config": str(file)})

    @pytest.mark.parametrize(
        ("disable", "enable", "ignored"),
        [
            ("", "", {13, 109}),
            ("79", "", {13, 79, 109}),
            ("", "13", {109}),
            ("all", "48", {13, 79, 109}),
            ("", "all", set()),
        ],
    )
    def test_xids_that_the_settings_of_the_device_plugin_disable_are_ignored(
        self, disable: str, enable: str, ignored: set[int]
    ) -> None:
        parsed = config.parse({"dp-disable-healthchecks": disable, "dp-enable-healthchecks": enable})
        assert {xid for xid in (13, 48, 79, 109) if parsed.is_ignored(xid)} == ignored


class TestAllocate:
    def test_devices_are_passed_by_environment(self, tmp_path: Path) -> None:
        resource = _resource(tmp_path, "2xA100-SXM4-40GB")
        ids = list(resource.entries)
        assert resource.socket == "nvidia-gpu.sock"
        assert resource.allocate(ids).env == {"NVIDIA_VISIBLE_DEVICES": ",".join(ids)}
        by_index = _resource(tmp_path, "2xA100-SXM4-40GB", device_id_strategy="index")
        assert by_index.allocate(ids[1:]).env == {"NVIDIA_VISIBLE_DEVICES": "1"}
        with pytest.raises(AllocationError, match="invalid request: unknown device: GPU-0"):
            resource.allocate(["GPU-0"])

    def test_devices_are_passed_by_mounts_and_cdi(self, tmp_path: Path) -> None:
        strategies = "volume-mounts,cdi-annotations,cdi-cri"
        resource = _resource(tmp_path, "1xA100-SXM4-40GB", device_list_strategy=strategies)
        (id_,) = resource.entries
        answer = resource.allocate([id_])
        assert answer.env == {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}
        assert [mount.container_path for mount in answer.mounts] == [
            f"/var/run/nvidia-container-devices/{id_}"
        ]
        assert answer.cdi_ids == [f"k8s.device-plugin.nvidia.com/gpu={id_}"]
        ((key, value),) = answer.annotations.items()
        assert (key.startswith("cdi.k8s.io/nvidia-device-plugin_"), value) == (True, answer.cdi_ids[0])

    @pytest.mark.parametrize("strategy", ["envvar", "cdi-cri"])
    def test_devices_of_gds_mofed_and_imex_are_added(self, tmp_path: Path, strategy: str) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(
            "flags: {gdsEnabled: true, mofedEnabled: true, gdrcopyEnabled: false}\nimex: {channelIDs: [0]}"
        )
        values = {"device_plugin_config": str(file), "device_list_strategy": strategy}
        resource = _resource(tmp_path, "1xA100-SXM4-40GB", **values)
        env = dict(resource.allocate(list(resource.entries)).env)
        assert env.pop("NVIDIA_VISIBLE_DEVICES", "") == (
            "" if strategy == "cdi-cri" else next(iter(resource.entries))
        )
        assert env == {"NVIDIA_GDS": "enabled", "NVIDIA_MOFED": "enabled"}

    def test_replicas_of_a_time_sliced_device_are_allocated_as_that_device(self, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(_SLICED.format(renamed="false").replace("failRequestsGreaterThanOne: true", ""))
        resource = _resource(tmp_path, "2xA100-SXM4-40GB", device_plugin_config=str(file))
        ids = list(resource.entries)
        assert resource.allocate(ids[:2]).env["NVIDIA_VISIBLE_DEVICES"] == ids[0].partition("::")[0]
        # One replica of the first GPU is taken: the other comes first.
        chosen = resource.choose_preferred(ids[1:], [], 2)
        assert [id_.partition("::")[0] for id_ in chosen] == [
            ids[3].partition("::")[0],
            ids[1].partition("::")[0],
        ]
        file.write_text(_SLICED.format(renamed="false"))
        strict = _resource(tmp_path, "2xA100-SXM4-40GB", device_plugin_config=str(file))
        with pytest.raises(AllocationError, match="maximum request size for shared resources is 1; found 2"):
            strict.allocate(ids[:2])

    def test_gpus_of_one_numa_node_are_preferred(self, tmp_path: Path) -> None:
        resource = _resource(tmp_path, "8xA100-SXM4-40GB")
        ids = list(resource.entries)
        chosen = resource.choose_preferred(ids, [ids[7]], 4)
        assert chosen[0] == ids[7]
        assert len({resource.entries[id_].gpu.numa_node for id_ in chosen}) == 1
        with pytest.raises(AllocationError, match="not enough available devices"):
            resource.choose_preferred(ids[:2], [], 3)


def _node(root: Path) -> DriverNode:
    client: Any = Client("http://127.0.0.1:1")
    return DriverNode("node-0", root / "kubelet", root / "cdi", client, SystemClock())


async def test_health_follows_xids_and_survives_a_plugin_restart(root: Path) -> None:
    options = DriverOptions(root / "driver", root / "machines", gpus=_MIXED, values={"mig-strategy": "mixed"})
    factory = find_driver("nvidia-device-plugin", options)
    assert isinstance(factory, NvidiaPluginFactory)
    system = factory.system("node-0")
    assert system is not None
    async with PluginKubelet(root / "kubelet") as kubelet:
        async with factory.on_node(_node(root)) as running:
            await running.wait_until_published()
            assert sorted(request.resource_name for request in kubelet.requests) == [
                "nvidia.com/gpu",
                "nvidia.com/mig-1g.5gb",
                "nvidia.com/mig-3g.20gb",
            ]
            resources: dict[str, NvidiaResource] = {r.resource: r for r in running.resources}
            gpu, small = resources["nvidia.com/gpu"], resources["nvidia.com/mig-1g.5gb"]
            system.inject_xid(0, 31)
            live = next(iter(small.entries.values())).device
            assert isinstance(live, MigDevice)
            place = live.live
            assert place is not None
            system.inject_xid(1, 63, place.gpu_instance, place.compute_instance)
            await until(lambda: [d.healthy for d in small.devices()] == [False, True])
            assert [d.healthy for d in gpu.devices()] == [True]
            system.inject_xid(0, 79)
            await until(lambda: [d.healthy for d in gpu.devices()] == [False])
        async with factory.on_node(_node(root)) as running:
            again: dict[str, NvidiaResource] = {r.resource: r for r in running.resources}
            assert [d.healthy for d in again["nvidia.com/gpu"].devices()] == [False]
            assert [d.healthy for d in again["nvidia.com/mig-1g.5gb"].devices()] == [False, True]


@pytest.mark.parametrize(
    ("strategy", "resource"), [("none", "nvidia.com/gpu"), ("mixed", "nvidia.com/mig-1g.5gb")]
)
async def test_an_xid_of_a_gpu_affects_its_mig_devices_and_vice_versa(
    root: Path, strategy: str, resource: str
) -> None:
    gpus = "1xA100-SXM4-40GB:1g.5gb+1g.5gb"
    options = DriverOptions(root / "driver", root / "machines", gpus=gpus, values={"mig-strategy": strategy})
    factory = NvidiaPluginFactory(options)
    system = factory.system("node-0")
    assert system is not None
    async with factory.on_node(_node(root)) as running:
        (offered,) = running.resources
        assert offered.resource == resource
        if strategy == "none":
            (gi, ci), *_ = system.gpus[0].mig_devices()
            system.inject_xid(0, 63, gi.id, ci.id)
        else:
            system.inject_xid(0, 79)
        await until(lambda: not any(device.healthy for device in offered.devices()))


async def test_the_cdi_file_contains_all_devices(root: Path) -> None:
    options = DriverOptions(
        root / "driver", root / "machines", gpus=_MIXED, values={"device-list-strategy": "cdi-cri"}
    )
    factory = NvidiaPluginFactory(options)
    async with factory.on_node(_node(root)):
        (path,) = (root / "cdi").iterdir()
        check_file(path)
        found = factory.system("node-0")
        assert found is not None
        edits = resolve([f"k8s.device-plugin.nvidia.com/gpu={found.gpus[0].uuid}"], root / "cdi")
    assert {"/dev/nvidia0", "/dev/nvidiactl"} <= {node.path for node in edits.device_nodes}


def test_the_container_runtime_reads_the_environment(root: Path) -> None:
    options = DriverOptions(root / "driver", root / "machines", gpus=_MIXED)
    factory = NvidiaPluginFactory(options)
    system = factory.system("node-0")
    assert system is not None

    def nodes(value: str, *mounts: str) -> set[str]:
        edits = factory.environment_edits("node-0", {"NVIDIA_VISIBLE_DEVICES": value}, mounts)
        assert edits.env == ()
        return {node.path for node in edits.device_nodes if node.path.removeprefix("/dev/nvidia").isdigit()}

    uuid = system.gpus[1].uuid
    assert (nodes("all"), nodes(uuid), nodes("0"), nodes("none")) == (
        {"/dev/nvidia0", "/dev/nvidia1"},
        {"/dev/nvidia1"},
        {"/dev/nvidia0"},
        set(),
    )
    root_of_mounts = "/var/run/nvidia-container-devices"
    assert nodes(root_of_mounts, f"{root_of_mounts}/{uuid}") == {"/dev/nvidia1"}
    assert not factory.environment_edits("node-0", {"NVIDIA_VISIBLE_DEVICES": "void"}, ()).device_nodes
    assert not factory.environment_edits("node-0", {}, ()).mounts

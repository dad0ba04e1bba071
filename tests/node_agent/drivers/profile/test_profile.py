import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from dra_driverkit.cdi import resolve
from dra_driverkit.directories import Directories
from dra_driverkit.errors import DriverConfigError, PrepareError
from dra_node_agent.drivers.profile import Profile, known_profiles, load_profile
from dra_node_agent.drivers.profile.configs import decode_config, default_config
from dra_node_agent.drivers.profile.devices import resources
from dra_node_agent.drivers.profile.state import ProfileState
from dra_node_agent.drivers.profile.versions import of_version
from dra_shared.api.resource import Device
from dra_shared.version import V1_34, V1_36, V1_37, Version

from tests.driverkit.cdi.schema import check_file
from tests.driverkit.claims import claim, opaque, ref, result
from tests.node_agent.drivers.nvidia.node import Crash, crash_at
from tests.support.cases import each_case

_GPU_API = "gpu.resource.example.com/v1alpha1"


def _devices(profile: Profile) -> dict[str, Device]:
    pool = resources(profile, "node-0").pools["node-0"].slices
    return {device.name: device for part in pool for device in part.devices}


class _Node:
    def __init__(self, directory: Path, name: str) -> None:
        self.profile = load_profile(name)
        self.devices = _devices(self.profile)
        self.directory = directory / "plugin"
        self.cdi = directory / "cdi"
        self.directory.mkdir(exist_ok=True)
        self.cdi.mkdir(exist_ok=True)

    def start(self, **fields: Any) -> ProfileState:
        devices = {("node-0", name): device for name, device in self.devices.items()}
        directories = Directories(self.directory, self.directory / "registry", self.cdi)
        state = ProfileState(self.profile, "node-0", devices, directories, **fields)
        state.open()
        return state

    def environment(self, *answers: Any) -> dict[str, str]:
        for path in self.cdi.iterdir():
            check_file(path)
        return resolve([i for answer in answers for i in answer.cdi_ids], self.cdi).environment()


def _variants() -> list[str]:
    return [
        f"{name}:{variant}" if variant else name
        for name in known_profiles()
        for variant in ("", *load_profile(name).variants)
    ]


@each_case("name", _variants())
def test_profiles_stay_within_the_apis_limits(name: str) -> None:
    for slice_ in resources(load_profile(name), "node-0").pools["node-0"].slices:
        assert len(slice_.shared_counters) <= 8
        heavy = any(d.consumes_counters or d.taints for d in slice_.devices)
        assert len(slice_.devices) <= (64 if heavy else 128)
        assert bool(slice_.devices) != bool(slice_.shared_counters)


class TestDevices:
    def test_the_example_profile_has_nine_gpus_of_80gi(self) -> None:
        devices = _devices(load_profile("gpu.example.com"))
        assert list(devices) == [f"gpu-{n}" for n in range(9)]
        gpu = devices["gpu-3"]
        assert gpu.attributes["index"].int_ == 3
        assert gpu.attributes["model"].string == "LATEST-GPU-MODEL"
        assert gpu.attributes["driverVersion"].version == "1.0.0"
        assert {n: c.value for n, c in gpu.capacity.items()} == {"memory": "80Gi", "compute": "100"}
        assert len({d.attributes["uuid"].string for d in devices.values()}) == 9

    def test_partitions_are_listed_before_the_whole_gpu_and_share_its_uuid(self) -> None:
        devices = _devices(load_profile("gpu.example.com:partitioned"))
        assert list(devices)[:6] == [
            *(f"gpu-0-partition-{n}" for n in range(4)),
            "gpu-0-full",
            "gpu-1-partition-0",
        ]
        part = devices["gpu-0-partition-2"]
        assert part.attributes["partition"].int_ == 2
        assert part.attributes["partitionable"].bool_ is True
        assert part.attributes["uuid"] == devices["gpu-0-full"].attributes["uuid"]
        assert part.consumes_counters[0].counter_set == "gpu-0-counters"
        assert part.consumes_counters[0].counters["memory"].value == "20Gi"

    def test_a_variant_changes_only_its_own_fields(self) -> None:
        shared = _devices(load_profile("gpu.example.com:shared"))["gpu-0"]
        assert shared.allow_multiple_allocations is True
        policy = shared.capacity["memory"].request_policy
        assert policy is not None
        assert policy.valid_range is not None
        assert (policy.default, policy.valid_range.min, policy.valid_range.step) == ("80Gi", "1Gi", "1Gi")
        ready = _devices(load_profile("gpu.example.com:binding-conditions"))["gpu-0"]
        assert ready.binding_conditions == ("BindingConditions",)
        assert ready.capacity["memory"].value == "80Gi"

    def test_the_cpu_capacity_of_a_device_is_mapped_to_the_nodes_resource_cpu(self) -> None:
        numa = _devices(load_profile("cpu.example.com"))["numa-7"]
        assert numa.node_allocatable_resource_mappings["cpu"].capacity_key == "cpu.example.com/cpu"

    def test_many_devices_are_spread_over_slices(self, tmp_path: Path) -> None:
        path = tmp_path / "many.yaml"
        path.write_text(
            "driver: many.example.com\ncdiClass: x\n"
            "devices: [{each: {a: 20, b: 10}, device: {name: 'd-{a}-{b}', attributes: {n: {int: '{b}'}}}}]\n"
        )
        slices = resources(load_profile(str(path)), "n").pools["n"].slices
        assert [len(s.devices) for s in slices] == [128, 72]
        assert slices[1].devices[-1].name == "d-19-9"

    def test_a_profile_describes_irregular_devices_by_rows_and_sums(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.yaml"
        path.write_text(
            "driver: rows.example.com\ncdiClass: x\ndevices:\n"
            "- rows: [{bus: '18', first: 128}, {bus: 9a, first: 136}]\n  each: {part: 2}\n"
            "  device:\n    name: d-{bus}-{part:03}\n    attributes:\n"
            "      minor: {int: '{first+part}'}\n      even: {int: '{2*part+1}'}\n      uuid: {string: '{uuid}'}\n"
        )
        devices = _devices(load_profile(str(path)))
        assert list(devices) == ["d-18-000", "d-18-001", "d-9a-000", "d-9a-001"]
        assert [device.attributes["minor"].int_ for device in devices.values()] == [128, 129, 136, 137]
        assert [device.attributes["even"].int_ for device in devices.values()] == [1, 3, 1, 3]
        assert len({device.attributes["uuid"].string for device in devices.values()}) == 4

    def test_slices_name_the_type_of_partitions_and_operations_to_skip(self, tmp_path: Path) -> None:
        path = tmp_path / "parts.yaml"
        path.write_text(
            "driver: parts.example.com\ncdiClass: x\npartitionTypeAttribute: parts.example.com/kind\n"
            "skipNodeOperations: ['*']\nsharedCounters: [{name: all, counters: {units: '2'}}]\n"
            "devices: [{each: {a: 2}, device: {name: 'half-{a}',\n"
            "  attributes: {kind: {string: half}},\n"
            "  consumesCounters: [{counterSet: all, compatibilityGroups: [halves],\n"
            "    counters: {units: {value: '1'}}}]}}]\n"
            "pools: [{name: '{node}-whole', skipNodeOperations: [NodeUnprepareResources],\n"
            "  partitionTypeAttribute: parts.example.com/kind, devices: [{device: {name: whole}}]}]\n"
        )
        pools = resources(load_profile(str(path)), "n").pools
        counters, halves = pools["n"].slices
        assert (counters.partition_type_attribute, counters.skip_node_operations) == (None, ())
        assert halves.partition_type_attribute == "parts.example.com/kind"
        assert halves.skip_node_operations == ("*",)
        assert halves.devices[0].consumes_counters[0].compatibility_groups == ("halves",)
        (whole,) = pools["n-whole"].slices
        assert (whole.partition_type_attribute, whole.skip_node_operations) == (
            None,
            ("NodeUnprepareResources",),
        )

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"devices": [{"rows": [{"a": "b"}], "device": {"name": "n{a+1}"}}]},
                "no value for 'a, a number'",
            ),
            ({"devices": [{"device": {"name": "{nothing}"}}]}, "no value for 'nothing'"),
            ({"devices": [{"device": {"name": "a", "colour": 1, "attributes": {"x": 3}}}]}, "not a device"),
            ({"devices": [{"each": {"a": 2}, "device": {"name": "same"}}]}, 'duplicate device "same"'),
            ({"devices": [{"each": {"a": 2}}]}, "needs either device or devices"),
        ],
    )
    def test_invalid_device_templates_of_a_profile_are_rejected(
        self, change: dict[str, Any], message: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "p.yaml"
        path.write_text(yaml.safe_dump({"driver": "x.example.com", "cdiClass": "x", **change}))
        with pytest.raises(DriverConfigError, match=message):
            resources(load_profile(str(path)), "n")

    @pytest.mark.parametrize(
        "text", ["driver: [", "driver: x.example.com", "{driver: a, cdiClass: b, colour: 1}"]
    )
    def test_files_that_are_not_profiles_are_rejected(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "p.yaml"
        path.write_text(text)
        with pytest.raises(DriverConfigError, match=f"driver profile {path}"):
            load_profile(str(path))

    def test_a_missing_profile_is_reported(self, tmp_path: Path) -> None:
        message = f"^cannot read driver profile {tmp_path}/p.yaml: No such file or directory$"
        with pytest.raises(DriverConfigError, match=message):
            load_profile(f"{tmp_path}/p.yaml")


class TestConfigs:
    def test_fields_of_a_config_have_defaults(self) -> None:
        kinds = load_profile("gpu.example.com").configs
        assert default_config(kinds) == {
            "sharing.strategy": "TimeSlicing",
            "sharing.timeSlicingConfig.interval": "Default",
        }
        given = {"apiVersion": _GPU_API, "kind": "GpuConfig", "sharing": {"strategy": "SpacePartitioning"}}
        assert decode_config(given, kinds)["sharing.spacePartitioningConfig.partitionCount"] == 1
        raw = msgspec.Raw(msgspec.json.encode(given))
        assert decode_config(raw, kinds) == decode_config(given, kinds)

    @pytest.mark.parametrize(
        ("sharing", "message"),
        [
            ({"strategy": "Luck"}, "unknown GPU sharing strategy: Luck"),
            (
                {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Never"}},
                "unknown time-slice interval",
            ),
            (
                {"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": -1}},
                "invalid partition count: -1",
            ),
            ({"strategy": "SpacePartitioning", "timeSlicingConfig": {"interval": "Long"}}, "cannot use"),
            ({"strategy": "TimeSlicing", "colour": "red"}, 'unknown field "sharing.colour"'),
            ({"strategy": 5}, "expected string"),
        ],
    )
    def test_invalid_opaque_configurations_are_rejected(self, sharing: dict[str, Any], message: str) -> None:
        with pytest.raises(PrepareError, match=message):
            decode_config(
                {"apiVersion": _GPU_API, "kind": "GpuConfig", "sharing": sharing},
                load_profile("gpu.example.com").configs,
            )

    @pytest.mark.parametrize(
        "value", [None, {}, {"kind": "GpuConfig"}, {"kind": "X", "apiVersion": _GPU_API}]
    )
    def test_opaque_configurations_of_unknown_kinds_are_rejected(self, value: Any) -> None:
        with pytest.raises(PrepareError, match="error decoding config parameters"):
            decode_config(value, load_profile("gpu.example.com").configs)


class TestPrepare:
    def test_a_gpu_has_the_environment_of_the_example_driver(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        (device,) = node.start().prepare(claim("uid-1", "gpu-0", driver="gpu.example.com"))
        assert device.cdi_ids == ("k8s.gpu.example.com/gpu=common", "k8s.gpu.example.com/gpu=uid-1-gpu-0")
        assert node.environment(device) == {
            "KUBERNETES_NODE_NAME": "node-0",
            "DRA_RESOURCE_DRIVER_NAME": "gpu.example.com",
            "GPU_DEVICE_GPU_0_RESOURCE_CLAIM": "uid-1",
            "DRA_ADMIN_ACCESS": "false",
            "GPU_DEVICE_0": "gpu-0",
            "GPU_DEVICE_0_SHARING_STRATEGY": "TimeSlicing",
            "GPU_DEVICE_0_TIMESLICE_INTERVAL": "Default",
        }

    def test_configs_change_the_environment_of_containers(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        space = {"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": 10}}
        config = opaque(
            {"apiVersion": _GPU_API, "kind": "GpuConfig", "sharing": space}, "r1", driver="gpu.example.com"
        )
        first, second = node.start().prepare(
            claim("uid-1", "gpu-0", "gpu-1", driver="gpu.example.com", configs=(config,))
        )
        assert "GPU_DEVICE_0_PARTITION_COUNT" not in node.environment(first)
        environment = node.environment(second)
        assert environment["GPU_DEVICE_1_SHARING_STRATEGY"] == "SpacePartitioning"
        assert environment["GPU_DEVICE_1_PARTITION_COUNT"] == "10"
        assert "GPU_DEVICE_1_TIMESLICE_INTERVAL" not in environment

    def test_consumed_capacity_of_a_share_is_in_the_environment(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "gpu.example.com:shared-partitioned")
        share = result(
            "gpu-0-partition-0",
            driver="gpu.example.com",
            share_id="s1",
            consumed_capacity={"memory": "8192Mi", "compute": "10"},
        )
        (device,) = node.start().prepare(claim("uid-1", share, driver="gpu.example.com"))
        assert device.cdi_ids[1] == "k8s.gpu.example.com/gpu=uid-1-gpu-0-partition-0-s1"
        environment = node.environment(device)
        assert environment["GPU_DEVICE_0_PARTITION_0"] == "gpu-0-partition-0"
        assert environment["GPU_DEVICE_0_PARTITION_0_MEMORY"] == "8Gi"
        assert environment["GPU_DEVICE_0_PARTITION_0_COMPUTE"] == "10"

    def test_admin_access_is_in_the_environment(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        admin = result("gpu-4", driver="gpu.example.com", admin_access=True)
        answers = node.start().prepare(claim("uid-1", admin, driver="gpu.example.com"))
        assert node.environment(*answers)["DRA_ADMIN_ACCESS"] == "true"

    def test_rates_of_a_network_device_are_plain_numbers_in_the_environment(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "net.example.com")
        share = result(
            "nic-2",
            driver="net.example.com",
            share_id="s",
            consumed_capacity={"ingressBandwidth": "10G", "egressBandwidth": "5G", "vfs": "1"},
        )
        burst = {
            "apiVersion": "net.resource.example.com/v1alpha1",
            "kind": "NetConfig",
            "bwBurst": {"egressBurst": 8},
        }
        configs = (opaque(burst, driver="net.example.com"),)
        answers = node.start().prepare(claim("uid-1", share, driver="net.example.com", configs=configs))
        environment = node.environment(*answers)
        assert environment["NET_DEVICE_2_INGRESS_RATE"] == "10000000000"
        assert environment["NET_DEVICE_2_EGRESS_RATE"] == "5000000000"
        assert environment["NET_DEVICE_2_EGRESS_BURST"] == "8"
        assert "NET_DEVICE_2_INGRESS_BURST" not in environment

    def test_two_shares_of_one_numa_node_get_different_cpus(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "cpu.example.com:two-cpus")
        shares = [
            result(
                "numa-0",
                f"r{n}",
                "cpu.example.com",
                share_id=f"s{n}",
                consumed_capacity={"cpu.example.com/cpu": "1"},
            )
            for n in range(2)
        ]
        answers = node.start().prepare(claim("uid-1", *shares, driver="cpu.example.com"))
        assert [answer.share_id for answer in answers] == ["s0", "s1"]
        assert node.environment(*answers)["CPU_DEVICE_0_CONSUMED_CPU"] == "1"

    def test_a_driver_without_configs_rejects_configs(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "cpu.example.com")
        wanted = claim(
            "u", "numa-0", driver="cpu.example.com", configs=(opaque({}, driver="cpu.example.com"),)
        )
        with pytest.raises(PrepareError, match="prepare failed: configuration not allowed"):
            node.start().prepare(wanted)

    def test_device_nodes_and_attributes_are_injected(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "fpga.example.com")
        (answer,) = node.start().prepare(claim("uid-1", "fpga-2", driver="fpga.example.com"))
        edits = resolve(answer.cdi_ids, node.cdi)
        (device,) = edits.device_nodes
        assert (device.path, device.major, device.minor) == ("/dev/fpga-2", 240, 2)
        assert edits.environment()["FPGA_DEVICE_2_CLOCK_MHZ"] == "250"

    def test_a_device_of_another_node_is_rejected(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        with pytest.raises(PrepareError, match="requested device is not allocatable: gpu-99"):
            node.start().prepare(claim("u", "gpu-99", driver="gpu.example.com"))


def _full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class TestLife:
    def test_prepared_claims_survive_a_restart_and_are_removed_by_unprepare(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        wanted = claim("uid-1", "gpu-0", driver="gpu.example.com")
        first = node.start().prepare(wanted)
        state = node.start()
        assert state.prepare(wanted) == first
        state.unprepare(ref(wanted))
        state.unprepare(ref(wanted))
        assert [path.name for path in node.cdi.iterdir()] == ["k8s.gpu.example.com-gpu_common.yaml"]
        assert node.start().prepared_uids() == []

    @pytest.mark.parametrize("point", ["cdi-written", "checkpoint-completed"])
    def test_state_is_consistent_after_a_crash_in_prepare(self, tmp_path: Path, point: str) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        wanted = claim("uid-1", "gpu-0", driver="gpu.example.com")
        with pytest.raises(Crash):
            node.start(reached=crash_at(point)).prepare(wanted)
        state = node.start()
        state.prepare(wanted)
        state.unprepare(ref(wanted))
        assert len(list(node.cdi.iterdir())) == 1

    @pytest.mark.parametrize("point", ["cdi-removed", "checkpoint-removed"])
    def test_state_is_consistent_after_a_crash_in_unprepare(self, tmp_path: Path, point: str) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        wanted = claim("uid-1", "gpu-0", driver="gpu.example.com")
        node.start().prepare(wanted)
        with pytest.raises(Crash):
            node.start(reached=crash_at(point)).unprepare(ref(wanted))
        state = node.start()
        state.unprepare(ref(wanted))
        assert state.prepared_uids() == []
        assert len(list(node.cdi.iterdir())) == 1

    def test_files_without_a_claim_are_removed_at_start(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        node.start().prepare(claim("uid-1", "gpu-0", driver="gpu.example.com"))
        (node.directory / "checkpoint.json").unlink()
        node.start()
        assert len(list(node.cdi.iterdir())) == 1

    @pytest.mark.parametrize("left", [None, ""])
    def test_a_cdi_file_that_was_lost_is_written_again(self, tmp_path: Path, left: str | None) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        wanted = claim("uid-1", "gpu-0", driver="gpu.example.com")
        first = node.start().prepare(wanted)
        (file,) = node.cdi.glob("*uid-1*")
        content = file.read_text()
        file.unlink() if left is None else file.write_text(left)
        state = node.start()
        assert state.prepared_uids() == []
        assert state.prepare(wanted) == first
        assert file.read_text() == content

    def test_a_claim_whose_checkpoint_could_not_be_written_is_not_prepared(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        wanted = claim("uid-1", "gpu-0", driver="gpu.example.com")
        state = node.start()
        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", _full)
            with pytest.raises(OSError, match="No space left"):
                state.prepare(wanted)
        assert state.prepared_uids() == []
        state.unprepare(ref(wanted))
        assert len(list(node.cdi.iterdir())) == 1

    def test_a_damaged_checkpoint_is_an_error(self, tmp_path: Path) -> None:
        node = _Node(tmp_path, "gpu.example.com")
        (node.directory / "checkpoint.json").write_text("{")
        with pytest.raises(PrepareError, match="checkpoint is corrupted"):
            node.start()


@pytest.mark.parametrize(("kubernetes", "mapped"), [(V1_36, (True, False)), (V1_37, (False, True))])
@pytest.mark.parametrize("name", ["cpu.example.com", "cpu.example.com:two-cpus"])
def test_node_allocatable_resources_have_another_field_since_1_37(
    name: str, kubernetes: Version, mapped: tuple[bool, bool]
) -> None:
    profile = of_version(load_profile(name), kubernetes)
    for device in resources(profile, "n").pools["n"].slices[0].devices:
        found = device.node_allocatable_resource_mappings, device.node_allocatable_resources
        assert tuple(map(bool, found)) == mapped


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("cpu.example.com", {0, 1, 2, 3, 4, 5, 6, 7}),
        ("dra.cpu", {0, 1}),
        ("dra.cpu:individual", {0, 1}),
        ("dra.net", {0, 1}),
    ],
)
def test_the_standard_numa_node_is_published_since_1_37(name: str, nodes: set[int]) -> None:
    profile, key = load_profile(name), "resource.kubernetes.io/numaNode"
    for kubernetes in (V1_36, V1_37):
        (pool,) = resources(of_version(profile, kubernetes), "n").pools.values()
        devices = [device for part in pool.slices for device in part.devices]
        found = {device.attributes[key].int_ for device in devices if key in device.attributes}
        assert found == (nodes if kubernetes is V1_37 else set())
        assert kubernetes is V1_36 or all(key in device.attributes for device in devices)


def test_an_unknown_version_in_a_profile_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text('driver: d\ncdiClass: c\ndevices: [{device: {name: a}, since: {"9.9": {}}}]\n')
    with pytest.raises(DriverConfigError, match=r"since: unknown Kubernetes version '9\.9'"):
        of_version(load_profile(str(path)), V1_37)


def test_fields_of_later_versions_take_precedence_and_null_removes_a_field(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        """
driver: d
cdiClass: c
pools:
- name: "{node}/p"
  devices:
  - each: {i: 1}
    devices:
    - device: {name: "a{i}", attributes: {x: {int: 1}, z: {int: 1}}}
      since:
        "1.37": {attributes: {x: {int: 3}, z: null}}
        "1.35": {attributes: {x: {int: 2}}}
"""
    )
    found = []
    for version in (V1_34, V1_36, V1_37):
        pools = resources(of_version(load_profile(str(path)), version), "n").pools
        (device,) = pools["n/p"].slices[0].devices
        found.append({name: value.int_ for name, value in device.attributes.items()})
    assert found == [{"x": 1, "z": 1}, {"x": 2, "z": 1}, {"x": 3}]

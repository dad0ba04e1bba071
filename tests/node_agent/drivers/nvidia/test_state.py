from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.errors import PrepareError
from dra_node_agent.nvml.system import Process, caps_minor

from tests.driverkit.claims import claim, opaque, ref, result
from tests.node_agent.drivers.nvidia.node import Crash, Node, crash_at

_V1BETA1 = "resource.nvidia.com/v1beta1"
_DYNAMIC = "DynamicMIG=true,TimeSlicingSettings=true"
_MIG = "gpu-0-mig-1g10gb-19-3"


def _gpu_config(**sharing: Any) -> dict[str, Any]:
    return {"apiVersion": _V1BETA1, "kind": "GpuConfig", "sharing": sharing}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def _libcuda(spec: Any) -> str:
    paths: list[str] = [mount["containerPath"] for mount in spec["containerEdits"]["mounts"]]
    return next(path for path in paths if "libcuda.so." in path)


class TestPrepare:
    def test_common_cdi_edits_are_computed_again_after_five_minutes(self, node: Node) -> None:
        state = node.start()
        before = node.system.driver_version
        versions = {}
        for uid, seconds in (("uid-5", 0.0), ("uid-6", 299.0), ("uid-7", 2.0)):
            node.elapsed += seconds
            state.prepare(claim(uid, f"gpu-{uid[-1]}"))
            node.system.driver_version = "999.1"
            versions[uid] = _libcuda(node.specs()[uid]).partition(".so.")[2]
        assert versions == {"uid-5": before, "uid-6": before, "uid-7": "999.1"}

    def test_a_gpu_is_prepared_with_its_device_node_and_environment(self, node: Node) -> None:
        state = node.start()
        (device,) = state.prepare(claim("uid-1", "gpu-5"))
        assert (device.requests, device.pool, device.device) == (("r0",), "node-0", "gpu-5")
        assert device.cdi_ids == ("k8s.gpu.nvidia.com/claim=uid-1-gpu-5",)
        spec = node.specs()["uid-1"]
        assert spec["kind"] == "k8s.gpu.nvidia.com/claim"
        assert node.nodes_of("uid-1", "gpu-5") == ["/dev/nvidia5"]
        common: Any = spec["containerEdits"]
        assert common["env"] == [
            "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib/x86_64-linux-gnu",
            "NVIDIA_VISIBLE_DEVICES=void",
        ]
        assert {n["path"] for n in common["deviceNodes"]} == {
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
            "/dev/nvidia-uvm-tools",
            "/dev/nvidia-modeset",
        }
        lib = "/usr/lib/x86_64-linux-gnu"
        gbm, links, *others = (h["args"][1:] for h in common["hooks"])
        assert gbm == [
            "create-symlinks",
            "--link",
            f"../libnvidia-allocator.so.1::{lib}/gbm/nvidia-drm_gbm.so",
        ]
        assert links[:5] == [
            "create-symlinks",
            "--link",
            f"libcuda.so.1::{lib}/libcuda.so",
            "--link",
            f"libcuda.so.580.95.05::{lib}/libcuda.so.1",
        ]
        assert f"libnvidia-nvvm.so.580.95.05::{lib}/libnvidia-nvvm.so.4" in links
        assert not any("gpucomp" in link for link in links)
        assert [args[0] for args in others] == [
            "enable-cuda-compat",
            "update-ldcache",
            "disable-device-node-modification",
        ]
        assert all(Path(m["hostPath"]).exists() for m in common["mounts"])
        assert common["mounts"][0]["containerPath"] == "/usr/bin/nvidia-cuda-mps-control"

    def test_device_nodes_are_described_as_the_container_toolkit_does(self, node: Node) -> None:
        node.start().prepare(claim("uid-1", "gpu-1-mig-2g10gb-14-0"))
        spec: Any = node.specs()["uid-1"]
        gpu, instance, _ = spec["devices"][0]["containerEdits"]["deviceNodes"]
        assert gpu == {
            "path": "/dev/nvidia1",
            "major": 195,
            "minor": 1,
            "fileMode": 0o666,
            "permissions": "rwm",
        }
        assert (instance["type"], instance["fileMode"]) == ("c", 0o444)
        assert "permissions" not in instance

    def test_a_static_mig_device_gets_its_capability_nodes(self, node: Node) -> None:
        state = node.start()
        state.prepare(claim("uid-1", "gpu-1-mig-2g10gb-14-0"))
        instance = next(i for i, _ in node.system.gpus[1].mig_devices() if i.profile.id == 14)
        assert node.nodes_of("uid-1", "gpu-1-mig-2g10gb-14-0") == [
            "/dev/nvidia1",
            f"/dev/nvidia-caps/nvidia-cap{caps_minor(1, instance.id)}",
            f"/dev/nvidia-caps/nvidia-cap{caps_minor(1, instance.id, 0)}",
        ]
        state.unprepare(ref(claim("uid-1")))
        assert node.count_mig_devices() == 16

    def test_preparing_is_idempotent_across_a_restart(self, node: Node) -> None:
        first = node.start().prepare(claim("uid-1", "gpu-5", "gpu-6"))
        written = (node.cdi / "k8s.gpu.nvidia.com-claim_uid-1.yaml").stat().st_mtime_ns
        again = node.start()
        assert again.prepare(claim("uid-1", "gpu-5", "gpu-6")) == first
        assert (node.cdi / "k8s.gpu.nvidia.com-claim_uid-1.yaml").stat().st_mtime_ns == written

    def test_unprepare_removes_everything_and_may_be_repeated(self, node: Node) -> None:
        state = node.start()
        wanted = claim("uid-1", "gpu-5")
        state.prepare(wanted)
        state.unprepare(ref(wanted))
        state.unprepare(ref(wanted))
        state.unprepare(ref(claim("never-seen")))
        assert node.specs() == {}
        assert state.prepared_claims() == {}

    def test_devices_of_another_driver_are_ignored(self, node: Node) -> None:
        mixed = claim("uid-1", result("nic-0", "net", driver="net.example.com"), result("gpu-5", "gpu"))
        assert [device.device for device in node.start().prepare(mixed)] == ["gpu-5"]

    @pytest.mark.parametrize(
        ("wanted", "message"),
        [
            (claim("uid-1", "gpu-9"), 'prepare devices failed: allocatable not found for device "gpu-9"'),
            (claim("uid-1", "gpu-0"), 'allocatable not found for device "gpu-0"'),
        ],
    )
    def test_claims_for_devices_that_do_not_exist_are_rejected(
        self, node: Node, wanted: Any, message: str
    ) -> None:
        state = node.start()
        with pytest.raises(PrepareError, match=message):
            state.prepare(wanted)
        state.unprepare(ref(wanted))
        assert node.specs() == {}
        assert state.prepared_claims() == {}

    def test_a_device_is_prepared_for_one_claim_only(self, node: Node) -> None:
        state = node.start()
        state.prepare(claim("uid-1", "gpu-5"))
        with pytest.raises(
            PrepareError, match="requested device gpu-5 is already allocated to different claim uid-1"
        ):
            state.prepare(claim("uid-2", "gpu-6", "gpu-5"))
        assert set(state.prepared_claims()) == {"uid-1"}

    def test_a_claim_with_admin_access_may_use_a_prepared_device(self, node: Node) -> None:
        state = node.start()
        state.prepare(claim("uid-1", "gpu-5"))
        state.prepare(claim("uid-2", result("gpu-5", admin_access=True)))
        state.prepare(claim("uid-3", "gpu-6"))
        assert len(node.specs()) == 3


class TestShares:
    """Several claims for one device, with consumable shares."""

    def test_several_claims_may_use_one_device(self, tmp_path: Path) -> None:
        node = Node(tmp_path, shared=True)
        state = node.start()
        shared = claim("uid-1", result("gpu-7", share_id="a"), result("gpu-7", "r1", share_id="b"))
        assert [device.share_id for device in state.prepare(shared)] == ["a", "b"]
        state.prepare(claim("uid-2", result("gpu-7", share_id="c")))
        assert len(node.specs()) == 2

    def test_claims_with_conflicting_configurations_are_rejected(self, tmp_path: Path) -> None:
        state = Node(tmp_path, shared=True).start()
        slicing = _gpu_config(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})
        state.prepare(claim("uid-1", result("gpu-7", share_id="a"), configs=(opaque(slicing),)))
        with pytest.raises(PrepareError) as refused:
            state.prepare(claim("uid-2", result("gpu-7", share_id="b")))
        assert str(refused.value) == (
            "unable to prepare claim uid-2: requested device gpu-7 has conflicting configuration with "
            "already prepared claim uid-1"
        )
        state.prepare(claim("uid-3", result("gpu-7", share_id="b"), configs=(opaque(slicing),)))

    def test_an_unchanged_time_slice_is_not_stored_again(self, tmp_path: Path) -> None:
        node = Node(tmp_path)
        state = node.start()
        kept: list[int] = []
        node.system.keep = lambda system: kept.append(system.gpus[5].time_slice)
        sliced = opaque(_gpu_config(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"}))
        state.prepare(claim("uid-1", "gpu-5"))
        state.prepare(claim("uid-2", result("gpu-6"), configs=(sliced,)))
        assert len(kept) == 1

    def test_the_last_claim_resets_the_time_slice(self, tmp_path: Path) -> None:
        node = Node(tmp_path, shared=True)
        state = node.start()
        slicing = opaque(_gpu_config(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"}))
        claims = [claim(f"uid-{n}", result("gpu-7", share_id=str(n)), configs=(slicing,)) for n in (1, 2)]
        for one in claims:
            state.prepare(one)
        long = node.system.gpus[7].time_slice
        assert long
        state.unprepare(ref(claims[0]))
        assert node.system.gpus[7].time_slice == long
        state.unprepare(ref(claims[1]))
        assert node.system.gpus[7].time_slice == 0

    def test_a_mig_device_is_created_by_the_first_claim_and_destroyed_by_the_last(
        self, tmp_path: Path
    ) -> None:
        node = Node(tmp_path, "1xH100:whole", _DYNAMIC, shared=True)
        state = node.start()
        claims = [claim(f"uid-{n}", result(_MIG, share_id=str(n))) for n in (1, 2)]
        for one in claims:
            state.prepare(one)
        assert node.count_mig_devices() == 1
        assert node.nodes_of("uid-1", _MIG) == node.nodes_of("uid-2", _MIG)
        state.unprepare(ref(claims[0]))
        assert node.count_mig_devices() == 1
        state.unprepare(ref(claims[1]))
        assert node.count_mig_devices() == 0

    def test_mps_is_rejected_if_consumable_shares_are_enabled(self, tmp_path: Path) -> None:
        state = Node(tmp_path, shared=True).start()
        with pytest.raises(
            PrepareError, match="MPS sharing is not supported when consumable shares is enabled"
        ):
            state.prepare(claim("uid-1", "gpu-7", configs=(opaque(_gpu_config(strategy="MPS")),)))


class TestSharing:
    def test_time_slicing_and_mps_are_configured_in_one_claim(self, node: Node) -> None:
        state = node.start()
        wanted = claim(
            "uid-1",
            result("gpu-5", "ts"),
            result("gpu-6", "mps"),
            configs=(
                opaque(_gpu_config(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"}), "ts"),
                opaque(
                    _gpu_config(
                        strategy="MPS",
                        mpsConfig={
                            "defaultActiveThreadPercentage": 50,
                            "defaultPinnedDeviceMemoryLimit": "10Gi",
                            "defaultPerDevicePinnedMemoryLimit": {"0": "2Gi"},
                        },
                    ),
                    "mps",
                ),
            ),
        )
        state.prepare(wanted)
        sliced, shared = node.system.gpus[5], node.system.gpus[6]
        assert (sliced.time_slice, sliced.compute_mode) == (3, 0)
        assert shared.compute_mode == 3
        (daemon,) = (node.directory / "mps").iterdir()
        assert daemon.name.startswith("uid-1-")
        commands = (daemon / "log" / "control.log").read_text()
        assert f"CUDA_VISIBLE_DEVICES={shared.uuid}\n" in commands
        assert "set_default_active_thread_percentage 50\n" in commands
        assert f"set_default_device_pinned_mem_limit {shared.uuid} 2048M\n" in commands
        devices: Any = node.specs()["uid-1"]["devices"]
        by_name = {device["name"]: device["containerEdits"] for device in devices}
        assert "env" not in by_name["uid-1-gpu-5"]
        assert by_name["uid-1-gpu-6"]["env"] == ["CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps"]
        assert [m["containerPath"] for m in by_name["uid-1-gpu-6"]["mounts"]] == [
            "/dev/shm",
            "/tmp/nvidia-mps",
        ]
        state.unprepare(ref(wanted))
        assert list((node.directory / "mps").iterdir()) == []
        assert (sliced.time_slice, shared.compute_mode) == (0, 0)

    def test_later_configs_and_configs_of_the_claim_take_precedence(self, node: Node) -> None:
        def slicing_config(interval: str) -> dict[str, Any]:
            return _gpu_config(strategy="TimeSlicing", timeSlicingConfig={"interval": interval})

        state = node.start()
        state.prepare(
            claim(
                "uid-1",
                "gpu-4",
                "gpu-5",
                configs=(
                    opaque(slicing_config("Long"), "r0"),
                    opaque(slicing_config("Short")),
                    opaque(slicing_config("Medium"), source="FromClass"),
                ),
            )
        )
        assert [node.system.gpus[n].time_slice for n in (4, 5)] == [1, 1]

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            (
                {"apiVersion": _V1BETA1, "kind": "MigDeviceConfig"},
                'cannot apply MigDeviceConfig to device "gpu-5" of type "gpu" \\(request: r0\\)',
            ),
            (
                {"apiVersion": _V1BETA1, "kind": "GpuConfig", "unknownField": 1},
                "prepare devices failed: error getting opaque device configs: error decoding config parameters: "
                'strict decoding error: unknown field "unknownField"',
            ),
            (_gpu_config(strategy="Luck"), "unknown GPU sharing strategy: Luck, supported"),
            (
                _gpu_config(strategy="TimeSlicing", timeSlicingConfig={"interval": "Forever"}),
                "unknown time-slice interval: Forever, supported time-slice intervals: Default, Short, Medium, Long",
            ),
            (
                _gpu_config(strategy="MPS", mpsConfig={"defaultActiveThreadPercentage": 101}),
                "active thread percentage must not be greater than 100",
            ),
            (
                _gpu_config(strategy="MPS", mpsConfig={"defaultActiveThreadPercentage": -1}),
                "must not be negative",
            ),
            (
                _gpu_config(strategy="MPS", mpsConfig={"defaultPinnedDeviceMemoryLimit": "1k"}),
                "error applying config: invalid limit: default value set too low: 1k",
            ),
            (
                _gpu_config(strategy="MPS", mpsConfig={"defaultPerDevicePinnedMemoryLimit": {"3": "1Gi"}}),
                "invalid device: invalid device index: 3",
            ),
            (
                _gpu_config(strategy="MPS", mpsConfig={"defaultPerDevicePinnedMemoryLimit": {"x": "1Gi"}}),
                "unable to parse key as an integer: x",
            ),
            (
                _gpu_config(strategy="TimeSlicing", mpsConfig={}),
                "cannot use MpsConfig with the 'TimeSlicing' strategy",
            ),
            (
                {"apiVersion": _V1BETA1, "kind": "ComputeDomainDaemonConfig", "domainID": "x"},
                "not a recognized configuration",
            ),
        ],
    )
    def test_configs_that_cannot_be_applied_are_rejected(
        self, node: Node, config: dict[str, Any], message: str
    ) -> None:
        state = node.start()
        wanted = claim("uid-1", "gpu-5", configs=(opaque(config, "r0"),))
        with pytest.raises(PrepareError, match=message):
            state.prepare(wanted)
        state.unprepare(ref(wanted))
        assert not list((node.directory / "mps").glob("*"))

    def test_a_config_for_all_requests_skips_devices_of_other_types(self, node: Node) -> None:
        config = {"apiVersion": _V1BETA1, "kind": "MigDeviceConfig", "sharing": {"strategy": "MPS"}}
        state = node.start()
        state.prepare(claim("uid-1", "gpu-5", "gpu-0-mig-3g20gb-9-4", configs=(opaque(config),)))
        (daemon,) = (node.directory / "mps").iterdir()
        assert "CUDA_VISIBLE_DEVICES=MIG-" in (daemon / "log" / "control.log").read_text()
        assert node.system.gpus[5].compute_mode == 0

    def test_a_sharing_strategy_is_rejected_if_its_gate_is_disabled(self, tmp_path: Path) -> None:
        node = Node(tmp_path, gates="")
        with pytest.raises(
            PrepareError,
            match='"MPS" is selected as the GPU sharing strategy, but the "MPSSupport" feature gate is not enabled',
        ):
            node.start().prepare(
                claim("uid-1", "gpu-5", configs=(opaque(_gpu_config(strategy="MPS"), "r0"),))
            )


class TestDynamicMig:
    def test_mig_devices_are_created_and_destroyed(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "2xH100:whole", _DYNAMIC)
        state = node.start()
        wanted = claim("uid-1", _MIG, "gpu-1-mig-3g40gb-9-4")
        state.prepare(wanted)
        assert node.count_mig_devices() == 2
        assert node.system.gpus[0].mig_enabled
        instance = next(iter(node.system.gpus[0].instances.values()))
        assert instance.start == 3
        assert f"/dev/nvidia-caps/nvidia-cap{caps_minor(0, instance.id)}" in node.nodes_of("uid-1", _MIG)
        state.unprepare(ref(wanted))
        assert node.count_mig_devices() == 0
        assert not node.system.gpus[0].mig_enabled

    def test_destroying_a_mig_device_in_use_fails_and_is_retried(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "1xH100:whole", _DYNAMIC)
        state = node.start()
        wanted = claim("uid-1", _MIG)
        state.prepare(wanted)
        instance = next(iter(node.system.gpus[0].instances.values()))
        node.system.gpus[0].processes.append(Process(1, "train", 10, instance.id, 0))
        with pytest.raises(PrepareError, match=f"error deleting MIG device {_MIG}: error destroying"):
            state.unprepare(ref(wanted))
        assert "uid-1" in state.prepared_claims()
        node.system.gpus[0].processes.clear()
        state.unprepare(ref(wanted))
        assert node.count_mig_devices() == 0

    def test_preparation_of_a_claim_that_does_not_fit_is_rolled_back(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "1xH100:whole", _DYNAMIC)
        state = node.start()
        wrong = claim("uid-1", _MIG, "gpu-0-mig-4g40gb-5-0")
        with pytest.raises(PrepareError, match="error creating GPU instance for 'gpu-0-mig-4g40gb-5-0'"):
            state.prepare(wrong)
        assert node.count_mig_devices() == 1
        state.unprepare(ref(wrong))
        assert node.count_mig_devices() == 0

    def test_a_restart_destroys_mig_devices_without_a_claim(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "1xA100-SXM4-40GB:1g.5gb+3g.20gb", _DYNAMIC)
        node.start()
        assert node.count_mig_devices() == 0
        assert node.system.gpus[0].mig_enabled


class TestVfio:
    def test_a_prepared_gpu_is_published_only_in_the_form_in_which_it_is_used(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "2xL4", "PassthroughSupport=true")
        state = node.start()
        config = {
            "apiVersion": _V1BETA1,
            "kind": "VfioDeviceConfig",
            "iommu": {"backendPolicy": "PreferIommuFD", "enableAPIDevice": True},
        }
        wanted = claim("uid-1", "gpu-vfio-0", configs=(opaque(config),))
        state.prepare(wanted)
        assert [gpu.vfio for gpu in node.system.gpus] == [True, False]
        assert state.find_allocatable("gpu-0") is None
        spec: Any = node.specs()["uid-1"]
        assert spec["containerEdits"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
        assert spec["containerEdits"]["deviceNodes"] == [{"path": "/dev/iommu"}]
        assert node.nodes_of("uid-1", "gpu-vfio-0") == ["/dev/vfio/devices/vfio0"]
        state.unprepare(ref(wanted))
        assert [gpu.vfio for gpu in node.system.gpus] == [False, False]
        assert state.find_allocatable("gpu-0") is not None

    def test_the_legacy_backend_passes_the_iommu_group(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "2xL4", "PassthroughSupport=true")
        node.start().prepare(claim("uid-1", "gpu-vfio-1"))
        assert node.nodes_of("uid-1", "gpu-vfio-1") == ["/dev/vfio/21"]

    def test_metadata_of_a_vfio_device_is_reported(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "2xL4", "PassthroughSupport=true,DeviceMetadata=true")
        node.described = True
        wanted = claim("uid-1", "gpu-vfio-1")
        (device,) = node.start().prepare(wanted)
        assert device.metadata is not None
        assert device.metadata.attributes["type"].string == "vfio"
        assert node.start().prepare(wanted) == [device], "the checkpoint has it, too"
        (plain,) = node.start().prepare(claim("uid-2", "gpu-0"))
        assert plain.metadata is None

    def test_a_claim_has_at_most_one_vfio_config(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "2xL4", "PassthroughSupport=true")
        config = {"apiVersion": _V1BETA1, "kind": "VfioDeviceConfig"}
        wanted = claim(
            "uid-1", "gpu-vfio-0", "gpu-vfio-1", configs=(opaque(config, "r0"), opaque(config, "r1"))
        )
        with pytest.raises(PrepareError, match="at most one VfioDeviceConfig"):
            node.start().prepare(wanted)


_PREPARE_POINTS = [
    "checkpoint-started",
    "mig-created",
    "devices-prepared",
    "cdi-written",
    "checkpoint-completed",
]
_UNPREPARE_POINTS = ["mig-deleted", "devices-unprepared", "cdi-removed", "checkpoint-removed"]


class TestCrashes:
    """After kill -9 between any two steps and a restart, files, checkpoint and hardware agree."""

    @pytest.mark.parametrize("point", _PREPARE_POINTS)
    @pytest.mark.parametrize("then", ["retried", "deleted"])
    def test_state_is_consistent_after_a_crash_in_prepare(
        self, tmp_path: Path, point: str, then: str
    ) -> None:
        node = Node(tmp_path, "2xH100:whole", _DYNAMIC)
        wanted = claim("uid-1", _MIG, "gpu-0-mig-1g10gb-19-4", "gpu-1")
        with pytest.raises(Crash):
            node.start(crash_at(point)).prepare(wanted)
        state = node.start()
        self._agree(node, state)
        if then == "retried":
            assert len(state.prepare(wanted)) == 3
            assert node.count_mig_devices() == 2
            assert list(node.specs()) == ["uid-1"]
        state.unprepare(ref(wanted))
        assert node.count_mig_devices() == 0
        assert node.specs() == {}
        assert state.prepared_claims() == {}

    @pytest.mark.parametrize("point", _UNPREPARE_POINTS)
    def test_state_is_consistent_after_a_crash_in_unprepare(self, tmp_path: Path, point: str) -> None:
        node = Node(tmp_path, "2xH100:whole", _DYNAMIC)
        wanted = claim("uid-1", _MIG, "gpu-1")
        node.start().prepare(wanted)
        with pytest.raises(Crash):
            node.start(crash_at(point)).unprepare(ref(wanted))
        state = node.start()
        self._agree(node, state)
        state.unprepare(ref(wanted))
        assert node.count_mig_devices() == 0
        assert node.specs() == {}

    def test_state_is_consistent_after_a_crash_between_two_mig_devices(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "1xH100:whole", _DYNAMIC)
        wanted = claim("uid-1", _MIG, "gpu-0-mig-1g10gb-19-4")
        with pytest.raises(Crash):
            node.start(crash_at("mig-created", 2)).prepare(wanted)
        state = node.start()
        assert node.count_mig_devices() == 0
        state.prepare(wanted)
        assert node.count_mig_devices() == 2

    def test_mps_daemons_of_an_interrupted_preparation_are_stopped(self, node: Node) -> None:
        wanted = claim("uid-1", "gpu-5", configs=(opaque(_gpu_config(strategy="MPS"), "r0"),))
        with pytest.raises(Crash):
            node.start(crash_at("devices-prepared")).prepare(wanted)
        node.start().unprepare(ref(wanted))
        assert not list((node.directory / "mps").iterdir())
        assert node.system.gpus[5].compute_mode == 0

    def test_rolling_back_a_claim_keeps_devices_of_other_claims(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "1xH100:whole", _DYNAMIC)
        late = claim("uid-2", _MIG)
        with pytest.raises(Crash):
            node.start(crash_at("checkpoint-started")).prepare(late)
        state = node.start()
        state.prepare(claim("uid-1", _MIG))
        state.unprepare(ref(late))
        assert node.count_mig_devices() == 1
        assert set(state.prepared_claims()) == {"uid-1"}

    def _agree(self, node: Node, state: Any) -> None:
        claims = state.prepared_claims()
        assert set(node.specs()) <= set(claims)
        completed = [uid for uid, entry in claims.items() if entry.state == "PrepareCompleted"]
        if not completed:
            assert node.count_mig_devices() == 0


class TestReboot:
    def test_a_reboot_discards_the_checkpoint_and_its_files(self, node: Node) -> None:
        node.start().prepare(claim("uid-1", "gpu-5"))
        node.system.boot_id = "boot-2"
        state = node.start()
        assert state.prepared_claims() == {}
        assert node.specs() == {}

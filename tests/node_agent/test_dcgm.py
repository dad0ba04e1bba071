"""Metrics of GPUs in the format of dcgm-exporter."""

from collections.abc import Sequence

import httpx
import pytest
from dra_driverkit.proto import podresources_v1_pb2 as pb
from dra_node_agent.dcgm import render
from dra_node_agent.nvml.load import LOAD_ROUTE, LoadSetter
from dra_node_agent.nvml.node import open_system
from dra_node_agent.nvml.system import NO_INSTANCE, Process, SimulatedSystem
from dra_shared.service import HealthServer
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.cases import each_case


def _samples(text: str, name: str) -> list[Sample]:
    return [s for family in text_string_to_metric_families(text) for s in family.samples if s.name == name]


def _container_with_claim(device: str) -> pb.ContainerResources:
    resource = pb.ClaimResource(driver_name="gpu.nvidia.com", pool_name="node-0", device_name=device)
    claim = pb.DynamicResource(claim_name="claim", claim_namespace="ns", claim_resources=[resource])
    return pb.ContainerResources(name="main", dynamic_resources=[claim])


def _pod(name: str, *containers: pb.ContainerResources) -> pb.PodResources:
    return pb.PodResources(name=name, namespace="ns", containers=containers)


def _text(system: SimulatedSystem, pods: Sequence[pb.PodResources] = ()) -> str:
    return render([("node-0", system, pods)])


def test_a_gpu_metric_has_the_format_of_dcgm_exporter() -> None:
    system = open_system("1xH100", "node-0")
    uuid = system.gpus[0].uuid
    assert (
        "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="{uuid}",pci_bus_id="00000000:07:00.0",device="nvidia0",'
        'modelName="NVIDIA H100 80GB HBM3",Hostname="node-0",DCGM_FI_DRIVER_VERSION="580.95.05"} 31\n'
    ) in _text(system)


def test_metrics_show_load_xids_and_used_memory() -> None:
    system = open_system("2xH100", "node-0")
    gpu = system.gpus[1]
    gpu.utilization = 50
    gpu.processes.append(Process(1, "train", 40960))
    system.inject_xid(1, 79)
    text = _text(system)

    def value(name: str) -> float:
        return next(s.value for s in _samples(text, name) if s.labels["gpu"] == "1")

    assert value("DCGM_FI_DEV_GPU_UTIL") == 50
    assert value("DCGM_FI_PROF_GR_ENGINE_ACTIVE") == 0.5
    assert value("DCGM_FI_DEV_FB_USED") == 40960
    assert value("DCGM_FI_DEV_FB_FREE") == 81559 - 40960
    assert value("DCGM_FI_DEV_POWER_USAGE") == pytest.approx(364)
    xid = next(s for s in _samples(text, "DCGM_FI_DEV_XID_ERRORS") if s.labels["gpu"] == "1")
    assert (xid.value, xid.labels["err_code"], xid.labels["err_msg"]) == (
        79,
        "79",
        "GPU has fallen off the bus",
    )


def test_pods_with_claims_are_in_the_labels() -> None:
    system = open_system("2xH100", "node-0")
    text = _text(
        system,
        [
            _pod("a", _container_with_claim("gpu-1")),
            _pod("b", _container_with_claim("gpu-1")),
            _pod("c", _container_with_claim("gpu-9")),
        ],
    )
    found = _samples(text, "DCGM_FI_DEV_GPU_UTIL")
    assert [(s.labels["gpu"], s.labels.get("pod")) for s in found] == [("0", None), ("1", "a"), ("1", "b")]
    assert (
        found[1].labels.items()
        >= {
            "namespace": "ns",
            "container": "main",
            "dra_claim_name": "claim",
            "dra_claim_namespace": "ns",
            "dra_driver_name": "gpu.nvidia.com",
            "dra_pool_name": "node-0",
            "dra_device_name": "gpu-1",
        }.items()
    )


def test_mig_devices_have_metrics_by_gpu_instance() -> None:
    system = open_system("1xA100-SXM4-40GB:3g.20gb+1g.5gb", "node-0")
    instance = next(i for i in system.gpus[0].instances.values() if i.profile.slices == 1)
    system.gpus[0].processes.append(Process(1, "train", 1000, instance.id, 0))
    text = _text(
        system, [_pod("a", _container_with_claim(f"gpu-0-mig-1g5gb-{instance.profile.id}-{instance.start}"))]
    )
    assert not _samples(text, "DCGM_FI_DEV_GPU_UTIL")
    used = {s.labels["GPU_I_PROFILE"]: s for s in _samples(text, "DCGM_FI_DEV_FB_USED")}
    assert used["3g.20gb"].value == 0
    assert "pod" not in used["3g.20gb"].labels
    assert used["1g.5gb"].value == 1000
    assert used["1g.5gb"].labels["GPU_I_ID"] == str(instance.id)
    assert used["1g.5gb"].labels["pod"] == "a"
    assert used["1g.5gb"].labels["dra_mig_profile"] == "1g.5gb"
    assert used["1g.5gb"].labels["dra_mig_device_uuid"] == instance.compute_instances[0].uuid


def test_pods_with_gpus_of_a_device_plugin_are_in_the_labels() -> None:
    system = open_system("2xT4", "node-0")
    ids = [f"{system.gpus[0].uuid}::3"]
    device = pb.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=ids)
    text = _text(system, [_pod("a", pb.ContainerResources(name="main", devices=[device]))])
    assert [s.labels.get("pod") for s in _samples(text, "DCGM_FI_DEV_GPU_UTIL")] == ["a", None]


def test_lost_gpus_have_no_metrics() -> None:
    system = open_system("2xT4", "node-0")
    system.lose(0)
    assert [s.labels["gpu"] for s in _samples(_text(system), "DCGM_FI_DEV_GPU_TEMP")] == ["1"]


async def _load(system: SimulatedSystem, path: str, body: str) -> httpx.Response:
    setter = LoadSetter(lambda name: system if name == "node-0" else None)
    async with (
        HealthServer("127.0.0.1", 0, {}, {LOAD_ROUTE: setter.set}) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=30) as client,
    ):
        return await client.post(f"/simulated/nodes/{path}/load", content=body)


async def test_the_simulated_load_of_a_gpu_is_set_and_cleared_over_http() -> None:
    system = open_system("1xT4", "node-0")
    assert (await _load(system, "node-0/gpus/0", '{"utilization": 80, "memoryMiB": 100}')).status_code == 204
    assert (system.gpus[0].utilization, system.gpus[0].used_mib) == (80, 100)
    assert (await _load(system, "node-0/gpus/0", '{"memoryMiB": 0}')).status_code == 204
    assert (system.gpus[0].utilization, system.gpus[0].processes) == (80, [])


async def test_the_simulated_memory_usage_can_be_set_on_one_mig_device() -> None:
    system = open_system("1xA100-SXM4-40GB:3g.20gb", "node-0")
    (number,) = system.gpus[0].instances
    body = f'{{"memoryMiB": 7, "gpuInstance": {number}, "computeInstance": 0}}'
    assert (await _load(system, "node-0/gpus/0", body)).status_code == 204
    (process,) = system.gpus[0].processes
    assert (process.gpu_instance, process.compute_instance, process.used_mib) == (number, 0, 7)
    assert process.gpu_instance != NO_INSTANCE


@each_case(
    ("path", "body", "code", "message"),
    [
        ("other/gpus/0", "{}", 404, "node 'other' has no simulated GPUs"),
        ("node-0/gpus/7", "{}", 404, "node 'node-0' has no GPU '7', only 0 to 1"),
        ("node-0/gpus/0", "{", 400, "cannot read the load"),
        ("node-0/gpus/0", '{"utilization": 101}', 400, "utilization is 0 to 100, not 101"),
        ("node-0/gpus/0", '{"memoryMiB": 20000}', 400, "memoryMiB is 0 to 15360, not 20000"),
        ("node-0/gpus/1", '{"memoryMiB": 1}', 400, "GPU 1 is in MIG mode"),
    ],
)
async def test_a_simulated_load_that_a_gpu_cannot_have_is_rejected(
    path: str, body: str, code: int, message: str
) -> None:
    answer = await _load(open_system("1xT4,1xA100:mig", "node-0"), path, body)
    assert answer.status_code == code
    assert message in answer.text

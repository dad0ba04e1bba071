"""Claims of a pod in containers, statuses and PodResources, for unusual responses of drivers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_driverkit.proto import podresources_v1_pb2, rpc
from dra_node_agent.kubelet.dra.checkpoint import CheckpointDevice
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfo
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.health import truncate_message
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_node_agent.kubelet.observed import Observed
from dra_node_agent.kubelet.podresources import SOCKET, PodResourcesServer
from dra_node_agent.kubelet.podstatus import pod_status
from dra_node_agent.runtime.base import ContainerRecord, State
from dra_shared.api.codec import convert
from dra_shared.api.container import ContainerStatus
from dra_shared.api.pod import Pod, PodStatus
from dra_shared.api.resources import PODS
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from grpc import aio

from tests.support.fakeapi import FakeApi
from tests.support.kubelet.bench import no_devices, pod

_NOW = "2026-01-01T00:00:00Z"
_RECORD = ContainerRecord("id", "ns", "pod", "pod-uid", "main", 0, "x", "x", state=State.RUNNING)


@asynccontextmanager
async def _manager(tmp_path: Path, *devices: CheckpointDevice) -> AsyncIterator[DraManager]:
    manager = DraManager(tmp_path, FakeApi().client(), FakeClock(), FeatureGates(), durable=False)
    info = manager.cache.add(ClaimInfo("ns", "gpus", "gpus-uid"))
    for device in devices:
        info.add_device("driver", device)
    yield manager
    await manager.close()


def _device(name: str, *requests: str, cdi: str = "") -> CheckpointDevice:
    return CheckpointDevice("pool", name, None, requests or None, (cdi or f"driver/claim={name}",))


def _pod(*claims: dict[str, Any], phase: str = "Pending") -> Pod:
    obj = pod(
        "pod",
        {"name": "main", "image": "x", "resources": {"claims": list(claims)}},
        resourceClaims=[{"name": "gpus", "resourceClaimName": "gpus"}],
    )
    return convert(PODS, {**obj, "status": {"phase": phase}})


@asynccontextmanager
async def _pod_resources(folder: Path, manager: DraManager, pod: Pod) -> AsyncIterator[Any]:
    server = PodResourcesServer(folder, manager, no_devices(folder), lambda: [pod])
    options = (("grpc.default_authority", "localhost"),)
    async with server, aio.insecure_channel(f"unix:{folder / SOCKET}", options=options) as channel:
        yield rpc.stub(podresources_v1_pb2, "PodResourcesLister", channel)


async def test_requests_are_matched_by_the_names_in_the_driver_response(tmp_path: Path) -> None:
    async with _manager(tmp_path, _device("gpu-0", "gpu"), _device("gpu-1", "gpu/large")) as manager:
        pod = _pod({"name": "gpus", "request": "gpu"})
        assert manager.containers.cdi_device_ids(pod, pod.spec.containers[0]) == ["driver/claim=gpu-0"]


async def test_only_claims_that_a_container_uses_must_be_prepared(tmp_path: Path) -> None:
    async with _manager(tmp_path) as manager:
        manager.cache.delete("ns", "gpus")
        assert manager.containers.cdi_device_ids(_pod(), _pod().spec.containers[0]) == []
        pod = _pod({"name": "gpus"})
        with pytest.raises(DraError) as raised:
            manager.containers.cdi_device_ids(pod, pod.spec.containers[0])
        message = "internal error: unable to get claim info for ResourceClaim gpus in namespace ns"
        assert str(raised.value) == message


async def test_two_devices_with_the_same_cdi_id_report_health_once(tmp_path: Path) -> None:
    shared = "driver/claim=both"
    async with _manager(tmp_path, _device("a", cdi=shared), _device("b", cdi=shared)) as manager:
        pod = _pod({"name": "gpus"})
        status = PodStatus(container_statuses=(ContainerStatus(name="main"),))
        (main,) = manager.pod_health.add_health(pod, status).container_statuses
        (resource,) = main.allocated_resources_status
        assert [entry.resource_id for entry in resource.resources] == [shared]


async def test_device_health_is_removed_when_the_claim_is_unprepared(tmp_path: Path) -> None:
    async with _manager(tmp_path, _device("a")) as manager:
        pod = _pod({"name": "gpus"})
        records = {"main": [_RECORD]}
        pod = msgspec.structs.replace(
            pod, status=manager.pod_health.add_health(pod, pod_status(pod, Observed(records), _NOW))
        )
        assert pod.status.container_statuses[0].allocated_resources_status
        manager.cache.delete("ns", "gpus")
        status = manager.pod_health.add_health(pod, pod_status(pod, Observed(records), _NOW))
        assert status.container_statuses[0].allocated_resources_status == ()


async def test_pod_resources_lists_a_claim_once_with_all_its_devices(tmp_path: Path) -> None:
    async with _manager(tmp_path, _device("gpu-0", "a"), _device("gpu-1", "b")) as manager:
        pod = _pod({"name": "gpus", "request": "a"}, {"name": "gpus", "request": "b"})
        async with _pod_resources(tmp_path, manager, pod) as stub:
            answer = await stub.Get(
                podresources_v1_pb2.GetPodResourcesRequest(pod_name="pod", pod_namespace="ns")
            )
        (claim,) = answer.pod_resources.containers[0].dynamic_resources
        assert [
            (device.device_name, [cdi.name for cdi in device.cdi_devices]) for device in claim.claim_resources
        ] == [
            ("gpu-0", ["driver/claim=gpu-0"]),
            ("gpu-1", ["driver/claim=gpu-0", "driver/claim=gpu-1"]),
        ]


async def test_pod_resources_does_not_find_finished_pods(tmp_path: Path) -> None:
    async with _manager(tmp_path) as manager:
        async with _pod_resources(tmp_path, manager, _pod(phase="Succeeded")) as stub:
            with pytest.raises(aio.AioRpcError) as raised:
                await stub.Get(podresources_v1_pb2.GetPodResourcesRequest(pod_name="pod", pod_namespace="ns"))
        assert raised.value.details() == "pod pod in namespace ns not found"


def test_health_messages_are_truncated_at_1024_bytes() -> None:
    assert truncate_message("é" * 512) == "é" * 512
    assert truncate_message("é" * 513) == "é" * 510 + "..."

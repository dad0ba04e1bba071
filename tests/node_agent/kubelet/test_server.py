"""Logs and pods over HTTP, and PodResources over gRPC."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from dra_driverkit.proto import podresources_v1_pb2, rpc
from dra_node_agent.kubelet.server import KubeletServer
from dra_shared.service import HealthServer
from grpc import aio

from tests.support.cases import each_case
from tests.support.kubelet.bench import Bench, claim, pod
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until

_TALKER = "echo one; echo two >&2; sleep 60; echo three; trap 'exit 0' TERM; sleep 999 & wait"


@asynccontextmanager
async def _serve(bench: Bench) -> AsyncIterator[httpx.AsyncClient]:
    routes = KubeletServer([bench.kubelet], bench.clock).routes()
    async with (
        HealthServer("127.0.0.1", 0, {}, routes) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=30) as client,
    ):
        yield client


def _talker(**spec: Any) -> dict[str, Any]:
    return pod("pod", {"name": "main", "image": "x", "command": ["sh", "-c", _TALKER]}, **spec)


async def _run_pod(bench: Bench) -> None:
    bench.create(_talker())
    await until(lambda: bench.phase() == "Running")


@each_case(
    ("query", "expected"),
    [
        ("", "one\ntwo\nthree\n"),
        ("tailLines=1", "three\n"),
        ("tailLines=0", ""),
        ("limitBytes=5", "one\nt"),
        ("stream=Stderr", "two\n"),
        ("sinceSeconds=10", "three\n"),
        ("sinceTime=2026-01-01T00:00:30Z", "three\n"),
        (
            "timestamps=true",
            "2026-01-01T00:00:00.000000000Z one\n2026-01-01T00:00:00.000000000Z two\n"
            "2026-01-01T00:01:00.000000000Z three\n",
        ),
    ],
)
async def test_logs_are_selected_by_query(query: str, expected: str) -> None:
    async with Bench() as bench, _serve(bench) as client:
        await _run_pod(bench)
        await bench.clock.advance(61)
        response = await client.get(f"/containerLogs/ns/pod/main?{query}")
        assert (response.status_code, response.text) == (200, expected)


async def test_a_log_is_followed_until_the_container_ends() -> None:
    async with Bench() as bench, _serve(bench) as client:
        await _run_pod(bench)

        async with client.stream("GET", "/containerLogs/ns/pod/main?follow=true") as answer:
            lines = aiter(answer.aiter_lines())
            assert [await anext(lines) for _ in range(2)] == ["one", "two"]
            await bench.clock.advance(61)
            assert await anext(lines) == "three"
            bench.delete("pod")
            assert [line async for line in lines] == []


async def test_the_log_of_the_previous_container_is_returned() -> None:
    async with Bench() as bench, _serve(bench) as client:
        failing = {"name": "main", "image": "x", "command": ["sh", "-c", "echo started; sleep 1; exit 1"]}
        bench.create(pod("pod", failing))
        await until(lambda: bench.phase() == "Running")
        answer = await client.get("/containerLogs/ns/pod/main?previous=true")
        assert answer.status_code == 400
        assert answer.text == 'previous terminated container "main" in pod "pod" not found'
        await bench.clock.advance(2)
        await until(lambda: len(bench.kubelet.records("pod-uid")) == 2)
        assert (await client.get("/containerLogs/ns/pod/main?previous=true")).text == "started\n"


@each_case(
    ("path", "code", "text"),
    [
        ("ns/other/main", 404, 'pod does not exist: pod "ns/other" not found'),
        ("ns/pod/other", 404, 'container "other" not found in pod "pod"'),
        ("ns/pod/main?tailLines=many", 400, "unable to decode query"),
        ("ns/pod/main?tailLines=-1", 400, "unable to decode query"),
        ("ns/pod/main?limitBytes=0", 400, "unable to decode query"),
        ("ns/pod/main?sinceTime=yesterday", 400, "unable to decode query"),
        ("ns/pod/main?sinceSeconds=99999999999999999999", 400, "unable to decode query"),
        ("ns/pod/main?stream=Both", 400, 'stream: Unsupported value: "Both"'),
        ("ns/waiting/main", 400, 'container "main" in pod "waiting" is waiting to start: ContainerCreating'),
    ],
)
async def test_log_requests_for_missing_or_waiting_containers_are_rejected(
    path: str, code: int, text: str
) -> None:
    async with Bench() as bench, _serve(bench) as client:
        await _run_pod(bench)
        bench.create(pod("waiting", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        await until(lambda: bench.pod("waiting"))
        response = await client.get(f"/containerLogs/{path}")
        assert response.status_code == code
        assert response.text.startswith(text)


async def test_logs_of_a_removed_container_are_an_error() -> None:
    async with Bench() as bench, _serve(bench) as client:
        short = {"name": "main", "image": "x", "command": ["sh", "-c", "echo x"]}
        bench.create(pod("pod", short, restartPolicy="Never"))
        await until(lambda: bench.phase() == "Succeeded")
        (record,) = bench.kubelet.records("pod-uid")
        assert (await client.get("/containerLogs/ns/pod/main")).text == "x\n"
        await bench.runtime.remove(record.id)
        answer = await client.get("/containerLogs/ns/pod/main")
        text = f"unable to retrieve container logs for fake://{record.id}"
        assert (answer.status_code, answer.text) == (200, text)


async def test_the_kubelets_pods_endpoint_lists_its_pods() -> None:
    async with Bench() as bench, _serve(bench) as client:
        await _run_pod(bench)
        listed = (await client.get("/pods")).json()
        assert (listed["kind"], [item["metadata"]["name"] for item in listed["items"]]) == (
            "PodList",
            ["pod"],
        )


async def test_pod_resources_lists_devices_of_claims() -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "pod"))
        container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
        bench.create(pod("pod", container, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        await until(lambda: bench.phase() == "Running")
        socket = bench.root / "pod-resources" / "kubelet.sock"
        async with aio.insecure_channel(
            f"unix:{socket}", options=(("grpc.default_authority", "localhost"),)
        ) as channel:
            stub = rpc.stub(podresources_v1_pb2, "PodResourcesLister", channel)
            listed = await stub.List(podresources_v1_pb2.ListPodResourcesRequest())
            (found,) = listed.pod_resources
            (resource,) = found.containers[0].dynamic_resources
            assert (resource.claim_namespace, resource.claim_name) == ("ns", "gpu")
            (device,) = resource.claim_resources
            assert (device.driver_name, device.pool_name, device.device_name) == (
                "test-driver",
                "pool",
                "gpu",
            )
            assert [cdi.name for cdi in device.cdi_devices] == ["test-driver/claim=gpu-uid"]
            one = await stub.Get(
                podresources_v1_pb2.GetPodResourcesRequest(pod_name="pod", pod_namespace="ns")
            )
            assert one.pod_resources == found
            with pytest.raises(aio.AioRpcError, match="pod other in namespace ns not found"):
                await stub.Get(
                    podresources_v1_pb2.GetPodResourcesRequest(pod_name="other", pod_namespace="ns")
                )
            await stub.GetAllocatableResources(podresources_v1_pb2.AllocatableResourcesRequest())


async def test_cgroups_of_a_pod_and_its_containers_are_returned() -> None:
    bench = Bench()
    async with bench, _serve(bench) as client:
        requests = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
        bench.create(pod("pod", {"name": "main", "image": "x", "resources": requests}))
        await until(lambda: bench.phase() == "Running")
        bounds = {"cpuShares": 512, "cpuPeriod": 100000, "cpuQuota": 100000}
        assert (await client.get("/cgroups/ns/pod")).json() == {
            "pod": bounds,
            "containers": [{"name": "main", **bounds, "oomScoreAdj": 999}],
        }
        assert (await client.get("/cgroups/ns/other")).status_code == 404


async def test_the_kubelet_returns_the_cdi_edits_of_a_containers_devices() -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench, _serve(bench) as client:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "pod"))
        container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
        plain = {"name": "plain", "image": "x"}
        bench.create(
            pod("pod", container, plain, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
        )
        await until(lambda: bench.phase() == "Running")
        main, other = (await client.get("/containerEdits/ns/pod")).json()["containers"]
        named = "test-driver/claim=gpu-uid"
        assert main == {
            "name": "main",
            "devices": [
                {
                    "claim": "gpu",
                    "driver": "test-driver",
                    "pool": "pool",
                    "device": "gpu",
                    "requests": ["request"],
                    "cdiDevices": [named],
                }
            ],
            "pluginDevices": {},
            "injected": [{"name": named, "edits": {"env": ["DEVICE=gpu-uid"]}}],
        }
        assert other == {"name": "plain", "devices": [], "pluginDevices": {}, "injected": []}
        driver.unmake("gpu-uid")
        (gone,) = (await client.get("/containerEdits/ns/pod")).json()["containers"][0]["injected"]
        assert gone == {"name": named, "problem": f"unresolvable CDI devices {named}"}
        assert (await client.get("/containerEdits/ns/other")).status_code == 404

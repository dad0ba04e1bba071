"""Prepare and unprepare of the DRA manager, compared with the real one for the same inputs."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from dra_node_agent.kubelet.dra.checkpoint import (
    decode,
)
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfo
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.conformance.kubelet_dra.tables import Check, cases, claims_pod, open_bench, read_pod
from tests.support.fakeapi import FakeApi
from tests.support.kubelet.fakedriver import FakeDriver


def _requests(driver: FakeDriver) -> list[JsonObject]:
    return [{"method": method, "request": {"claims": claims}} for method, claims in driver.calls]


async def _prepare(case: JsonObject, tmp_path: Path) -> None:
    table, actual = case["table"], case["actual"]
    async with open_bench(tmp_path, table) as bench:
        error = None
        try:
            await bench.manager.prepare(read_pod(table["pod"]))
        except DraError as failure:
            error = str(failure)

        assert error == actual.get("error")
        assert _requests(bench.driver) == actual["grpcRequests"]
        assert (tmp_path / "dra_manager_state").read_text() == actual["checkpointFile"]


async def _unprepare(case: JsonObject, tmp_path: Path) -> None:
    table, actual = case["table"], case["actual"]
    async with open_bench(tmp_path, table) as bench:
        error = None
        try:
            await bench.manager.unprepare(read_pod(table["pod"]))
        except DraError as failure:
            error = str(failure)

        assert error == actual.get("error")
        assert _requests(bench.driver) == actual["grpcRequests"]
        assert (tmp_path / "dra_manager_state").read_text() == actual["checkpointFile"]


async def _prepared_and_new_claim(case: JsonObject, tmp_path: Path) -> None:
    async with open_bench(tmp_path, {"driverName": "test-driver"}) as bench:
        for name in ("first", "second"):
            bench.api.put(RESOURCE_CLAIMS, _claim(name, "pod-uid"))
        prepared = ClaimInfo("ns", "first", "first-uid", ("test-driver",))
        prepared.pod_uids, prepared.prepared = {"other"}, True
        bench.manager.cache.add(prepared)

        await bench.manager.prepare(read_pod(claims_pod("first", "second")))

        assert [[claim["name"] for claim in claims] for _, claims in bench.driver.calls] == [["second"]]
        second = bench.manager.cache.get("ns", "second")
        assert second is not None
        assert second.prepared
        assert prepared.pod_uids == {"other", "pod-uid"}


async def _parallel(case: JsonObject, tmp_path: Path) -> None:
    async with open_bench(tmp_path, {"driverName": "test-driver"}) as bench:
        pods = [claims_pod(f"claim-{number}", name=f"pod-{number}") for number in range(20)]
        for number, pod in enumerate(pods):
            bench.api.put(RESOURCE_CLAIMS, _claim(f"claim-{number}", pod["metadata"]["uid"]))

        async def live(pod: Pod) -> None:
            await bench.manager.prepare(pod)
            await bench.manager.unprepare(pod)

        await asyncio.gather(*(live(read_pod(pod)) for pod in pods))

        assert list(bench.manager.cache) == []
        assert len(bench.driver.calls) == 40
        assert decode((tmp_path / "dra_manager_state").read_bytes()) == ()


def _claim(name: str, pod_uid: str, driver: str = "test-driver") -> JsonObject:
    result = {"request": "request", "driver": driver, "pool": "pool", "device": name}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid"},
        "spec": {"devices": {"requests": [{"name": "request"}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "pod", "uid": pod_uid}],
        },
    }


async def _new_manager(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    directory = tmp_path if table["stateFileDirectory"] else Path()
    if table["wantErr"]:
        with pytest.raises(DraError):
            DraManager(directory, FakeApi().client(), FakeClock(), FeatureGates(V1_36))
        return
    manager = DraManager(directory, FakeApi().client(), FakeClock(), FeatureGates(V1_36))
    assert list(manager.cache) == []
    await manager.close()


async def _get_resources(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    async with open_bench(tmp_path, {**table, "driverName": ""}) as bench:
        container = msgspec.convert(table["container"], Container)
        pod = read_pod(table["pod"])
        if table["wantErr"]:
            with pytest.raises(DraError):
                bench.manager.containers.cdi_device_ids(pod, container)
            return
        assert bench.manager.containers.cdi_device_ids(pod, container) == [
            d["Name"] for d in table["wantCDIDevices"]
        ]


async def _container_claims(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    async with open_bench(tmp_path, {**table, "driverName": ""}) as bench:
        pod = read_pod(table["pod"])
        if table["expectedErrMsg"]:
            with pytest.raises(DraError) as raised:
                bench.manager.containers.claims(pod, pod.spec.containers[0])
            assert table["expectedErrMsg"] in str(raised.value)
            return
        infos = bench.manager.containers.claims(pod, pod.spec.containers[0])
        assert [info.name for info in infos] == [table["expectedClaimName"]]


async def _might_need_to_unprepare(case: JsonObject, tmp_path: Path) -> None:
    async with open_bench(tmp_path, {}) as bench:
        info = bench.manager.cache.add(ClaimInfo("ns", "claim", "uid"))
        info.pod_uids.add("pod-uid")
        assert bench.manager.might_need_to_unprepare("pod-uid")
        assert not bench.manager.might_need_to_unprepare("another")


CHECKS: dict[str, Check] = {
    "TestGetContainerClaimInfos": _container_claims,
    "TestGetResources": _get_resources,
    "TestNewManagerImpl": _new_manager,
    "TestParallelPrepareUnprepareResources": _parallel,
    "TestPodMightNeedToUnprepareResources": _might_need_to_unprepare,
    "TestPrepareResources": _prepare,
    "TestPrepareResourcesWithPreparedAndNewClaim": _prepared_and_new_claim,
    "TestUnprepareResources": _unprepare,
}


@pytest.mark.parametrize("case", cases(CHECKS))
async def test_prepare_and_unprepare_agree_with_upstream(case: JsonObject, tmp_path: Path) -> None:
    await CHECKS[case["test"]](case, tmp_path)

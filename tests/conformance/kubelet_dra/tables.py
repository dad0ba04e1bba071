"""The recorded cases of the kubelet's DRA manager, and a manager to run them on."""

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.transport import LocalSockets, UnixSockets
from dra_node_agent.kubelet.dra.checkpoint import (
    CheckpointDevice,
    ClaimState,
    DriverState,
)
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfo
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.clock import SystemClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.support.fakeapi import FakeApi
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.reference import load_vectors

Check = Callable[[JsonObject, Path], Coroutine[Any, Any, None]]

CASES: list[JsonObject] = load_vectors("kubelet_dra.json.gz")


def cases(checks: Mapping[str, Check]) -> list[Any]:
    """Return the cases of the Go tests in ``checks``, as parameters."""
    return [
        pytest.param(case, id=f"{case['test']}/{case['name']}") for case in CASES if case["test"] in checks
    ]


def read_device(data: JsonObject) -> CheckpointDevice:
    return CheckpointDevice(
        pool_name=data["PoolName"],
        device_name=data["DeviceName"],
        share_id=data.get("ShareID"),
        request_names=tuple(data.get("RequestNames") or ()) or None,
        cdi_device_ids=tuple(data.get("CDIDeviceIDs") or ()) or None,
    )


def read_state(data: JsonObject) -> ClaimState:
    drivers = data.get("DriverState")
    return ClaimState(
        claim_uid=data["ClaimUID"],
        claim_name=data["ClaimName"],
        namespace=data["Namespace"],
        pod_uids={uid: {} for uid in data.get("PodUIDs") or {}},
        driver_state={
            name: DriverState(devices=tuple(map(read_device, driver.get("Devices") or ())) or None)
            for name, driver in (drivers or {}).items()
        },
    )


def read_info(data: JsonObject) -> ClaimInfo:
    info = ClaimInfo.from_state(read_state(data["ClaimInfoState"]))
    info.prepared = data["prepared"]
    return info


def read_pod(data: JsonObject) -> Pod:
    return convert(PODS, data)


class Bench:
    """A manager with a driver and an API server to talk to."""

    def __init__(self, manager: DraManager, driver: FakeDriver, api: FakeApi) -> None:
        self.manager, self.driver, self.api = manager, driver, api


@asynccontextmanager
async def open_bench(
    tmp_path: Path,
    table: JsonObject,
    *,
    on_health: Callable[[set[str]], None] | None = None,
    clock: SystemClock | None = None,
) -> AsyncIterator[Bench]:
    api = FakeApi()
    if table.get("claim"):
        api.put(RESOURCE_CLAIMS, json.loads(json.dumps(table["claim"])))
    groups = bool(table.get("draWorkloadResourceClaimsEnabled"))
    features = FeatureGates(V1_36, DRAWorkloadResourceClaims=groups)
    answers = table["resp"].get("claims", {}) if "resp" in table else None
    hang = bool(table.get("wantTimeout"))
    # A call over a real socket may be late for its own timeout, and never reach the driver.
    timeout, sockets = (0.05, LocalSockets()) if hang else (45.0, UnixSockets())
    driver = FakeDriver(table.get("driverName") or "unused", answers=answers, hang=hang, sockets=sockets)
    manager = DraManager(
        tmp_path,
        api.client(),
        clock or SystemClock(),
        features,
        on_health_change=on_health,
        durable=False,
        sockets=sockets,
    )
    async with driver:
        if table.get("driverName"):
            manager.connections.register(driver.name, driver.endpoint, driver.services, timeout)
        if table.get("claimInfo"):
            manager.cache.add(read_info(table["claimInfo"]))
        try:
            yield Bench(manager, driver, api)
        finally:
            await manager.close()


def claims_pod(*claims: str, name: str = "pod") -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid"},
        "spec": {
            "containers": [{"name": "c", "resources": {"claims": [{"name": claim} for claim in claims]}}],
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
        },
    }


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    return value

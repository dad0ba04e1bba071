"""Device health in the kubelet, compared with the real one for the same reports."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from dra_node_agent.kubelet.dra.checkpoint import (
    CheckpointDevice,
)
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfo
from dra_node_agent.kubelet.dra.health import (
    DeviceHealth,
    Health,
    HealthInfoCache,
    device_health,
    health_from_wire,
    truncate_message,
)
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_node_agent.kubelet.dra.podhealth import resource_health
from dra_shared.api.pod import PodStatus
from dra_shared.clock import FakeClock, SystemClock
from dra_shared.jsontypes import JsonObject

from tests.conformance.kubelet_dra.tables import (
    Check,
    cases,
    claims_pod,
    open_bench,
    read_device,
    read_info,
    read_pod,
)
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until

_NOW = datetime(2026, 11, 20, 15, 38, 56, tzinfo=UTC)


async def _allocated_status(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    async with open_bench(tmp_path, {}) as bench:
        for data in table["claimInfos"]:
            info = bench.manager.cache.add(read_info(data))
            _report_healthy(bench.manager, info, "Device is operating normally")
        status = msgspec.convert(table["initialStatus"], PodStatus)
        result = bench.manager.pod_health.add_health(read_pod(table["pod"]), status)
        entries = result.container_statuses[0].allocated_resources_status
        shown = json.loads(msgspec.json.encode(entries))
        assert shown == table["expectedAllocatedResourcesStatus"]


async def _allocated_status_of_request(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    async with open_bench(tmp_path, {}) as bench:
        info = bench.manager.cache.add(ClaimInfo("ns", "claim", "claim-uid"))
        names = tuple(table["deviceRequestNames"])
        info.add_device("driver", CheckpointDevice(pool_name="pool", device_name="dev", request_names=names))
        _report_healthy(bench.manager, info, "Device healthy")
        used: JsonObject = {"name": "claim", "request": table["claimRequest"]}
        pod = claims_pod("claim")
        pod["spec"]["containers"][0]["resources"]["claims"] = [used]
        status = msgspec.convert({"containerStatuses": [{"name": "c"}]}, PodStatus)
        entry = bench.manager.pod_health.add_health(read_pod(pod), status).container_statuses[0]
        shown = [(r.health, r.message) for s in entry.allocated_resources_status for r in s.resources]
        expected = [(table["expectedHealthStatus"], table["expectedHealthMessage"])]
        assert shown == (expected if table["expectHealthReported"] else [])


def _report_healthy(manager: DraManager, info: ClaimInfo, message: str) -> None:
    for driver, devices in info.devices.items():
        manager.health.update(
            driver, [device_health(d.pool_name, d.device_name, 1, 0, message) for d in devices]
        )


class _Ahead(SystemClock):
    """A clock that can be advanced."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def _health_stream(case: JsonObject, tmp_path: Path) -> None:
    notified: list[set[str]] = []
    clock = _Ahead()
    async with open_bench(tmp_path, {}, on_health=notified.append, clock=clock) as bench:
        manager = bench.manager
        shared = case["name"] == "HealthChangeForMultiplePodsWithSharedDevice"
        info = manager.cache.add(ClaimInfo("ns", "claim", "claim-uid"))
        info.pod_uids = {"pod-1", "pod-2"} if shared else {"pod-1"}
        share = "share" if case["name"] == "HealthChangeForDeviceWithShareID" else None
        info.add_device("test-driver", CheckpointDevice(pool_name="pool", device_name="dev", share_id=share))
        driver = FakeDriver(services=["v1.DRAPlugin", "v1.DRAResourceHealth"])
        async with driver:
            manager.connections.register(driver.name, driver.endpoint, driver.services)
            device = "other" if case["name"] == "NonAllocatedDeviceChange" else "dev"
            driver.reports.put_nowait([("pool", device, 2, "broken")])
            await until(lambda: manager.health.get("test-driver", "pool", device).health == "Unhealthy")
            if device == "other":
                assert notified == []
                return
            await until(lambda: notified == [info.pod_uids])
            if case["name"] == "NoActualStateChange":
                driver.reports.put_nowait([("pool", "dev", 2, "broken")])
                driver.reports.put_nowait([("pool", "dev", 1, "")])
                await until(lambda: manager.health.get("test-driver", "pool", "dev").health == "Healthy")
                await until(lambda: len(notified) == 2)
            if case["name"] in ("StreamError", "ContextCanceled"):
                if case["name"] == "StreamError":
                    driver.reports.put_nowait(None)
                else:
                    manager.connections.deregister(driver.name, driver.endpoint)
                    # The last report counts until it is stale.
                    clock.ahead = timedelta(seconds=31)
                await until(lambda: manager.health.get("test-driver", "pool", "dev").health == "Unknown")


async def _build_device_health(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    result = device_health("pool", "dev", table["health"], table["timeoutSeconds"], table["message"])
    assert (result.health, result.message) == (table["wantHealth"], table["wantMessage"])
    assert f"{result.health_check_timeout:g}s" == table["wantTimeout"]


async def _build_resource_health(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    info = table["healthInfo"]
    health = DeviceHealth(health=Health(info["Health"]), message=info["Message"])
    result = resource_health("driver", read_device(table["device"]), health, messages=table["enableMessage"])
    expected = (table["wantResource"], table["wantHealth"], table.get("wantMessage", ""))
    assert (result.resource_id, result.health, result.message) == expected


async def _truncate(case: JsonObject, tmp_path: Path) -> None:
    assert truncate_message(case["table"]["input"]) == case["table"]["expected"]


async def _wire_health(case: JsonObject, tmp_path: Path) -> None:
    assert health_from_wire(case["table"]["input"]) == case["table"]["expected"]


async def _shown_health(case: JsonObject, tmp_path: Path) -> None:
    known = set(Health)
    value = case["table"]["input"]
    health = DeviceHealth(health=Health(value) if value in known else Health.UNKNOWN)
    assert resource_health("d", CheckpointDevice(), health, messages=True).health == case["table"]["expected"]


def _health_cache(path: Path | None, state: JsonObject, clock: FakeClock) -> HealthInfoCache:
    cache = HealthInfoCache(path, clock)
    for driver, known in state.items():
        cache.update(
            driver,
            [
                DeviceHealth(
                    pool_name=device["PoolName"],
                    device_name=device["DeviceName"],
                    health=Health(device["Health"]),
                    health_check_timeout=30.0,
                )
                for device in known["Devices"].values()
            ],
        )
    return cache


async def _get_health(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    times = [
        datetime.fromisoformat(device["LastUpdated"][:26] + "+00:00")
        for driver in table["initialState"].values()
        for device in driver["Devices"].values()
    ]
    clock = FakeClock(min(times, default=_NOW))
    cache = _health_cache(None, table["initialState"], clock)
    await clock.advance(max((_NOW - clock.now()) / timedelta(seconds=1), 0))
    found = cache.get(table["driverName"], table["poolName"], table["deviceName"])
    assert found.health == table["expectedHealth"]


async def _health_lifecycle(case: JsonObject, tmp_path: Path) -> None:
    clock = FakeClock()
    cache = HealthInfoCache(tmp_path / "health", clock)
    healthy = device_health("pool", "dev", 1, 0, "fine")
    assert cache.get("d", "pool", "dev").health is Health.UNKNOWN
    assert [entry.device_name for entry in cache.update("d", [healthy])] == ["dev"]
    assert cache.update("d", [healthy]) == []
    assert cache.get("d", "pool", "dev").health is Health.HEALTHY
    cache.save()
    assert HealthInfoCache(tmp_path / "health", clock).get("d", "pool", "dev").message == "fine"
    await clock.advance(31)
    assert cache.get("d", "pool", "dev").health is Health.UNKNOWN
    assert [entry.health for entry in cache.update("d", [])] == [Health.UNKNOWN]
    cache.update("d", [healthy])
    cache.clear("d")
    assert cache.get("d", "pool", "dev").health is Health.UNKNOWN


async def _new_health_cache(case: JsonObject, tmp_path: Path) -> None:
    path = tmp_path / "health" if case["table"]["stateFile"] else None
    cache = HealthInfoCache(path, FakeClock())
    assert cache.get("d", "p", "x").health is Health.UNKNOWN
    cache.save()
    assert path is None or json.loads(path.read_bytes()) == {}


CHECKS: dict[str, Check] = {
    "TestBuildDeviceHealth": _build_device_health,
    "TestBuildResourceHealth": _build_resource_health,
    "TestClearDriver": _health_lifecycle,
    "TestGetHealthInfo": _health_lifecycle,
    "TestGetHealthInfoRobust": _get_health,
    "TestHandleWatchResourcesStream": _health_stream,
    "TestNewHealthInfoCache": _new_health_cache,
    "TestToDeviceHealthStatus": _wire_health,
    "TestToResourceHealthStatus": _shown_health,
    "TestTruncateHealthMessage": _truncate,
    "TestUpdateAllocatedResourcesStatus": _allocated_status,
    "TestUpdateAllocatedResourcesStatus_Subrequest": _allocated_status_of_request,
    "TestUpdateHealthInfo": _health_lifecycle,
}


@pytest.mark.parametrize("case", cases(CHECKS))
async def test_device_health_agrees_with_upstream(case: JsonObject, tmp_path: Path) -> None:
    await CHECKS[case["test"]](case, tmp_path)

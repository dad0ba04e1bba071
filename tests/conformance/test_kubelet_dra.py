"""The kubelet's DRA manager against what the real one did with the same inputs."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_node_agent.kubelet.dra.checkpoint import (
    CheckpointDevice,
    CheckpointError,
    CheckpointFile,
    ClaimState,
    DriverState,
    decode,
    encode,
)
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfo, ClaimInfoCache
from dra_node_agent.kubelet.dra.health import (
    DeviceHealth,
    Health,
    HealthInfoCache,
    device_health,
    health_from_wire,
    truncate_message,
)
from dra_node_agent.kubelet.dra.manager import DraError, DraManager, resource_health
from dra_node_agent.kubelet.dra.plugin import DraPlugin, PluginError
from dra_node_agent.kubelet.dra.plugins import DraPluginManager
from dra_node_agent.proto import dra_v1_pb2
from dra_shared.api.codec import convert
from dra_shared.api.container import Container
from dra_shared.api.pod import Pod, PodStatus
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.clock import FakeClock, SystemClock, settle
from dra_shared.features import FeatureGates

from tests.node_agent.kubelet.fakeapi import FakeApi
from tests.node_agent.kubelet.fakedriver import FakeDriver
from tests.node_agent.kubelet.waiting import until
from tests.reference import load_vectors

Case = dict[str, Any]

_CASES: list[Case] = load_vectors("kubelet_dra.json.gz")
_LOCKS = "exercises Go's read and write locks; ours is one event loop"
_NOT_OURS = {
    "TestClaimInfoCacheWithLock": _LOCKS,
    "TestClaimInfoCacheWithRLock": _LOCKS,
    "TestWithLock": _LOCKS,
    "TestWithRLock": _LOCKS,
}
_NOW = datetime(2026, 11, 20, 15, 38, 56, tzinfo=UTC)


def _id(case: Case) -> str:
    return f"{case['test']}/{case['name']}"


@pytest.mark.parametrize("case", _CASES, ids=_id)
async def test_upstream_case(case: Case, tmp_path: Path) -> None:
    if case["test"] in _NOT_OURS:
        pytest.skip(_NOT_OURS[case["test"]])
    await _CHECKS[case["test"]](case, tmp_path)


# What the tables hold


def _device(data: Case) -> CheckpointDevice:
    return CheckpointDevice(
        pool_name=data["PoolName"],
        device_name=data["DeviceName"],
        share_id=data.get("ShareID"),
        request_names=tuple(data.get("RequestNames") or ()) or None,
        cdi_device_ids=tuple(data.get("CDIDeviceIDs") or ()) or None,
    )


def _state(data: Case) -> ClaimState:
    drivers = data.get("DriverState")
    return ClaimState(
        claim_uid=data["ClaimUID"],
        claim_name=data["ClaimName"],
        namespace=data["Namespace"],
        pod_uids={uid: {} for uid in data.get("PodUIDs") or {}},
        driver_state={
            name: DriverState(devices=tuple(map(_device, driver.get("Devices") or ())) or None)
            for name, driver in (drivers or {}).items()
        },
    )


def _info(data: Case) -> ClaimInfo:
    info = ClaimInfo.from_state(_state(data["ClaimInfoState"]))
    info.prepared = data["prepared"]
    return info


def _pod(data: Case) -> Pod:
    return convert(PODS, data)


class _Bench:
    """A manager with a driver and an API server to talk to."""

    def __init__(self, manager: DraManager, driver: FakeDriver, api: FakeApi) -> None:
        self.manager, self.driver, self.api = manager, driver, api


@asynccontextmanager
async def _bench(
    tmp_path: Path, table: Case, *, timeout: float = 45.0, on_health: Callable[[set[str]], None] | None = None
) -> AsyncIterator[_Bench]:
    api = FakeApi()
    if table.get("claim"):
        api.put(RESOURCE_CLAIMS, json.loads(json.dumps(table["claim"])))
    features = FeatureGates(DRAWorkloadResourceClaims=bool(table.get("draWorkloadResourceClaimsEnabled")))
    answers = table["resp"].get("claims", {}) if "resp" in table else None
    driver = FakeDriver(
        table.get("driverName") or "unused", answers=answers, hang=bool(table.get("wantTimeout"))
    )
    manager = DraManager(
        tmp_path, api.client(), SystemClock(), features, on_health_change=on_health, durable=False
    )
    async with driver:
        if table.get("driverName"):
            manager.plugins.register(driver.name, driver.endpoint, driver.services, timeout)
        if table.get("claimInfo"):
            manager.cache.add(_info(table["claimInfo"]))
        try:
            yield _Bench(manager, driver, api)
        finally:
            await manager.close()


def _requests(driver: FakeDriver) -> list[Case]:
    return [{"method": method, "request": {"claims": claims}} for method, claims in driver.calls]


async def _prepare(case: Case, tmp_path: Path) -> None:
    table, actual = case["table"], case["actual"]
    async with _bench(tmp_path, table, timeout=0.3 if table["wantTimeout"] else 45) as bench:
        error = None
        try:
            await bench.manager.prepare(_pod(table["pod"]))
        except DraError as failure:
            error = str(failure)

        assert error == actual.get("error")
        assert _requests(bench.driver) == actual["grpcRequests"]
        assert (tmp_path / "dra_manager_state").read_text() == actual["checkpointFile"]


async def _unprepare(case: Case, tmp_path: Path) -> None:
    table, actual = case["table"], case["actual"]
    async with _bench(tmp_path, table, timeout=0.3 if table["wantTimeout"] else 45) as bench:
        error = None
        try:
            await bench.manager.unprepare(_pod(table["pod"]))
        except DraError as failure:
            error = str(failure)

        assert error == actual.get("error")
        assert _requests(bench.driver) == actual["grpcRequests"]
        assert (tmp_path / "dra_manager_state").read_text() == actual["checkpointFile"]


async def _prepared_and_new_claim(case: Case, tmp_path: Path) -> None:
    async with _bench(tmp_path, {"driverName": "test-driver"}) as bench:
        for name in ("first", "second"):
            bench.api.put(RESOURCE_CLAIMS, _claim(name, "pod-uid"))
        prepared = ClaimInfo("ns", "first", "first-uid", ("test-driver",))
        prepared.pod_uids, prepared.prepared = {"other"}, True
        bench.manager.cache.add(prepared)

        await bench.manager.prepare(_pod(_claims_pod("first", "second")))

        assert [[claim["name"] for claim in claims] for _, claims in bench.driver.calls] == [["second"]]
        second = bench.manager.cache.get("ns", "second")
        assert second is not None
        assert second.prepared
        assert prepared.pod_uids == {"other", "pod-uid"}


async def _parallel(case: Case, tmp_path: Path) -> None:
    async with _bench(tmp_path, {"driverName": "test-driver"}) as bench:
        pods = [_claims_pod(f"claim-{number}", name=f"pod-{number}") for number in range(20)]
        for number, pod in enumerate(pods):
            bench.api.put(RESOURCE_CLAIMS, _claim(f"claim-{number}", pod["metadata"]["uid"]))

        async def live(pod: Pod) -> None:
            await bench.manager.prepare(pod)
            await bench.manager.unprepare(pod)

        await asyncio.gather(*(live(_pod(pod)) for pod in pods))

        assert list(bench.manager.cache) == []
        assert len(bench.driver.calls) == 40
        assert decode((tmp_path / "dra_manager_state").read_bytes()) == ()


def _claim(name: str, pod_uid: str, driver: str = "test-driver") -> Case:
    result = {"request": "request", "driver": driver, "pool": "pool", "device": name}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid"},
        "spec": {"devices": {"requests": [{"name": "request"}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "pod", "uid": pod_uid}],
        },
    }


def _claims_pod(*claims: str, name: str = "pod") -> Case:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid"},
        "spec": {
            "containers": [{"name": "c", "resources": {"claims": [{"name": claim} for claim in claims]}}],
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
        },
    }


async def _new_manager(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    directory = tmp_path if table["stateFileDirectory"] else Path()
    if table["wantErr"]:
        with pytest.raises(DraError):
            DraManager(directory, FakeApi().client(), FakeClock(), FeatureGates())
        return
    manager = DraManager(directory, FakeApi().client(), FakeClock(), FeatureGates())
    assert list(manager.cache) == []
    await manager.close()


async def _get_resources(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    async with _bench(tmp_path, {**table, "driverName": ""}) as bench:
        container = msgspec.convert(table["container"], Container)
        pod = _pod(table["pod"])
        if table["wantErr"]:
            with pytest.raises(DraError):
                bench.manager.cdi_device_ids(pod, container)
            return
        assert bench.manager.cdi_device_ids(pod, container) == [d["Name"] for d in table["wantCDIDevices"]]


async def _container_claims(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    async with _bench(tmp_path, {**table, "driverName": ""}) as bench:
        pod = _pod(table["pod"])
        if table["expectedErrMsg"]:
            with pytest.raises(DraError) as raised:
                bench.manager.container_claims(pod, pod.spec.containers[0])
            assert table["expectedErrMsg"] in str(raised.value)
            return
        infos = bench.manager.container_claims(pod, pod.spec.containers[0])
        assert [info.name for info in infos] == [table["expectedClaimName"]]


async def _might_need_to_unprepare(case: Case, tmp_path: Path) -> None:
    async with _bench(tmp_path, {}) as bench:
        info = bench.manager.cache.add(ClaimInfo("ns", "claim", "uid"))
        info.pod_uids.add("pod-uid")
        assert bench.manager.might_need_to_unprepare("pod-uid")
        assert not bench.manager.might_need_to_unprepare("another")


# Health


async def _allocated_status(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    async with _bench(tmp_path, {}) as bench:
        for data in table["claimInfos"]:
            info = bench.manager.cache.add(_info(data))
            _report_healthy(bench.manager, info, "Device is operating normally")
        status = msgspec.convert(table["initialStatus"], PodStatus)
        result = bench.manager.with_device_health(_pod(table["pod"]), status)
        entries = result.container_statuses[0].allocated_resources_status
        shown = json.loads(msgspec.json.encode(entries))
        assert shown == table["expectedAllocatedResourcesStatus"]


async def _allocated_status_of_request(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    async with _bench(tmp_path, {}) as bench:
        info = bench.manager.cache.add(ClaimInfo("ns", "claim", "claim-uid"))
        names = tuple(table["deviceRequestNames"])
        info.add_device("driver", CheckpointDevice(pool_name="pool", device_name="dev", request_names=names))
        _report_healthy(bench.manager, info, "Device healthy")
        used: Case = {"name": "claim", "request": table["claimRequest"]}
        pod = _claims_pod("claim")
        pod["spec"]["containers"][0]["resources"]["claims"] = [used]
        status = msgspec.convert({"containerStatuses": [{"name": "c"}]}, PodStatus)
        entry = bench.manager.with_device_health(_pod(pod), status).container_statuses[0]
        shown = [(r.health, r.message) for s in entry.allocated_resources_status for r in s.resources]
        expected = [(table["expectedHealthStatus"], table["expectedHealthMessage"])]
        assert shown == (expected if table["expectHealthReported"] else [])


def _report_healthy(manager: DraManager, info: ClaimInfo, message: str) -> None:
    for driver, devices in info.devices.items():
        manager.health.update(
            driver, [device_health(d.pool_name, d.device_name, 1, 0, message) for d in devices]
        )


async def _health_stream(case: Case, tmp_path: Path) -> None:
    notified: list[set[str]] = []
    async with _bench(tmp_path, {}, on_health=notified.append) as bench:
        manager = bench.manager
        shared = case["name"] == "HealthChangeForMultiplePodsWithSharedDevice"
        info = manager.cache.add(ClaimInfo("ns", "claim", "claim-uid"))
        info.pod_uids = {"pod-1", "pod-2"} if shared else {"pod-1"}
        share = "share" if case["name"] == "HealthChangeForDeviceWithShareID" else None
        info.add_device("test-driver", CheckpointDevice(pool_name="pool", device_name="dev", share_id=share))
        driver = FakeDriver(services=["v1.DRAPlugin", "v1.DRAResourceHealth"])
        async with driver:
            manager.plugins.register(driver.name, driver.endpoint, driver.services)
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
                    manager.plugins.deregister(driver.name, driver.endpoint)
                await until(lambda: manager.health.get("test-driver", "pool", "dev").health == "Unknown")


async def _build_device_health(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    result = device_health("pool", "dev", table["health"], table["timeoutSeconds"], table["message"])
    assert (result.health, result.message) == (table["wantHealth"], table["wantMessage"])
    assert f"{result.health_check_timeout:g}s" == table["wantTimeout"]


async def _build_resource_health(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    info = table["healthInfo"]
    health = DeviceHealth(health=Health(info["Health"]), message=info["Message"])
    result = resource_health("driver", _device(table["device"]), health, messages=table["enableMessage"])
    expected = (table["wantResource"], table["wantHealth"], table.get("wantMessage", ""))
    assert (result.resource_id, result.health, result.message) == expected


async def _truncate(case: Case, tmp_path: Path) -> None:
    assert truncate_message(case["table"]["input"]) == case["table"]["expected"]


async def _wire_health(case: Case, tmp_path: Path) -> None:
    assert health_from_wire(case["table"]["input"]) == case["table"]["expected"]


async def _shown_health(case: Case, tmp_path: Path) -> None:
    known = set(Health)
    value = case["table"]["input"]
    health = DeviceHealth(health=Health(value) if value in known else Health.UNKNOWN)
    assert resource_health("d", CheckpointDevice(), health, messages=True).health == case["table"]["expected"]


def _health_cache(path: Path | None, state: Case, clock: FakeClock) -> HealthInfoCache:
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


async def _get_health(case: Case, tmp_path: Path) -> None:
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


async def _health_lifecycle(case: Case, tmp_path: Path) -> None:
    clock = FakeClock()
    cache = HealthInfoCache(tmp_path / "health", clock)
    healthy = device_health("pool", "dev", 1, 0, "fine")
    assert cache.get("d", "pool", "dev").health is Health.UNKNOWN
    assert [entry.device_name for entry in cache.update("d", [healthy])] == ["dev"]
    assert cache.update("d", [healthy]) == []
    assert cache.get("d", "pool", "dev").health is Health.HEALTHY
    await cache.save()
    assert HealthInfoCache(tmp_path / "health", clock).get("d", "pool", "dev").message == "fine"
    await clock.advance(31)
    assert cache.get("d", "pool", "dev").health is Health.UNKNOWN
    assert [entry.health for entry in cache.update("d", [])] == [Health.UNKNOWN]
    cache.update("d", [healthy])
    cache.clear("d")
    assert cache.get("d", "pool", "dev").health is Health.UNKNOWN


async def _new_health_cache(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "health" if case["table"]["stateFile"] else None
    cache = HealthInfoCache(path, FakeClock())
    assert cache.get("d", "p", "x").health is Health.UNKNOWN
    await cache.save()
    assert path is None or json.loads(path.read_bytes()) == {}


# Claim info


async def _add_device(case: Case, tmp_path: Path) -> None:
    info = _info(case["table"]["claimInfo"])
    device = _device(case["table"]["device"])
    info.add_device("test-driver", device)
    assert info.devices["test-driver"][-1] == device


async def _add_pod(case: Case, tmp_path: Path) -> None:
    info = _info(case["table"]["claimInfo"])
    info.pod_uids.add("test-pod-uid")
    assert len(info.pod_uids) == case["table"]["expectedLen"]


async def _delete_pod(case: Case, tmp_path: Path) -> None:
    info = _info(case["table"]["claimInfo"])
    info.pod_uids.discard("test-pod-uid")
    assert "test-pod-uid" not in info.pod_uids


async def _has_pod(case: Case, tmp_path: Path) -> None:
    info = _info(case["table"]["claimInfo"])
    assert ("test-pod-uid" in info.pod_uids) == case["table"]["expectedResult"]


async def _is_prepared(case: Case, tmp_path: Path) -> None:
    assert _info(case["table"]["claimInfo"]).prepared == case["table"]["expectedResult"]


async def _set_prepared(case: Case, tmp_path: Path) -> None:
    info = _info(case["table"]["claimInfo"])
    info.prepared = True
    assert info.prepared


async def _from_claim(case: Case, tmp_path: Path) -> None:
    claim = msgspec.convert(_without_nulls(case["table"]["claim"]), RESOURCE_CLAIMS.type)
    expected = case["table"]["expectedResult"]
    info = ClaimInfo.from_claim(claim)
    assert info.to_state() == _state(expected["ClaimInfoState"])
    assert info.prepared == expected["prepared"]


async def _from_state(case: Case, tmp_path: Path) -> None:
    info = ClaimInfo.from_state(_state(case["table"]["state"]))
    expected = case["table"]["expectedResult"]
    assert info.to_state() == _state(expected["ClaimInfoState"])
    assert info.prepared == expected["prepared"]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    return value


def _cache(tmp_path: Path, data: Case) -> ClaimInfoCache:
    cache = ClaimInfoCache(tmp_path, "state", durable=False)
    for key, info in data.get("claimInfo", {}).items():
        known = _info(info)
        # One of upstream's tables stores a claim under another name than its own.
        known.name = key.partition("/")[2]
        cache.add(known)
    return cache


async def _new_cache(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    directory = tmp_path if table["stateDir"] else Path()
    if table["wantErr"]:
        with pytest.raises(CheckpointError):
            ClaimInfoCache(directory, table["checkpointName"])
        return
    assert list(ClaimInfoCache(directory, table["checkpointName"])) == []


def _metrics(text: str) -> dict[str, int]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split('"')[1]: int(line.rsplit(" ", 1)[1]) for line in lines}


async def _cache_add(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    cache = _cache(tmp_path, {})
    for data in table.get("initialClaimInfo") or ():
        cache.add(_info(data))
    info = cache.add(_info(table["claimInfo"]))
    assert cache.get(info.namespace, info.name) is info
    assert cache.in_use() == _metrics(table["expectMetrics"])


async def _cache_delete(case: Case, tmp_path: Path) -> None:
    cache = _cache(tmp_path, case["table"]["claimInfoCache"])
    cache.delete("test-namespace", "test-claim")
    assert "test-namespace/test-claim" not in cache
    assert cache.in_use() == _metrics(case["table"]["expectMetrics"])


async def _cache_contains(case: Case, tmp_path: Path) -> None:
    cache = _cache(tmp_path, case["table"]["claimInfoCache"])
    assert (_info(case["table"]["claimInfo"]).key in cache) == case["table"]["expectedResult"]


async def _cache_get(case: Case, tmp_path: Path) -> None:
    cache = _cache(tmp_path, case["table"]["claimInfoCache"])
    found = cache.get("test-namespace", "test-claim")
    assert (found is not None) == case["table"]["expectedExists"]


async def _cache_has_pod(case: Case, tmp_path: Path) -> None:
    cache = _cache(tmp_path, case["table"]["claimInfoCache"])
    assert cache.has_pod_reference("test-pod-uid") == case["table"]["expectedResult"]


async def _cache_save(case: Case, tmp_path: Path) -> None:
    cache = ClaimInfoCache(tmp_path, case["table"]["checkpointName"], durable=False)
    cache.add(ClaimInfo("ns", "claim", "uid", ("driver",)))
    await cache.save()
    again = ClaimInfoCache(tmp_path, case["table"]["checkpointName"], durable=False)
    assert [info.key for info in again] == ["ns/claim"]


# Checkpoints


async def _checkpoint_load(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    if table["checkpointContent"]:
        (tmp_path / "checkpoint").write_text(table["checkpointContent"])
    file = CheckpointFile(tmp_path, "checkpoint", durable=False)
    if table["expectedError"]:
        with pytest.raises(CheckpointError) as raised:
            file.load_or_create()
        assert table["expectedError"] in str(raised.value)
        assert (tmp_path / "checkpoint").read_text() == table["checkpointContent"]
        return
    loaded = file.load_or_create()
    assert list(loaded) == [_state(data) for data in table.get("expectedClaimInfoStateList") or ()]


async def _checkpoint_store(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    states = [_state(data) for data in table["claimInfoStateList"]]
    assert encode(states).decode() == table["expectedCheckpointContent"]
    file = CheckpointFile(tmp_path, "checkpoint", durable=False)
    await file.store(lambda: states)
    assert (tmp_path / "checkpoint").read_text() == table["expectedCheckpointContent"]


# Plugins


def _plugins(api: FakeApi | None = None, clock: FakeClock | None = None, **options: Any) -> DraPluginManager:
    return DraPluginManager("node", (api or FakeApi()).client(), clock or FakeClock(), **options)


async def _same_name(case: Case, tmp_path: Path) -> None:
    plugins = _plugins()
    plugins.register("driver", "/tmp/first.sock", ["v1.DRAPlugin"])
    plugins.register("driver", "/tmp/second.sock", ["v1.DRAPlugin"])
    assert plugins.get("driver").endpoint == "/tmp/second.sock"
    with pytest.raises(PluginError, match="already registered for DRA driver plugin driver"):
        plugins.register("driver", "/tmp/second.sock", ["v1.DRAPlugin"])
    plugins.deregister("driver", "/tmp/second.sock")
    assert plugins.get("driver").endpoint == "/tmp/first.sock"
    await plugins.close()


async def _delete(case: Case, tmp_path: Path) -> None:
    plugins = _plugins()
    plugins.register("driver", "/tmp/first.sock", ["v1.DRAPlugin"])
    plugins.deregister("driver", "/tmp/first.sock")
    with pytest.raises(PluginError):
        plugins.get("driver")
    await plugins.close()


async def _get_plugin(case: Case, tmp_path: Path) -> None:
    plugins = _plugins()
    name = case["table"]["driverName"]
    if case["table"]["shouldError"]:
        with pytest.raises(PluginError):
            plugins.get(name)
    else:
        plugins.register(name, "/tmp/dra.sock", ["v1.DRAPlugin"])
        assert plugins.get(name).driver == name
    await plugins.close()


async def _registration(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    plugins = _plugins()
    if case["name"] == "replace":
        plugins.register(table["driverName"], "/tmp/a.sock", ["v1beta1.DRAPlugin"])
    services = table.get("supportedServices") or ()
    if table["shouldError"]:
        with pytest.raises(PluginError):
            plugins.register(table["driverName"], f"/tmp/{table['socketFile']}", services)
    else:
        plugins.register(table["driverName"], f"/tmp/{table['socketFile']}", services)
        plugin = plugins.get(table["driverName"])
        assert plugin.chosen_service == table["chosenService"]
        assert plugin.endpoint == f"/tmp/{table['socketFile']}"
    await plugins.close()


async def _connection(case: Case, tmp_path: Path) -> None:
    api, clock = FakeApi(), FakeClock()
    plugins = _plugins(api, clock, wiping_delay=30.0)
    driver = FakeDriver()
    async with driver:
        plugins.register(driver.name, driver.endpoint, driver.services)
        await until(lambda: plugins.get(driver.name).connected)
        await clock.advance(60)
        assert api.requests == []
        plugins.deregister(driver.name, driver.endpoint)
        await clock.advance(29)
        assert api.requests == []
        if not case["table"]["requireSliceRemoval"]:
            plugins.register(driver.name, driver.endpoint, driver.services)
            await until(lambda: plugins.get(driver.name).connected)
        await clock.advance(60)
        await settle()
    wiped = [
        "/apis/resource.k8s.io/v1/resourceslices"
        "?fieldSelector=spec.nodeName%3Dnode%2Cspec.driver%3Dtest-driver"
    ]
    assert [path for _, path in api.requests] == (wiped if case["table"]["requireSliceRemoval"] else [])
    await plugins.close()


async def _grpc_methods(case: Case, tmp_path: Path) -> None:
    table = case["table"]
    version = table["service"].partition(".")[0]
    if case["name"] == "internal-error":
        with pytest.raises(PluginError, match="none of services supported by the plugin"):
            DraPlugin("driver", "/tmp/none.sock", [table["chosenService"]])
        return
    async with FakeDriver(version=version) as driver:
        plugin = DraPlugin("driver", driver.endpoint, [table["chosenService"]])
        claims = [dra_v1_pb2.Claim(namespace="ns", name="claim", uid="uid")]
        if table["expectError"]:
            with pytest.raises(PluginError, match="rpc error: code = Unimplemented"):
                await plugin.prepare(claims)
        else:
            assert [d.device_name for d in (await plugin.prepare(claims))["uid"].devices] == ["claim"]
            assert await plugin.unprepare(claims) == {"uid": ""}
        await plugin.close()


async def _grpc_timeout(case: Case, tmp_path: Path) -> None:
    async with FakeDriver(hang=True) as driver:
        plugin = DraPlugin("driver", driver.endpoint, driver.services, timeout=0.05)
        with pytest.raises(PluginError, match="code = DeadlineExceeded desc = context deadline exceeded"):
            await plugin.prepare([])
        await plugin.close()


async def _grpc_reused(case: Case, tmp_path: Path) -> None:
    async with FakeDriver() as driver:
        plugin = DraPlugin("driver", driver.endpoint, driver.services)
        await asyncio.gather(*(plugin.prepare([]) for _ in range(5)))
        assert len(driver.calls) == 5
        await plugin.close()


async def _watch_resources(case: Case, tmp_path: Path) -> None:
    async with FakeDriver(services=["v1.DRAPlugin", "v1.DRAResourceHealth"]) as driver:
        plugin = DraPlugin("driver", driver.endpoint, driver.services)
        assert plugin.reports_health
        driver.reports.put_nowait([("pool", "dev", 1, "fine")])
        driver.reports.put_nowait(None)
        reports = [report async for report in plugin.health()]
        assert [(d.pool_name, d.device_name, d.health, d.message) for d in reports[0]] == [
            ("pool", "dev", Health.HEALTHY, "fine")
        ]
        await plugin.close()


_CHECKS: dict[str, Callable[[Case, Path], Coroutine[Any, Any, None]]] = {
    "TestAddSameName": _same_name,
    "TestBuildDeviceHealth": _build_device_health,
    "TestBuildResourceHealth": _build_resource_health,
    "TestCheckpointGetOrCreate": _checkpoint_load,
    "TestCheckpointStateStore": _checkpoint_store,
    "TestClaimInfoAddDevice": _add_device,
    "TestClaimInfoAddPodReference": _add_pod,
    "TestClaimInfoCacheAdd": _cache_add,
    "TestClaimInfoCacheContains": _cache_contains,
    "TestClaimInfoCacheDelete": _cache_delete,
    "TestClaimInfoCacheGet": _cache_get,
    "TestClaimInfoCacheHasPodReference": _cache_has_pod,
    "TestClaimInfoDeletePodReference": _delete_pod,
    "TestClaimInfoHasPodReference": _has_pod,
    "TestClaimInfoIsPrepared": _is_prepared,
    "TestClaimInfoSetPrepared": _set_prepared,
    "TestClearDriver": _health_lifecycle,
    "TestConnectionHandling": _connection,
    "TestDelete": _delete,
    "TestGRPCConnIsReused": _grpc_reused,
    "TestGRPCConnUsableAfterIdle": _grpc_reused,
    "TestGRPCMethods": _grpc_methods,
    "TestGRPCWithTimeoutEnforced": _grpc_timeout,
    "TestGetContainerClaimInfos": _container_claims,
    "TestGetDRAPlugin": _get_plugin,
    "TestGetHealthInfo": _health_lifecycle,
    "TestGetHealthInfoRobust": _get_health,
    "TestGetResources": _get_resources,
    "TestHandleWatchResourcesStream": _health_stream,
    "TestNewClaimInfoCache": _new_cache,
    "TestNewClaimInfoFromClaim": _from_claim,
    "TestNewClaimInfoFromState": _from_state,
    "TestNewHealthInfoCache": _new_health_cache,
    "TestNewManagerImpl": _new_manager,
    "TestParallelPrepareUnprepareResources": _parallel,
    "TestPlugin_WatchResources": _watch_resources,
    "TestPodMightNeedToUnprepareResources": _might_need_to_unprepare,
    "TestPrepareResources": _prepare,
    "TestPrepareResourcesWithPreparedAndNewClaim": _prepared_and_new_claim,
    "TestRegistrationHandler": _registration,
    "TestSyncToCheckpoint": _cache_save,
    "TestToDeviceHealthStatus": _wire_health,
    "TestToResourceHealthStatus": _shown_health,
    "TestTruncateHealthMessage": _truncate,
    "TestUnprepareResources": _unprepare,
    "TestUpdateAllocatedResourcesStatus": _allocated_status,
    "TestUpdateAllocatedResourcesStatus_Subrequest": _allocated_status_of_request,
    "TestUpdateHealthInfo": _health_lifecycle,
}

"""Registered drivers in the kubelet, compared with the real one after the same registrations and calls."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.proto import dra_v1_pb2
from dra_node_agent.kubelet.dra.connection import DriverConnection, DriverError
from dra_node_agent.kubelet.dra.connections import DriverConnections
from dra_node_agent.kubelet.dra.health import (
    Health,
)
from dra_shared.clock import FakeClock, settle
from dra_shared.jsontypes import JsonObject

from tests.conformance.kubelet_dra.tables import Check, cases
from tests.support.fakeapi import FakeApi
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until


def _plugins(api: FakeApi | None = None, clock: FakeClock | None = None, **options: Any) -> DriverConnections:
    return DriverConnections("node", (api or FakeApi()).client(), clock or FakeClock(), **options)


async def _same_name(case: JsonObject, tmp_path: Path) -> None:
    plugins = _plugins()
    plugins.register("driver", "/tmp/first.sock", ["v1.DRAPlugin"])
    plugins.register("driver", "/tmp/second.sock", ["v1.DRAPlugin"])
    assert plugins.get("driver").endpoint == "/tmp/second.sock"
    with pytest.raises(DriverError, match="already registered for DRA driver plugin driver"):
        plugins.register("driver", "/tmp/second.sock", ["v1.DRAPlugin"])
    plugins.deregister("driver", "/tmp/second.sock")
    assert plugins.get("driver").endpoint == "/tmp/first.sock"
    await plugins.close()


async def _delete(case: JsonObject, tmp_path: Path) -> None:
    plugins = _plugins()
    plugins.register("driver", "/tmp/first.sock", ["v1.DRAPlugin"])
    plugins.deregister("driver", "/tmp/first.sock")
    with pytest.raises(DriverError):
        plugins.get("driver")
    await plugins.close()


async def _get_plugin(case: JsonObject, tmp_path: Path) -> None:
    plugins = _plugins()
    name = case["table"]["driverName"]
    if case["table"]["shouldError"]:
        with pytest.raises(DriverError):
            plugins.get(name)
    else:
        plugins.register(name, "/tmp/dra.sock", ["v1.DRAPlugin"])
        assert plugins.get(name).driver == name
    await plugins.close()


async def _registration(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    plugins = _plugins()
    if case["name"] == "replace":
        plugins.register(table["driverName"], "/tmp/a.sock", ["v1beta1.DRAPlugin"])
    services = table.get("supportedServices") or ()
    if table["shouldError"]:
        with pytest.raises(DriverError):
            plugins.register(table["driverName"], f"/tmp/{table['socketFile']}", services)
    else:
        plugins.register(table["driverName"], f"/tmp/{table['socketFile']}", services)
        plugin = plugins.get(table["driverName"])
        assert plugin.chosen_service == table["chosenService"]
        assert plugin.endpoint == f"/tmp/{table['socketFile']}"
    await plugins.close()


async def _connection(case: JsonObject, tmp_path: Path) -> None:
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


async def _grpc_methods(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    version = table["service"].partition(".")[0]
    if case["name"] == "internal-error":
        with pytest.raises(DriverError, match="none of services supported by the plugin"):
            DriverConnection("driver", "/tmp/none.sock", [table["chosenService"]])
        return
    async with FakeDriver(version=version) as driver:
        plugin = DriverConnection("driver", driver.endpoint, [table["chosenService"]])
        claims = [dra_v1_pb2.Claim(namespace="ns", name="claim", uid="uid")]
        if table["expectError"]:
            with pytest.raises(DriverError, match="rpc error: code = Unimplemented"):
                await plugin.prepare(claims)
        else:
            assert [d.device_name for d in (await plugin.prepare(claims))["uid"].devices] == ["claim"]
            assert await plugin.unprepare(claims) == {"uid": ""}
        await plugin.close()


async def _grpc_timeout(case: JsonObject, tmp_path: Path) -> None:
    async with FakeDriver(hang=True) as driver:
        plugin = DriverConnection("driver", driver.endpoint, driver.services, timeout=0.05)
        with pytest.raises(DriverError, match="code = DeadlineExceeded desc = context deadline exceeded"):
            await plugin.prepare([])
        await plugin.close()


async def _grpc_reused(case: JsonObject, tmp_path: Path) -> None:
    async with FakeDriver() as driver:
        plugin = DriverConnection("driver", driver.endpoint, driver.services)
        await asyncio.gather(*(plugin.prepare([]) for _ in range(5)))
        assert len(driver.calls) == 5
        await plugin.close()


async def _watch_resources(case: JsonObject, tmp_path: Path) -> None:
    async with FakeDriver(services=["v1.DRAPlugin", "v1.DRAResourceHealth"]) as driver:
        plugin = DriverConnection("driver", driver.endpoint, driver.services)
        driver.reports.put_nowait([("pool", "dev", 1, "fine")])
        driver.reports.put_nowait(None)
        reports = [report async for report in plugin.watch_health()]
        assert [(d.pool_name, d.device_name, d.health, d.message) for d in reports[0]] == [
            ("pool", "dev", Health.HEALTHY, "fine")
        ]
        await plugin.close()


CHECKS: dict[str, Check] = {
    "TestAddSameName": _same_name,
    "TestConnectionHandling": _connection,
    "TestDelete": _delete,
    "TestGRPCConnIsReused": _grpc_reused,
    "TestGRPCConnUsableAfterIdle": _grpc_reused,
    "TestGRPCMethods": _grpc_methods,
    "TestGRPCWithTimeoutEnforced": _grpc_timeout,
    "TestGetDRAPlugin": _get_plugin,
    "TestPlugin_WatchResources": _watch_resources,
    "TestRegistrationHandler": _registration,
}


@pytest.mark.parametrize("case", cases(CHECKS))
async def test_driver_registration_agrees_with_upstream(case: JsonObject, tmp_path: Path) -> None:
    await CHECKS[case["test"]](case, tmp_path)

"""Plugins are registered by their sockets, and deregistered when the sockets disappear."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_node_agent.kubelet.dra.connection import DriverConnection, DriverError
from dra_node_agent.kubelet.dra.connections import DriverConnections
from dra_node_agent.kubelet.registration.registrar import DRA_TYPE, Registrar
from dra_node_agent.kubelet.registration.watch import DirectoryWatcher
from dra_shared.clock import FakeClock

from tests.support.fakeapi import FakeApi
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until

_HTTP2_SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@pytest.fixture
def registry() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as name:
        yield Path(name)


class _Kubelet:
    def __init__(self) -> None:
        self.api, self.clock = FakeApi(), FakeClock()
        self.connections = DriverConnections("node", self.api.client(), self.clock)

    def find_endpoint(self, driver: str) -> str:
        try:
            return self.connections.get(driver).endpoint
        except DriverError:
            return ""


@asynccontextmanager
async def _kubelet(registry: Path) -> AsyncIterator[_Kubelet]:
    kubelet = _Kubelet()
    async with DirectoryWatcher() as watcher:
        manager = Registrar(registry, watcher, {DRA_TYPE: kubelet.connections}, kubelet.clock)
        manager.start()
        try:
            yield kubelet
        finally:
            await manager.close()
            await kubelet.connections.close()


async def test_slices_of_a_driver_are_deleted_some_time_after_it_deregistered(registry: Path) -> None:
    async with _kubelet(registry) as kubelet:
        driver = FakeDriver(registry=registry)
        async with driver:
            assert await driver.registered.get() == (True, "")
            assert kubelet.find_endpoint("test-driver") == driver.endpoint
        await until(lambda: not kubelet.find_endpoint("test-driver"))
        await kubelet.clock.advance(29)
        assert kubelet.api.requests == []
        await kubelet.clock.advance(2)
        assert [method for method, _ in kubelet.api.requests] == ["DELETE"]


async def test_a_driver_that_started_before_the_kubelet_is_registered(registry: Path) -> None:
    async with FakeDriver(registry=registry) as driver, _kubelet(registry) as kubelet:
        assert await driver.registered.get() == (True, "")
        assert kubelet.find_endpoint("test-driver") == driver.endpoint


async def test_update_of_a_driver_keeps_its_slices(registry: Path) -> None:
    async with _kubelet(registry) as kubelet:
        old, new = FakeDriver(registry=registry), FakeDriver()
        async with old:
            await old.registered.get()
            await until(lambda: kubelet.connections.get("test-driver").connected)
            kubelet.connections.register("test-driver", new.endpoint, new.services)
            assert kubelet.find_endpoint("test-driver") == old.endpoint, "the new one doesn't answer yet"
            async with new:
                await until(lambda: kubelet.find_endpoint("test-driver") == new.endpoint)
                await old.stop()
                await kubelet.clock.advance(60)
                assert kubelet.api.requests == []


@pytest.mark.parametrize(
    ("driver", "error"),
    [
        (
            {"kind": "CSIPlugin"},
            "RegisterPlugin error -- no handler registered for plugin type: CSIPlugin at socket ",
        ),
        (
            {"services": ["v9.DRAPlugin"]},
            "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of"
            " DRA driver plugin test-driver at endpoint ",
        ),
    ],
)
async def test_a_plugin_that_is_rejected_gets_the_reason(
    registry: Path, driver: dict[str, Any], error: str
) -> None:
    async with _kubelet(registry) as kubelet, FakeDriver(registry=registry, **driver) as plugin:
        registered, text = await plugin.registered.get()
        assert not registered
        assert text.startswith(error)
        assert not kubelet.find_endpoint("test-driver")
        await until(lambda: kubelet.clock.count_sleepers > 0)
        await kubelet.clock.advance(1)
        assert await plugin.registered.get() == (registered, text), "it is tried again"


async def test_v1beta1_of_the_dra_service_is_used_if_the_driver_has_no_newer_one(registry: Path) -> None:
    async with _kubelet(registry) as kubelet, FakeDriver(registry=registry, version="v1beta1") as driver:
        assert await driver.registered.get() == (True, "")
        connection = kubelet.connections.get("test-driver")
        assert connection.chosen_service == "v1beta1.DRAPlugin"
        assert await connection.unprepare([]) == {}
        assert driver.calls == [("NodeUnprepareResources", [])]


async def test_files_that_are_not_sockets_are_not_registered_as_plugins(registry: Path) -> None:
    (registry / "notes.txt").write_text("hello")
    (registry / "folder").mkdir()
    async with _kubelet(registry) as kubelet:
        assert list(kubelet.connections.drivers()) == []


async def test_sockets_in_subfolders_are_registered_as_plugins(registry: Path) -> None:
    folder = registry / "vendor" / "gpus"
    async with _kubelet(registry) as kubelet:
        folder.mkdir(parents=True)
        async with FakeDriver(registry=folder) as driver:
            assert await driver.registered.get() == (True, "")
            assert kubelet.find_endpoint("test-driver") == driver.endpoint
        await until(lambda: not kubelet.find_endpoint("test-driver"))
        shutil.rmtree(registry / "vendor")
        folder.mkdir(parents=True)
        async with FakeDriver(registry=folder) as driver:
            assert await driver.registered.get() == (True, "")


async def test_the_first_known_service_that_the_driver_announces_is_used(registry: Path) -> None:
    services = ["v1alpha1.DRAResourceHealth", "v1beta1.DRAPlugin", "v1.DRAPlugin"]
    async with (
        _kubelet(registry) as kubelet,
        FakeDriver(registry=registry, version="v1beta1", services=services) as driver,
    ):
        assert await driver.registered.get() == (True, "")
        assert kubelet.connections.get("test-driver").chosen_service == "v1beta1.DRAPlugin"


async def test_a_plugin_that_cannot_be_notified_is_not_registered(registry: Path) -> None:
    async with _kubelet(registry) as kubelet, FakeDriver() as driver:
        driver.deaf = True
        registration = registry / "test-driver-reg.sock"
        registration.hardlink_to(driver.endpoint)
        await until(lambda: kubelet.clock.count_sleepers > 1)
        assert not kubelet.find_endpoint("test-driver")
        driver.deaf = False
        await kubelet.clock.advance(1)
        assert await driver.registered.get() == (True, "")
        assert kubelet.find_endpoint("test-driver") == driver.endpoint


async def test_changed_permissions_of_a_socket_do_not_register_it_again(registry: Path) -> None:
    async with _kubelet(registry) as kubelet, FakeDriver(registry=registry) as driver:
        await driver.registered.get()
        connection = kubelet.connections.get("test-driver")
        driver.registration_socket.chmod(0o600)
        async with FakeDriver("other-driver", registry=registry) as other:
            await other.registered.get()
        assert kubelet.connections.get("test-driver") is connection


async def test_an_unreachable_driver_is_reported_with_the_message_of_grpc_go(registry: Path) -> None:
    connection = DriverConnection("driver", f"{registry}/dra.sock", ["v1.DRAPlugin"])
    with pytest.raises(DriverError) as raised:
        await connection.prepare([])
    await connection.close()
    assert str(raised.value) == (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing:'
        f' dial unix {registry}/dra.sock: connect: no such file or directory"'
    )


async def test_a_driver_that_dies_in_a_call_is_reported_with_the_message_of_grpc_go(registry: Path) -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_HTTP2_SETTINGS)
        # The client's preface and settings, and some of its request.
        await reader.readexactly(150)
        writer.close()

    endpoint = f"{registry}/dra.sock"
    connection = DriverConnection("driver", endpoint, ["v1.DRAPlugin"])
    async with await asyncio.start_unix_server(die, endpoint):
        with pytest.raises(DriverError) as raised:
            await connection.prepare([])
        await connection.close()
    assert str(raised.value) == "rpc error: code = Unavailable desc = error reading from server: EOF"

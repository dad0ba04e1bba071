"""The whole driver on its sockets, with a fake API server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.proto import dra_v1_pb2, health_v1_pb2, rpc
from dra_node_agent.drivers.base import DriverNode, DriverOptions
from dra_node_agent.drivers.catalog import ensure_device_classes, find_driver
from dra_node_agent.drivers.nvidia.factory import NvidiaFactory
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.clock import SystemClock
from grpc import aio

from tests.driverkit.cdi.schema import check_file
from tests.driverkit.claims import claim
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until


def _options(root: Path, **fields: Any) -> DriverOptions:
    return DriverOptions(driver_root=root / "driver", machines=root / "machines", **fields)


@pytest.fixture
async def running_driver(root: Path, api: FakeApi) -> AsyncIterator[tuple[NvidiaFactory, Any]]:
    factory = NvidiaFactory(_options(root))
    async with api.client() as client:
        node = DriverNode("node-0", root / "kubelet", root / "cdi", client, SystemClock())
        async with factory.on_node(node) as driver:
            await driver.server.wait_until_published()
            yield factory, driver


async def test_claims_are_prepared_over_the_socket(
    running_driver: tuple[NvidiaFactory, Any], api: FakeApi, root: Path
) -> None:
    (slice_,) = api.of("resourceslices")
    assert len(slice_["spec"]["devices"]) == 20
    api.put(RESOURCE_CLAIMS, msgspec.to_builtins(claim("uid-1", "gpu-5")))
    wanted = dra_v1_pb2.Claim(namespace="ns", name="claim-uid-1", uid="uid-1")
    options = (("grpc.default_authority", "localhost"),)
    async with aio.insecure_channel(f"unix:{running_driver[1].server.endpoint}", options=options) as channel:
        stub = rpc.stub(dra_v1_pb2, "DRAPlugin", channel)
        answer = await stub.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest(claims=[wanted]))
        (device,) = answer.claims["uid-1"].devices
        assert list(device.cdi_device_ids) == ["k8s.gpu.nvidia.com/claim=uid-1-gpu-5"]
        (path,) = (root / "cdi").iterdir()
        check_file(path)
        await stub.NodeUnprepareResources(dra_v1_pb2.NodeUnprepareResourcesRequest(claims=[wanted]))
        assert not list((root / "cdi").iterdir())
        answer = await stub.NodePrepareResources(
            dra_v1_pb2.NodePrepareResourcesRequest(
                claims=[dra_v1_pb2.Claim(namespace="ns", name="claim-uid-1", uid="uid-1")]
            )
        )
        assert answer.claims["uid-1"].error == ""


@pytest.mark.parametrize("durable", [True, False])
async def test_files_are_synced_to_disk_only_if_durable(
    root: Path, api: FakeApi, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    api.put(RESOURCE_CLAIMS, msgspec.to_builtins(claim("uid-1", "gpu-5")))
    async with api.client() as client:
        node = DriverNode("node-0", root / "kubelet", root / "cdi", client, SystemClock(), durable=durable)
        async with NvidiaFactory(_options(root)).on_node(node) as driver:
            await driver.prepare(claim("uid-1", "gpu-5"))
    # The first checkpoint, one before and one after the preparation, and the CDI file.
    assert len(synced) == (4 if durable else 0)


async def test_an_error_names_the_claim(running_driver: tuple[NvidiaFactory, Any]) -> None:
    from dra_driverkit.errors import PrepareError

    with pytest.raises(
        PrepareError,
        match="error preparing devices for claim ns/claim-uid-1:uid-1: prepare devices failed: allocatable",
    ):
        await running_driver[1].prepare(claim("uid-1", "gpu-77"))


async def test_a_fault_becomes_a_taint_and_an_unhealthy_status(
    running_driver: tuple[NvidiaFactory, Any], api: FakeApi
) -> None:
    factory, driver = running_driver
    options = (("grpc.default_authority", "localhost"),)
    async with aio.insecure_channel(f"unix:{driver.server.endpoint}", options=options) as channel:
        stream = rpc.stub(health_v1_pb2, "DRAResourceHealth", channel).NodeWatchResources(
            health_v1_pb2.NodeWatchResourcesRequest()
        )
        first = await stream.read()
        assert {entry.health for entry in first.devices} == {health_v1_pb2.HEALTHY}
        system = factory.system("node-0")
        assert system is not None
        system.inject_xid(6, 79)
        second = await stream.read()
        stream.cancel()
    bad = [entry for entry in second.devices if entry.health == health_v1_pb2.UNHEALTHY]
    assert [(entry.device.device_name, entry.message) for entry in bad] == [
        ("gpu-6", "gpu.nvidia.com/xid=79")
    ]

    def taints() -> list[Any]:
        devices = api.of("resourceslices")[0]["spec"]["devices"]
        return [(device["name"], device["taints"]) for device in devices if device.get("taints")]

    await until(lambda: bool(taints()))
    assert taints() == [
        ("gpu-6", [{"effect": "NoSchedule", "key": "gpu.nvidia.com/xid", "value": "79"}]),
    ]


async def _health(driver: Any) -> list[tuple[str, str]]:
    """Return the devices that are not healthy in the first report of the driver, with their messages."""
    options = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
    async with aio.insecure_channel(f"unix:{driver.server.endpoint}", options=options) as channel:
        stream = rpc.stub(health_v1_pb2, "DRAResourceHealth", channel).NodeWatchResources(
            health_v1_pb2.NodeWatchResourcesRequest()
        )
        first = await stream.read()
        stream.cancel()
    return [(e.device.device_name, e.message) for e in first.devices if e.health != health_v1_pb2.HEALTHY]


async def test_an_xid_survives_a_driver_restart_and_is_cleared_by_a_reboot(root: Path, api: FakeApi) -> None:
    factory = NvidiaFactory(_options(root))
    system = factory.system("node-0")
    assert system is not None
    async with api.client() as client:
        node = DriverNode("node-0", root / "kubelet", root / "cdi", client, SystemClock())
        async with factory.on_node(node) as driver:
            system.inject_xid(6, 79)
            system.inject_xid(5, 13)
            taints = root / "kubelet" / "plugins" / "gpu.nvidia.com" / "device_taints.json"
            await until(lambda: b'"13"' in taints.read_bytes() if taints.exists() else False)
        async with factory.on_node(node) as driver:
            await driver.server.wait_until_published()
            assert await _health(driver) == [("gpu-6", "gpu.nvidia.com/xid=79")]
            devices = api.of("resourceslices")[0]["spec"]["devices"]
            tainted = {d["name"]: [t["effect"] for t in d["taints"]] for d in devices if d.get("taints")}
            assert tainted == {"gpu-6": ["NoSchedule"], "gpu-5": ["None"]}
        system.boot_id = "another"
        async with factory.on_node(node) as driver:
            assert await _health(driver) == []
        system.boot_id = "a third"
        taints.write_bytes(b"{broken")
        async with factory.on_node(node) as driver:
            assert await _health(driver) == []


@pytest.mark.parametrize("name", ["gpu.nvidia.com", "gpu.example.com"])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("checkpoint", r"driver \S+ on node node-0: .*/checkpoint.json: checkpoint is corrupted: "),
        ("directory", r"driver \S+ cannot make its directory .*/plugins/\S+: Not a directory"),
    ],
)
async def test_the_error_that_stops_a_driver_is_one_line(
    root: Path, api: FakeApi, name: str, what: str, message: str
) -> None:
    kubelet = root / "kubelet"
    kubelet.mkdir()
    if what == "directory":
        (kubelet / "plugins").touch()
    else:
        (kubelet / "plugins" / name).mkdir(parents=True)
        (kubelet / "plugins" / name / "checkpoint.json").write_text("{")
    async with api.client() as client:
        node = DriverNode("node-0", kubelet, root / "cdi", client, SystemClock())
        running = find_driver(name, _options(root)).on_node(node)
        with pytest.raises(DriverConfigError, match=message):
            await running.__aenter__()


async def test_device_classes_are_created_with_the_driver_and_not_overwritten(
    root: Path, api: FakeApi
) -> None:
    driver = find_driver("gpu.nvidia.com", _options(root))
    async with api.client() as client:
        await ensure_device_classes(client, [driver])
    classes = {c["metadata"]["name"]: c["spec"] for c in api.of("deviceclasses")}
    assert sorted(classes) == ["gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"]
    assert classes["gpu.nvidia.com"]["extendedResourceName"] == "nvidia.com/gpu"
    assert classes["mig.nvidia.com"]["selectors"][0]["cel"]["expression"] == (
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
    )


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("gpu.nvidia.com", {"gpus": "8xH900"}, "unknown GPU model 'H900', known models: A100"),
        (
            "gpu.nvidia.com",
            {"values": {"nvidia-gates": "DynamicMIG=true,MPSSupport=true"}},
            "mutually exclusive",
        ),
        ("gpu.nvidia.com", {"values": {"consumable-shares": "2"}}, "requires feature gate ConsumableShares"),
        (
            "nope.example.com",
            {},
            "known drivers: compute-domain.nvidia.com, cpu.example.com, .*gpu.nvidia.com, .*nvidia-device-plugin",
        ),
        (
            "gpu.example.com:nope",
            {},
            "no variant 'nope', known variants: binding-conditions, device-plugin, partitioned",
        ),
        ("/nowhere/x.yaml", {}, "driver profile /nowhere/x.yaml"),
    ],
)
def test_invalid_options_of_the_nvidia_driver_are_rejected(
    root: Path, name: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(DriverConfigError, match=message):
        find_driver(name, _options(root, **fields))

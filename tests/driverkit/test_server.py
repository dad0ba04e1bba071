"""The plugin helper on its real sockets, called as the kubelet calls it."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from dra_driverkit.claims import ClaimRef, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import DriverConfigError, PrepareError
from dra_driverkit.health import Health, HealthBoard
from dra_driverkit.metadata import V1BETA1, MetadataError, MetadataWriter
from dra_driverkit.proto import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    registration_v1_pb2,
    rpc,
)
from dra_driverkit.server import DriverServer
from dra_node_agent.kubelet.dra.health import Health as KubeletHealth
from dra_node_agent.kubelet.dra.health import HealthInfoCache, device_health
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.clock import FakeClock, SystemClock
from grpc import aio

from tests.support.fakeapi import FakeApi

_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))


class _Handler:
    def __init__(self) -> None:
        self.unprepared: list[ClaimRef] = []

    async def prepare(self, claim: ResourceClaim) -> Sequence[PreparedDevice]:
        if claim.metadata.name == "broken":
            raise PrepareError("no luck today")
        if claim.metadata.name == "buggy":
            raise KeyError("nowhere")
        return [PreparedDevice(("main/sub",), "node-0", "gpu-0", ("a.b/c=d",), "share-1")]

    async def unprepare(self, claim: ClaimRef) -> None:
        if claim.name == "broken":
            raise PrepareError("still in use")
        self.unprepared.append(claim)


def _below(root: Path) -> Directories:
    return Directories.below("gpu.example.com", root, root / "cdi")


@pytest.fixture
def root() -> Iterator[Path]:
    # Sockets' paths must be short, pytest's directories aren't.
    with tempfile.TemporaryDirectory(prefix="nd") as directory:
        yield Path(directory)


@pytest.fixture
def api() -> FakeApi:
    fake = FakeApi()
    for name, allocated in (("good", True), ("broken", True), ("buggy", True), ("pending", False)):
        status: dict[str, Any] = {"allocation": {"devices": {}}} if allocated else {}
        fake.put(
            RESOURCE_CLAIMS,
            {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "status": status},
        )
    return fake


@pytest.fixture
def board() -> HealthBoard:
    return HealthBoard()


@pytest.fixture
async def plugin(root: Path, api: FakeApi, board: HealthBoard) -> AsyncIterator[DriverServer]:
    handler = _Handler()
    async with (
        api.client() as client,
        DriverServer(
            "gpu.example.com", "node-0", _below(root), handler, client, SystemClock(), health=board
        ) as running,
    ):
        yield running


@pytest.fixture
async def channel(plugin: DriverServer) -> AsyncIterator[aio.Channel]:
    async with aio.insecure_channel(f"unix:{plugin.endpoint}", options=_OPTIONS) as opened:
        yield opened


def _claims(messages: Any, *names: str) -> list[Any]:
    return [messages.Claim(namespace="ns", name=name, uid=f"uid-{name}") for name in names]


async def test_the_server_registers_with_its_services(plugin: DriverServer, root: Path) -> None:
    socket = root / "plugins_registry" / "gpu.example.com-reg.sock"
    async with aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
        stub = rpc.stub(registration_v1_pb2, "Registration", channel)
        info = await stub.GetInfo(registration_v1_pb2.InfoRequest())
        assert (info.type, info.name) == ("DRAPlugin", "gpu.example.com")
        assert info.endpoint == str(root / "plugins" / "gpu.example.com" / "dra.sock")
        assert list(info.supported_versions) == [
            "v1.DRAPlugin",
            "v1beta1.DRAPlugin",
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        ]
        await stub.NotifyRegistrationStatus(registration_v1_pb2.RegistrationStatus(plugin_registered=True))
        assert plugin.registered.is_set()
        await stub.NotifyRegistrationStatus(
            registration_v1_pb2.RegistrationStatus(plugin_registered=False, error="no")
        )
        assert not plugin.registered.is_set()
        assert plugin.registration_error == "no"


async def test_each_claim_has_its_own_result(channel: aio.Channel) -> None:
    stub = rpc.stub(dra_v1_pb2, "DRAPlugin", channel)
    request = dra_v1_pb2.NodePrepareResourcesRequest(claims=_claims(dra_v1_pb2, "good", "broken"))
    answer = await stub.NodePrepareResources(request)
    assert answer.claims["uid-broken"].error == "no luck today"
    (device,) = answer.claims["uid-good"].devices
    assert list(device.request_names) == ["main"]
    assert (device.pool_name, device.device_name, device.share_id) == ("node-0", "gpu-0", "share-1")
    assert list(device.cdi_device_ids) == ["a.b/c=d"]


async def test_an_exception_in_the_driver_fails_only_the_claim_that_caused_it(channel: aio.Channel) -> None:
    stub = rpc.stub(dra_v1_pb2, "DRAPlugin", channel)
    request = dra_v1_pb2.NodePrepareResourcesRequest(claims=_claims(dra_v1_pb2, "buggy", "good"))
    answer = await stub.NodePrepareResources(request)
    assert answer.claims["uid-buggy"].error == "prepare of claim uid-buggy failed: KeyError: 'nowhere'"
    assert len(answer.claims["uid-good"].devices) == 1


class _Busy(_Handler):
    """A driver that counts its concurrent calls."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    async def prepare(self, claim: ResourceClaim) -> Sequence[PreparedDevice]:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return []


@pytest.mark.parametrize(("serialize", "most"), [(True, 1), (False, 2)])
async def test_calls_are_serialized_unless_the_driver_opts_out(
    root: Path, api: FakeApi, serialize: bool, most: int
) -> None:
    busy = _Busy()
    async with api.client() as client:
        plugin = DriverServer(
            "gpu.example.com", "node-0", _below(root), busy, client, SystemClock(), serialize=serialize
        )
        await asyncio.gather(*(plugin.prepare([ClaimRef("ns", "good", "uid-good")]) for _ in range(2)))
    assert busy.most == most


async def test_calls_of_two_instances_are_serialized(root: Path, api: FakeApi) -> None:
    busy = _Busy()
    async with api.client() as client:
        old, new = (
            DriverServer("gpu.example.com", "n", _below(root), busy, client, SystemClock(), instance=uid)
            for uid in ("old", "new")
        )
        async with old:
            async with new:
                names = _sockets(root)
                await asyncio.gather(
                    *(plugin.prepare([ClaimRef("ns", "good", "uid-good")]) for plugin in (old, new))
                )
            assert _sockets(root) == ["dra-old.sock", "gpu.example.com-old-reg.sock"]
    assert names == [
        "dra-new.sock",
        "dra-old.sock",
        "gpu.example.com-new-reg.sock",
        "gpu.example.com-old-reg.sock",
    ]
    assert busy.most == 1


async def test_the_driver_server_also_serves_v1beta1_of_the_dra_service(channel: aio.Channel) -> None:
    stub = rpc.stub(dra_v1beta1_pb2, "DRAPlugin", channel)
    request = dra_v1beta1_pb2.NodePrepareResourcesRequest(claims=_claims(dra_v1beta1_pb2, "good"))
    answer = await stub.NodePrepareResources(request)
    assert [device.device_name for device in answer.claims["uid-good"].devices] == ["gpu-0"]


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (
            dra_v1_pb2.Claim(namespace="ns", name="none", uid="x"),
            'get resource claims: retrieve claim ns/none: resourceclaims.resource.k8s.io "none" not found',
        ),
        (
            dra_v1_pb2.Claim(namespace="ns", name="pending", uid="uid-pending"),
            "get resource claims: claim ns/pending not allocated",
        ),
        (
            dra_v1_pb2.Claim(namespace="ns", name="good", uid="older"),
            "get resource claims: claim ns/good got replaced",
        ),
    ],
)
async def test_the_call_fails_if_a_claim_cannot_be_read(
    channel: aio.Channel, claim: dra_v1_pb2.Claim, message: str
) -> None:
    stub = rpc.stub(dra_v1_pb2, "DRAPlugin", channel)
    with pytest.raises(aio.AioRpcError) as caught:
        await stub.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim]))
    assert caught.value.code() == grpc.StatusCode.UNKNOWN
    assert caught.value.details() == message


async def test_claims_are_unprepared_even_if_the_api_server_is_unreachable(
    channel: aio.Channel, api: FakeApi
) -> None:
    for _, namespace, name in api.keys:
        api.remove("resourceclaims", namespace, name)
    stub = rpc.stub(dra_v1_pb2, "DRAPlugin", channel)
    request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=_claims(dra_v1_pb2, "good", "broken"))
    answer = await stub.NodeUnprepareResources(request)
    assert {uid: entry.error for uid, entry in answer.claims.items()} == {
        "uid-good": "",
        "uid-broken": "still in use",
    }


async def test_health_is_streamed_as_it_changes(channel: aio.Channel, board: HealthBoard) -> None:
    await board.set([Health("node-0", "gpu-0", True)])
    stream = rpc.stub(health_v1_pb2, "DRAResourceHealth", channel).NodeWatchResources(
        health_v1_pb2.NodeWatchResourcesRequest()
    )
    first = await stream.read()
    await board.set([Health("node-0", "gpu-0", False, "xid 79"), Health("node-0", "gpu-1", None)])
    second = await stream.read()
    stream.cancel()
    assert [entry.health for entry in first.devices] == [health_v1_pb2.HEALTHY]
    assert [(e.device.device_name, e.health, e.message) for e in second.devices] == [
        ("gpu-0", health_v1_pb2.UNHEALTHY, "xid 79"),
        ("gpu-1", health_v1_pb2.UNKNOWN, ""),
    ]


async def test_health_is_repeated_before_it_expires_in_the_kubelet(board: HealthBoard) -> None:
    clock = FakeClock()
    cache = HealthInfoCache(None, clock)
    reports = 0

    async def watch() -> None:
        nonlocal reports
        async for devices in board.reports(clock):
            reports += 1
            cache.update(
                "driver",
                [device_health(d.pool, d.device, 1 if d.healthy else 2, 0, d.message) for d in devices],
            )

    await board.set([Health("node-0", "gpu-0", True), Health("node-0", "gpu-1", True)])
    watching = asyncio.create_task(watch())
    seen = set()
    for second in range(600):
        await clock.advance(1)
        if second == 300:
            await board.set([Health("node-0", "gpu-0", False, "xid 79"), Health("node-0", "gpu-1", True)])
            await clock.advance(0.1)
        shown = cache.get("driver", "node-0", "gpu-0")
        seen.add((second >= 300, shown.health, shown.message))
        assert cache.get("driver", "node-0", "gpu-1").health is KubeletHealth.HEALTHY
    watching.cancel()
    assert seen == {(False, KubeletHealth.HEALTHY, ""), (True, KubeletHealth.UNHEALTHY, "xid 79")}
    assert reports < 70, "a report every ten seconds is enough"


async def test_device_metadata_is_mounted_into_containers(root: Path, api: FakeApi) -> None:
    directories = _below(root)
    writer = MetadataWriter("gpu.example.com", directories, [V1BETA1])
    good = ClaimRef("ns", "good", "uid-good")
    async with api.client() as client:
        plugin = DriverServer(
            "gpu.example.com", "n", directories, _Handler(), client, SystemClock(), metadata=writer
        )
        answers = await plugin.prepare([good, ClaimRef("ns", "broken", "uid-broken")])
        device = answers["uid-good"][0]
        assert isinstance(device, PreparedDevice)
        assert device.cdi_ids == ("a.b/c=d", "gpu.example.com/metadata=uid-good_main")
        (file,) = directories.plugin.rglob("metadata.json")
        assert '"generation": 1' in file.read_text()
        plugin.update_metadata(good, "main", [device])
        assert '"generation": 2' in file.read_text()
        await plugin.prepare([good])
        assert '"generation": 1' in file.read_text(), "prepared again, as after a restart of the kubelet"
        await plugin.unprepare([good])
        assert not [*directories.plugin.rglob("metadata.json"), *directories.cdi.iterdir()]


async def test_a_claim_is_prepared_even_if_it_has_no_metadata(root: Path, api: FakeApi) -> None:
    directories = _below(root)
    directories.plugin.mkdir(parents=True)
    (directories.plugin / "dra-device-metadata").write_text("in the way")
    writer = MetadataWriter("gpu.example.com", directories, [V1BETA1])
    async with api.client() as client:
        plugin = DriverServer(
            "gpu.example.com", "n", directories, _Handler(), client, SystemClock(), metadata=writer
        )
        answers = await plugin.prepare([ClaimRef("ns", "good", "uid-good")])
        device = answers["uid-good"][0]
        assert isinstance(device, PreparedDevice)
        assert device.cdi_ids == ("a.b/c=d",)


async def test_updating_metadata_raises_if_device_metadata_is_disabled(plugin: DriverServer) -> None:
    with pytest.raises(MetadataError, match="device metadata is not enabled"):
        plugin.update_metadata(ClaimRef("ns", "good", "uid-good"), "main", [])


async def test_stopping_the_server_removes_its_sockets_and_starting_replaces_stale_ones(
    root: Path, api: FakeApi
) -> None:
    async with api.client() as client:
        for _ in range(2):
            plugin = DriverServer(
                "gpu.example.com", "node-0", _below(root), _Handler(), client, SystemClock()
            )
            async with plugin:
                assert _sockets(root) == ["dra.sock", "gpu.example.com-reg.sock"]
            assert _sockets(root) == []
            _leave_behind(plugin.endpoint)


def _sockets(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.sock"))


def _leave_behind(path: str) -> None:
    Path(path).write_text("stale")


async def test_a_path_too_long_for_a_socket_is_reported(root: Path, api: FakeApi) -> None:
    async with api.client() as client:
        plugin = DriverServer(
            "gpu.example.com", "n", _below(root / ("x" * 100)), _Handler(), client, SystemClock()
        )
        with pytest.raises(DriverConfigError, match="socket path is longer than 107 bytes"):
            await plugin.start()

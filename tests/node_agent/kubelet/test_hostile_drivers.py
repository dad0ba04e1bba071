"""Drivers with invalid responses: the pod gets the same event as in upstream, and is retried."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from dra_driverkit.proto import dra_v1_pb2, registration_v1_pb2
from dra_node_agent.kubelet.dra.connection import DriverConnection, DriverError
from dra_node_agent.kubelet.dra.health import MOST_DEVICES, Health, HealthInfoCache, device_health
from dra_shared.clock import FakeClock
from grpc import aio

from tests.support.kubelet.bench import Bench, claim, pod
from tests.support.waiting import until

_GARBAGE = b"\xff\xff\xff"
_UNDECODABLE = (
    "rpc error: code = Internal desc = grpc: failed to unmarshal the received message: "
    "proto: cannot parse invalid wire-format data"
)
_PREFIX = "Failed to prepare dynamic resources: prepare dynamic resources: "


def _prepare_response(uid: str) -> bytes:
    device = dra_v1_pb2.Device(pool_name="pool", device_name="gpu", request_names=["request"])
    answer = dra_v1_pb2.NodePrepareResourceResponse(devices=[device])
    return dra_v1_pb2.NodePrepareResourcesResponse(claims={uid: answer}).SerializeToString()


class _Raw(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Responds to each method with the given bytes."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = answers
        self.calls: list[str] = []

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        if name not in self.answers:
            return None
        if name == "NodeWatchResources":
            return grpc.unary_stream_rpc_method_handler(self._stream(name))
        return grpc.unary_unary_rpc_method_handler(self._unary(name))

    def _unary(self, name: str) -> Callable[[bytes, Any], Any]:
        async def answer(_: bytes, context: Any) -> bytes:
            self.calls.append(name)
            return self.answers[name]

        return answer

    def _stream(self, name: str) -> Callable[[bytes, Any], Any]:
        async def answers(_: bytes, context: Any) -> AsyncIterator[bytes]:
            self.calls.append(name)
            yield self.answers[name]

        return answers


@asynccontextmanager
async def _serve(socket: Path, answers: dict[str, bytes]) -> AsyncIterator[_Raw]:
    raw = _Raw(answers)
    server = aio.server()
    server.add_generic_rpc_handlers((raw,))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield raw
    finally:
        await server.stop(None)


def _info(socket: Path) -> bytes:
    return registration_v1_pb2.PluginInfo(
        type="DRAPlugin", name="test-driver", endpoint=str(socket), supported_versions=["v1.DRAPlugin"]
    ).SerializeToString()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(_GARBAGE, f"NodePrepareResources: {_UNDECODABLE}", id="undecodable"),
        pytest.param(b"\x08\x01", "NodePrepareResources skipped 1 ResourceClaims", id="wrong types"),
        pytest.param(b"", "NodePrepareResources skipped 1 ResourceClaims", id="empty"),
        pytest.param(
            _prepare_response("other-uid"),
            "NodePrepareResources returned result for unknown claim UID other-uid",
            id="of another claim",
        ),
        pytest.param(
            b"\x12\x80\x80\xc0\x02" + bytes(5 << 20),
            "NodePrepareResources: rpc error: code = ResourceExhausted desc = grpc: received message larger "
            f"than max ({(5 << 20) + 5} vs. 4194304)",
            id="huge",
        ),
    ],
)
async def test_a_pod_gets_an_event_and_is_retried_after_an_invalid_response(
    answer: bytes, message: str
) -> None:
    bench = Bench()
    socket = bench.registry / "test-driver.sock"
    answers = {"GetInfo": _info(socket), "NotifyRegistrationStatus": b"", "NodePrepareResources": answer}
    async with bench, _serve(socket, answers) as driver:
        await until(lambda: "NotifyRegistrationStatus" in driver.calls, clock=bench.clock)
        bench.add_claim(claim("gpu", "pod"))
        bench.create(pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        await until(lambda: "NodePrepareResources" in driver.calls)
        expected = ("FailedPrepareDynamicResources", _PREFIX + message)

        async def events() -> bool:
            return expected in await bench.events("Pod")

        await until(events)
        driver.answers["NodePrepareResources"] = _prepare_response("gpu-uid")
        await until(lambda: bench.phase() == "Running", clock=bench.clock)


async def test_undecodable_registrations_are_retried() -> None:
    bench = Bench()
    socket = bench.registry / "test-driver.sock"
    answers = {"GetInfo": _GARBAGE, "NotifyRegistrationStatus": _GARBAGE}
    async with bench, _serve(socket, answers) as driver:
        await until(lambda: driver.calls.count("GetInfo") > 1, clock=bench.clock)
        driver.answers["GetInfo"] = _info(socket)
        await until(lambda: "NotifyRegistrationStatus" in driver.calls, clock=bench.clock)
        driver.answers["NotifyRegistrationStatus"] = b""
        await until(lambda: "test-driver" in bench.kubelet.dra.connections.drivers(), clock=bench.clock)


async def test_undecodable_responses_of_other_methods_are_errors_of_the_call(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    answers = {"NodeUnprepareResources": _GARBAGE, "NodeWatchResources": _GARBAGE}
    async with _serve(socket, answers):
        plugin = DriverConnection("test-driver", str(socket), ["v1.DRAPlugin", "v1.DRAResourceHealth"])
        with pytest.raises(DriverError) as refused:
            await plugin.unprepare([dra_v1_pb2.Claim(uid="uid")])
        assert str(refused.value) == _UNDECODABLE
        with pytest.raises(DriverError) as broken:
            async for _ in plugin.watch_health():
                pass
        assert str(broken.value) == _UNDECODABLE
        await plugin.close()


async def test_health_of_devices_that_are_no_longer_reported_is_dropped(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "health"
    cache = HealthInfoCache(path, clock)
    for number in range(100):
        cache.update("driver", [device_health("pool", f"invented-{number}", 1, 0, "")])
        await clock.advance(31)
    cache.save()
    assert path.stat().st_size < 1000
    assert cache.get("driver", "pool", "invented-5").health is Health.UNKNOWN
    assert cache.get("driver", "pool", "invented-99").health is Health.UNKNOWN, "stale"
    again = HealthInfoCache(path, clock)
    assert list(again._drivers["driver"]) == ["pool/invented-99"]
    assert again.get("driver", "pool", "invented-99").health is Health.HEALTHY, "until the driver is back"
    await clock.advance(31)
    assert again.get("driver", "pool", "invented-99").health is Health.UNKNOWN


def test_the_number_of_reported_devices_is_limited() -> None:
    cache = HealthInfoCache(None, FakeClock())
    for report in range(5):
        devices = [device_health("pool", f"{report}-{n}", 1, 1 << 40, "") for n in range(MOST_DEVICES // 2)]
        cache.update("driver", devices)
    assert len(cache._drivers["driver"]) == MOST_DEVICES
    assert cache.get("driver", "pool", "0-0").health is Health.UNKNOWN
    assert cache.get("driver", "pool", "4-0").health is Health.HEALTHY
    changed = cache.update(
        "driver", [device_health("pool", f"all-{n}", 1, 0, "") for n in range(MOST_DEVICES + 1)]
    )
    assert len(cache._drivers["driver"]) == MOST_DEVICES
    assert sum(device.health is Health.UNKNOWN for device in changed) == MOST_DEVICES + 1

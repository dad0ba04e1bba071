"""Drivers of the gRPC service Node, as Kubernetes 1.27 to 1.31 had them."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from dra_driverkit.proto import dra_v1_pb2, dra_v1alpha3_pb2
from dra_node_agent.kubelet.dra.connection import DriverConnection, DriverError, choose_service
from grpc import aio

_CLAIM = dra_v1_pb2.Claim(namespace="default", uid="u", name="c")
_DEVICE = dra_v1alpha3_pb2.Device(
    request_names=["gpu"], pool_name="node", device_name="gpu-0", cdi_device_ids=["vendor/gpu=0"]
)


class _Node:
    """A driver that returns these entries for each claim, or an error."""

    def __init__(self, *devices: bytes, error: str = "") -> None:
        self.devices = devices
        self.error = error
        self.calls: list[tuple[str, list[str]]] = []

    async def prepare(self, request: dra_v1alpha3_pb2.NodePrepareResourcesRequest, context: Any) -> Any:
        self.calls.append(("prepare", [f"{one.namespace}/{one.name} {one.uid}" for one in request.claims]))
        one = dra_v1alpha3_pb2.NodePrepareResourceResponse(devices=self.devices, error=self.error)
        return dra_v1alpha3_pb2.NodePrepareResourcesResponse(claims={c.uid: one for c in request.claims})

    async def unprepare(self, request: dra_v1alpha3_pb2.NodeUnprepareResourcesRequest, context: Any) -> Any:
        self.calls.append(("unprepare", [one.uid for one in request.claims]))
        one = dra_v1alpha3_pb2.NodeUnprepareResourceResponse(error=self.error)
        return dra_v1alpha3_pb2.NodeUnprepareResourcesResponse(claims={c.uid: one for c in request.claims})

    def handler(self, package: str) -> grpc.GenericRpcHandler:
        """Return the handler of the service in a package."""
        methods = {
            "NodePrepareResources": grpc.unary_unary_rpc_method_handler(
                self.prepare,
                request_deserializer=dra_v1alpha3_pb2.NodePrepareResourcesRequest.FromString,
                response_serializer=lambda answer: answer.SerializeToString(),
            ),
            "NodeUnprepareResources": grpc.unary_unary_rpc_method_handler(
                self.unprepare,
                request_deserializer=dra_v1alpha3_pb2.NodeUnprepareResourcesRequest.FromString,
                response_serializer=lambda answer: answer.SerializeToString(),
            ),
        }
        return grpc.method_handlers_generic_handler(f"{package}.Node", methods)


@asynccontextmanager
async def _connect(
    node: _Node, service: str = "v1alpha3.Node", package: str = "v1alpha3"
) -> AsyncIterator[DriverConnection]:
    with tempfile.TemporaryDirectory(prefix="a", dir="/tmp") as folder:
        endpoint = str(Path(folder, "dra.sock"))
        server = aio.server()
        server.add_generic_rpc_handlers((node.handler(package),))
        server.add_insecure_port(f"unix:{endpoint}")
        await server.start()
        connection = DriverConnection("test-driver", endpoint, [service])
        try:
            yield connection
        finally:
            await connection.close()
            await server.stop(None)


@pytest.mark.parametrize("service", ["v1alpha3.Node", "v1alpha3.NodeService"])
async def test_cdi_names_apply_to_all_requests(service: str) -> None:
    node = _Node(b"vendor/gpu=0", b"vendor/gpu=1")
    async with _connect(node, service) as connection:
        answer = (await connection.prepare([_CLAIM]))["u"]
        assert await connection.unprepare([_CLAIM]) == {"u": ""}
    assert [list(device.cdi_device_ids) for device in answer.devices] == [["vendor/gpu=0"], ["vendor/gpu=1"]]
    assert not any(device.request_names for device in answer.devices)
    assert node.calls == [("prepare", ["default/c u"]), ("unprepare", ["u"])]


@pytest.mark.parametrize("package", ["v1alpha3", "v1alpha4"])
async def test_devices_of_alpha_drivers_are_returned_with_requests_and_names(package: str) -> None:
    async with _connect(_Node(_DEVICE.SerializeToString()), "v1alpha4.Node", package) as connection:
        [device] = (await connection.prepare([_CLAIM]))["u"].devices
        assert await connection.unprepare([_CLAIM]) == {"u": ""}
    assert (list(device.request_names), device.pool_name, device.device_name) == (["gpu"], "node", "gpu-0")
    assert list(device.cdi_device_ids) == ["vendor/gpu=0"]


async def test_the_error_of_a_driver_for_a_claim_is_returned() -> None:
    async with _connect(_Node(error="no such claim")) as connection:
        assert (await connection.prepare([_CLAIM]))["u"].error == "no such claim"
        assert await connection.unprepare([_CLAIM]) == {"u": "no such claim"}


@pytest.mark.parametrize(
    ("entry", "message"), [(b"\x0a\xff", "none of v1alpha4"), (b"vendor/gpu=\xff", "NodePrepareResources of")]
)
async def test_an_entry_that_is_neither_name_nor_device_is_an_error(entry: bytes, message: str) -> None:
    async with _connect(_Node(entry)) as connection:
        with pytest.raises(DriverError, match=message):
            await connection.prepare([_CLAIM])


async def test_calling_a_service_that_the_driver_does_not_implement_is_an_error() -> None:
    async with _connect(_Node(), "v1alpha4.Node", "v1alpha5") as connection:
        with pytest.raises(DriverError, match="Unimplemented"):
            await connection.prepare([_CLAIM])


def test_a_current_service_is_preferred_to_alpha_services() -> None:
    assert choose_service(["v1alpha3.NodeService", "v1beta1.DRAPlugin"]) == "v1beta1.DRAPlugin"
    assert choose_service(["v1alpha4.Node", "v1alpha3.Node"]) == "v1alpha4.Node"
    with pytest.raises(DriverError, match="none of services supported by the plugin"):
        choose_service(["v1alpha2.Node"])

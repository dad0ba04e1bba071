"""Resource handles of classic claims in the calls of v1alpha3.Node, against a real API server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_driverkit.proto import dra_v1_pb2, dra_v1alpha3_pb2
from dra_node_agent.kubelet.dra.classichandles import ClassicHandles
from dra_node_agent.kubelet.dra.errors import DraError
from dra_shared.claims import CLASSIC_UID_ANNOTATION
from dra_shared.client.rest import Client

_CLAIMS = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaims"
_CLASSIC, _CURRENT = _CLAIMS.format("v1alpha3"), _CLAIMS.format("v1")
_DRIVER = "gpu.nvidia.com"
_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    config = Config(port=0, data=tmp_path, relaxed=True, runtime_config="resource.k8s.io/classic=true")
    async with ApiServer(config) as server, Client(server.url) as client:
        yield client


async def _send(client: Client, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = await client.raw(method, path, content=orjson.dumps(body))
    assert response.status_code in (200, 201), response.text
    answer: dict[str, Any] = response.json()
    return answer


async def _create_classic(client: Client) -> dict[str, Any]:
    spec = {"resourceClassName": "gpu.nvidia.com"}
    body = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceClaim"}
    return await _send(client, "POST", _CLASSIC, {**body, "metadata": {"name": "c"}, "spec": spec})


async def _allocate(client: Client, classic: dict[str, Any], handle: dict[str, Any]) -> None:
    status = {"driverName": _DRIVER, "allocation": {"resourceHandles": [handle]}}
    await _send(client, "PUT", f"{_CLASSIC}/c/status", {**classic, "status": status})


async def _create_current(client: Client, origin: str | None) -> dra_v1_pb2.Claim:
    annotations = {} if origin is None else {CLASSIC_UID_ANNOTATION: origin}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "annotations": annotations},
        "spec": {"devices": {"requests": [_REQUEST]}},
    }
    created = await _send(client, "POST", _CURRENT, body)
    return dra_v1_pb2.Claim(namespace="default", name="c", uid=created["metadata"]["uid"])


async def _convert(client: Client, claim: dra_v1_pb2.Claim, driver: str = _DRIVER) -> bytes:
    """Convert the claim for the driver. Return the message with the UID ``u``."""
    [converted] = await ClassicHandles(client).convert([claim], driver)
    converted.uid = "u"
    content: bytes = converted.SerializeToString(deterministic=True)
    return content


# The expected bytes are those of k8s.io/kubelet/pkg/apis/dra/v1alpha3 v0.30.14.
_WITHOUT_HANDLE = b"\n\x07default\x12\x01u\x1a\x01c"


async def test_structured_handle_of_a_classic_claim_reaches_the_driver(client: Client) -> None:
    classic = await _create_classic(client)
    data = {
        "vendorClaimParameters": {"kind": "GpuConfig"},
        "nodeName": "node-1",
        "results": [{"namedResources": {"name": "gpu-0"}}],
    }
    await _allocate(client, classic, {"driverName": _DRIVER, "structuredData": data})
    claim = await _create_current(client, classic["metadata"]["uid"])
    assert await _convert(client, claim) == (
        _WITHOUT_HANDLE
        + b'*1\n\x00\x12\x16\n\x14{"kind":"GpuConfig"}"\x06node-1*\r\n\x00\x12\t\n\x07\n\x05gpu-0'
    )


async def test_the_driver_gets_the_data_that_its_own_allocation_stored(client: Client) -> None:
    classic = await _create_classic(client)
    await _allocate(client, classic, {"data": '{"devices":[]}'})
    claim = await _create_current(client, classic["metadata"]["uid"])
    assert await _convert(client, claim) == _WITHOUT_HANDLE + b'"\x0e{"devices":[]}'
    assert await _convert(client, claim, driver="other.example.com") == _WITHOUT_HANDLE


async def test_claim_without_a_classic_form_has_no_handle(client: Client) -> None:
    classic = await _create_classic(client)
    await _allocate(client, classic, {"data": "of another claim"})
    claim = await _create_current(client, None)
    assert await _convert(client, claim) == _WITHOUT_HANDLE
    missing = dra_v1_pb2.Claim(namespace="default", name="deleted", uid="u")
    [converted] = await ClassicHandles(client).convert([missing], _DRIVER)
    assert converted == dra_v1alpha3_pb2.Claim(namespace="default", name="deleted", uid="u")


async def test_claim_is_not_prepared_before_its_classic_form_is_allocated(client: Client) -> None:
    classic = await _create_classic(client)
    claim = await _create_current(client, classic["metadata"]["uid"])
    with pytest.raises(DraError, match="ResourceClaim c: no resource handles yet"):
        await _convert(client, claim)

"""A DRA driver with the protocol behaviour of one that is written in Go with the kubeletplugin helper."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx
from dra_driverkit.proto import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    registration_v1_pb2,
    rpc,
)
from dra_shared.jsontypes import JsonObject
from grpc import aio

_LONGEST_PATH = 107
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_SERVICES = {
    "v1.DRAPlugin": dra_v1_pb2,
    "v1beta1.DRAPlugin": dra_v1beta1_pb2,
}


class GoPlugin:
    """One instance of the driver ``name`` on ``node``; ``uid`` is that of its pod, for rolling updates.

    Args:
        root: the kubelet's directory.
        cdi: where CDI files go.
        services: which DRA services it offers, in the helper's order.
    """

    def __init__(
        self,
        server: str,
        root: Path,
        cdi: Path,
        *,
        name: str,
        node: str = "node-0",
        uid: str = "",
        services: Sequence[str] = ("v1.DRAPlugin", "v1beta1.DRAPlugin"),
    ) -> None:
        part = f"-{uid}" if uid else ""
        self.name = name
        self.calls: list[tuple[str, str]] = []
        self.registered: asyncio.Queue[tuple[bool, str]] = asyncio.Queue()
        self._node = node
        self._cdi = cdi
        self._services = services
        self._endpoint = root / "plugins" / name / f"dra{part}.sock"
        self._registration = _registrar_socket(root / "plugins_registry", name, uid)
        self._api = httpx.AsyncClient(
            base_url=server,
            headers={
                "User-Agent": "plugin/v0.0.0 (linux/amd64) kubernetes/$Format",
                "Accept": "application/json",
            },
            trust_env=False,
        )
        self._servers: list[tuple[aio.Server, Path]] = []

    async def __aenter__(self) -> Self:
        self._endpoint.parent.mkdir(parents=True, exist_ok=True)
        # The plugin's own server first: the kubelet connects as soon as it sees the registration.
        await self._serve(self._endpoint, *self._services)
        await self._serve(self._registration)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._api.aclose()

    async def stop(self) -> None:
        """Stop serving, and remove the sockets."""
        while self._servers:
            server, socket = self._servers.pop(0)
            await server.stop(None)
            await asyncio.to_thread(socket.unlink, missing_ok=True)

    async def publish(self, devices: Sequence[JsonObject]) -> None:
        """Create or update the node's slice as the helper's slice controller does."""
        node = (await self._request("GET", f"/api/v1/nodes/{self._node}")).json()
        selector = {"fieldSelector": f"spec.driver={self.name},spec.nodeName={self._node}"}
        known = (await self._request("GET", _SLICES, params={**selector, "resourceVersion": "0"})).json()[
            "items"
        ]
        for found in known:
            found["spec"]["devices"] = list(devices)
            await self._request("PUT", f"{_SLICES}/{found['metadata']['name']}", found)
        if known:
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node["metadata"]["uid"]}
        slice_ = {
            "kind": "ResourceSlice",
            "apiVersion": "resource.k8s.io/v1",
            "metadata": {
                "generateName": f"00000-{self.name}-{self._node}-",
                "creationTimestamp": None,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {
                "driver": self.name,
                "pool": {"name": self._node, "generation": 1, "resourceSliceCount": 1},
                "nodeName": self._node,
                "devices": list(devices),
            },
        }
        made = (await self._request("POST", _SLICES, slice_)).json()
        # Like the helper, check the stored slice: the server may have dropped fields.
        assert made["spec"] == slice_["spec"]

    async def slices(self) -> list[JsonObject]:
        """Return the driver's slices of this node."""
        selector = {"fieldSelector": f"spec.driver={self.name},spec.nodeName={self._node}"}
        items: list[JsonObject] = (await self._request("GET", _SLICES, params=selector)).json()["items"]
        return items

    async def _request(
        self, method: str, path: str, body: JsonObject | None = None, params: dict[str, str] | None = None
    ) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        response = await self._api.request(method, path, content=content, params=params, headers=headers)
        assert response.status_code < 300, response.text
        return response

    async def _serve(self, socket: Path, *services: str) -> None:
        server = aio.server()
        for service in services:
            messages = _SERVICES[service]
            rpc.serve(messages, "DRAPlugin", _Claims(self, service, messages), server)
        if not services:
            rpc.serve(registration_v1_pb2, "Registration", _Registration(self), server)
        await asyncio.to_thread(socket.unlink, missing_ok=True)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        self._servers.append((server, socket))

    def info(self) -> registration_v1_pb2.PluginInfo:
        """Return the registration data of the plugin."""
        return registration_v1_pb2.PluginInfo(
            type="DRAPlugin", name=self.name, endpoint=str(self._endpoint), supported_versions=self._services
        )

    async def prepare(self, claim: Any) -> JsonObject:
        """Return the response for one claim, with a CDI ID for each of its devices."""
        path = f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        found = (await self._request("GET", path)).json()
        if found["metadata"]["uid"] != claim.uid:
            return {"error": f"claim {claim.namespace}/{claim.name} got replaced"}
        results = [
            result
            for result in found["status"]["allocation"]["devices"]["results"]
            if result["driver"] == self.name
        ]
        spec = {
            "cdiVersion": "0.6.0",
            "kind": f"{self.name}/claim",
            "devices": [
                {
                    "name": f"{claim.uid}-{result['device']}",
                    "containerEdits": {"env": [f"GO_DEVICE={result['device']}"]},
                }
                for result in results
            ],
        }
        self._file(claim.uid).write_text(json.dumps(spec))
        return {
            "devices": [
                {
                    "request_names": [result["request"].partition("/")[0]],
                    "pool_name": result["pool"],
                    "device_name": result["device"],
                    "cdi_device_ids": [f"{self.name}/claim={claim.uid}-{result['device']}"],
                }
                for result in results
            ]
        }

    def unprepare(self, claim: Any) -> None:
        """Undo :meth:`prepare`. No-op if nothing was prepared."""
        self._file(claim.uid).unlink(missing_ok=True)

    def _file(self, uid: str) -> Path:
        return self._cdi / f"{self.name}-claim_{uid}.json"


def _registrar_socket(registry: Path, name: str, uid: str) -> Path:
    """Return the first of the helper's names that is short enough for a socket."""
    if not uid:
        return registry / f"{name}-reg.sock"
    short = _hash(uid)[:8]
    both = _hash(f"{name}\0{uid}")[:16]
    names = (f"{name}-{uid}", f"{name}-{_base64(short)}", f"dra-{_base64(both)}")
    paths = [registry / f"{entry}-reg.sock" for entry in names]
    return next((path for path in paths if len(str(path)) <= _LONGEST_PATH), paths[-1])


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Claims:
    def __init__(self, plugin: GoPlugin, service: str, messages: Any) -> None:
        self._plugin = plugin
        self._service = service
        self._pb = messages

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        self._plugin.calls.append((self._service, "NodePrepareResources"))
        return self._pb.NodePrepareResourcesResponse(
            claims={
                claim.uid: self._pb.NodePrepareResourceResponse(**await self._plugin.prepare(claim))
                for claim in request.claims
            }
        )

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        self._plugin.calls.append((self._service, "NodeUnprepareResources"))
        for claim in request.claims:
            self._plugin.unprepare(claim)
        return self._pb.NodeUnprepareResourcesResponse(
            claims={claim.uid: self._pb.NodeUnprepareResourceResponse() for claim in request.claims}
        )


class _Registration:
    def __init__(self, plugin: GoPlugin) -> None:
        self._plugin = plugin

    async def GetInfo(self, request: Any, context: Any) -> Any:
        return self._plugin.info()

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self._plugin.registered.put_nowait((request.plugin_registered, request.error))
        return registration_v1_pb2.RegistrationStatusResponse()

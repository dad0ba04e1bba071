"""A DRA driver for tests of the kubelet. It responds as configured and records its calls."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import grpc
from dra_driverkit.cdi import CdiDevice, ContainerEdits, Spec, write_spec
from dra_driverkit.proto import (
    dra_v1_pb2,
    dra_v1alpha3_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    health_v1alpha1_pb2,
    registration_v1_pb2,
    rpc,
)
from dra_driverkit.transport import PluginServer, Sockets, UnixSockets

Answers = Mapping[str, Any]


class FakeDriver:
    """Serves the DRA protocol on a socket; with ``registry`` also the registration protocol.

    ``answers`` by claim UID: a NodePrepareResourceResponse as a dict, or None for an empty one; a claim that isn't in
    there is skipped. Without ``answers`` every claim gets one device named after it. A ``deaf`` driver is not notified
    of its registration. ``sockets``: where it listens.
    """

    def __init__(
        self,
        name: str = "test-driver",
        *,
        answers: Answers | None = None,
        version: str = "v1",
        services: Sequence[str] | None = None,
        registry: Path | None = None,
        kind: str = "DRAPlugin",
        hang: bool = False,
        cdi: Path | None = None,
        health: Sequence[str] = ("v1", "v1alpha1"),
        sockets: Sockets | None = None,
    ) -> None:
        self.name = name
        self.answers = answers
        self.version = version
        self.alpha = version.startswith("v1alpha")
        named = f"{version}.Node" if self.alpha else f"{version}.DRAPlugin"
        self.services = [named] if services is None else list(services)
        self.kind = kind
        self.hang = hang
        self._cdi = cdi
        self._health = health
        self.calls: list[tuple[str, list[dict[str, str]]]] = []
        self.prepared: set[str] = set()
        self.errors: dict[str, str] = {}
        self.deaf = False
        self.registered: asyncio.Queue[tuple[bool, str]] = asyncio.Queue()
        self.reports: asyncio.Queue[list[tuple[str, str, int, str]] | None] = asyncio.Queue()
        # Sockets need short paths.
        self._folder = tempfile.TemporaryDirectory(prefix="dra", dir="/tmp")
        self.endpoint = str(Path(self._folder.name, "dra.sock"))
        self._registry = registry
        self._sockets = sockets or UnixSockets()
        self._server: PluginServer | None = None

    async def __aenter__(self) -> Self:
        paths = [Path(self.endpoint)]
        if self._registry is not None:
            paths.append(self.registration_socket)
        self._server = self._sockets.server(paths, self._add)
        await self._server.start()
        return self

    def _add(self, server: Any) -> None:
        if self.version == "v1":
            rpc.serve(dra_v1_pb2, "DRAPlugin", _Service(self, dra_v1_pb2), server)
        elif self.alpha:
            # Both of these versions have the package v1alpha3.
            rpc.serve(dra_v1alpha3_pb2, "Node", _Service(self, dra_v1alpha3_pb2), server)
        else:
            rpc.serve(dra_v1beta1_pb2, "DRAPlugin", _Service(self, dra_v1beta1_pb2), server)
        if "v1" in self._health:
            rpc.serve(health_v1_pb2, "DRAResourceHealth", _Health(self, health_v1_pb2), server)
        if "v1alpha1" in self._health:
            old = _Health(self, health_v1alpha1_pb2)
            rpc.serve(health_v1alpha1_pb2, "DRAResourceHealth", old, server)
        rpc.serve(registration_v1_pb2, "Registration", _Registration(self), server)

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop serving, and remove the sockets."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
        if self._registry is not None:
            self.registration_socket.unlink(missing_ok=True)
        self._folder.cleanup()

    def make(self, uid: str) -> None:
        """Record a claim as prepared, with a CDI file if the driver has a directory for it."""
        self.prepared.add(uid)
        if self._cdi is not None:
            edits = ContainerEdits(env=(f"DEVICE={uid}",))
            device = CdiDevice(name=uid, container_edits=edits)
            write_spec(self._cdi, f"test_{uid}", Spec(kind=f"{self.name}/claim", devices=(device,)))

    def unmake(self, uid: str) -> None:
        """Undo :meth:`make`. No-op if nothing was made."""
        self.prepared.discard(uid)
        if self._cdi is not None:
            (self._cdi / f"test_{uid}.yaml").unlink(missing_ok=True)

    @property
    def registration_socket(self) -> Path:
        """Return the socket on which the kubelet registers the driver."""
        assert self._registry is not None
        return self._registry / f"{self.name}-reg.sock"


class _Service:
    def __init__(self, driver: FakeDriver, pb: Any) -> None:
        self._driver = driver
        self._pb = pb

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        driver = self._driver
        self._note("NodePrepareResources", request)
        if driver.hang:
            await asyncio.Event().wait()
        claims = {}
        for claim in request.claims:
            if driver.errors.get(claim.uid):
                claims[claim.uid] = self._pb.NodePrepareResourceResponse(error=driver.errors[claim.uid])
                continue
            driver.make(claim.uid)
            if driver.answers is None:
                device = {
                    "pool_name": "pool",
                    "device_name": claim.name,
                    "request_names": ["request"],
                    "cdi_device_ids": [f"{driver.name}/claim={claim.uid}"],
                }
                made: Any = device
                if driver.version == "v1alpha3":
                    made = device["cdi_device_ids"][0].encode()
                elif driver.alpha:
                    made = self._pb.Device(**device).SerializeToString()
                claims[claim.uid] = self._pb.NodePrepareResourceResponse(devices=[made])
        for uid, answer in (driver.answers or {}).items():
            claims[uid] = self._pb.NodePrepareResourceResponse(**(answer or {}))
        return self._pb.NodePrepareResourcesResponse(claims=claims)

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        driver = self._driver
        self._note("NodeUnprepareResources", request)
        if driver.hang:
            await asyncio.Event().wait()
        uids = [claim.uid for claim in request.claims] if driver.answers is None else list(driver.answers)
        for uid in uids:
            if not driver.errors.get(uid):
                driver.unmake(uid)
        return self._pb.NodeUnprepareResourcesResponse(
            claims={
                uid: self._pb.NodeUnprepareResourceResponse(error=driver.errors.get(uid, "")) for uid in uids
            }
        )

    def _note(self, method: str, request: Any) -> None:
        claims = [
            {"namespace": claim.namespace, "uid": claim.uid, "name": claim.name} for claim in request.claims
        ]
        self._driver.calls.append((method, claims))


class _Health:
    def __init__(self, driver: FakeDriver, pb: Any) -> None:
        self._driver = driver
        self._pb = pb

    async def NodeWatchResources(self, request: Any, context: Any) -> Any:
        while (report := await self._driver.reports.get()) is not None:
            yield self._pb.NodeWatchResourcesResponse(
                devices=[
                    self._pb.DeviceHealth(
                        device=self._pb.DeviceIdentifier(pool_name=pool, device_name=device),
                        health=health,
                        message=message,
                    )
                    for pool, device, health, message in report
                ]
            )


class _Registration:
    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver

    async def GetInfo(self, request: Any, context: Any) -> Any:
        driver = self._driver
        return registration_v1_pb2.PluginInfo(
            type=driver.kind, name=driver.name, endpoint=driver.endpoint, supported_versions=driver.services
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        if self._driver.deaf:
            await context.abort(grpc.StatusCode.INTERNAL, "I don't want to know")
        self._driver.registered.put_nowait((request.plugin_registered, request.error))
        return registration_v1_pb2.RegistrationStatusResponse()

"""A driver's side of the kubelet's protocols (k8s.io/dynamic-resource-allocation/kubeletplugin).

One gRPC server on two unix sockets: ``plugins/<driver>/dra.sock`` for the DRA and health services, and
``plugins_registry/<driver>-reg.sock``, which the kubelet finds and asks what is there.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, wait_for
from dra_shared.log import logger
from grpc import aio

from dra_node_agent.drivers.claims import ClaimHandler, ClaimRef, PreparedDevice
from dra_node_agent.drivers.errors import DriverConfigError, PrepareError, make_directory
from dra_node_agent.drivers.pools import PoolPublishers
from dra_node_agent.drivers.problems import HandleError, log_error
from dra_node_agent.drivers.publisher import SliceHead, SlicePublisher
from dra_node_agent.drivers.resources import DriverResources
from dra_node_agent.proto import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    health_v1_pb2,
    health_v1_pb2_grpc,
    health_v1alpha1_pb2,
    health_v1alpha1_pb2_grpc,
    registration_v1_pb2,
    registration_v1_pb2_grpc,
)

_SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
_HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
#: How often health is reported if nothing changes, in seconds: the kubelet takes a report of 30 seconds ago for
#: out of date (DefaultHealthTimeout in pkg/kubelet/cm/dra/healthinfo.go).
HEALTH_PERIOD = 10.0
_SOCKET_PATH_MAX = 107
_STOP_GRACE = 0.2
_OPTIONS: Sequence[tuple[str, Any]] = (("grpc.so_reuseport", 0),)

_log = logger(__name__)


@dataclass(frozen=True)
class Health:
    """What a driver says about one device.

    Args:
        healthy: None where it does not know.
    """

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


class HealthBoard:
    """The health of a driver's devices, and those who wait for changes of it."""

    def __init__(self) -> None:
        self._devices: tuple[Health, ...] = ()
        self._changed = asyncio.Condition()

    async def set(self, devices: Sequence[Health]) -> None:
        """Report these from now on."""
        async with self._changed:
            self._devices = tuple(devices)
            self._changed.notify_all()

    async def reports(self, clock: Clock) -> AsyncIterator[tuple[Health, ...]]:
        """The devices' health: now, after each change, and each :data:`HEALTH_PERIOD` without one."""
        while True:
            shown = self._devices
            yield shown
            await wait_for(self._changed_from(shown), HEALTH_PERIOD, clock)

    async def _changed_from(self, shown: tuple[Health, ...]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._devices is not shown)


class DriverServer:
    """Runs a driver on a node: serves the kubelet, publishes slices.

    Args:
        kubelet_root: the kubelet's directory, with ``plugins`` and ``plugins_registry``.
        health: given by drivers that watch their devices.
        slices: an informer of all slices to share.
        handle_error: called with what goes wrong in the background.
    """

    def __init__(
        self,
        driver: str,
        node_name: str,
        kubelet_root: Path,
        handler: ClaimHandler,
        client: Client,
        clock: Clock,
        *,
        health: HealthBoard | None = None,
        slices: Informer[SliceHead] | None = None,
        handle_error: HandleError = log_error,
    ) -> None:
        self.driver = driver
        self.node_name = node_name
        self.directory = kubelet_root / "plugins" / driver
        self.registered = asyncio.Event()
        self.registration_error = ""
        self._dra_socket = self.directory / "dra.sock"
        self._registration_socket = kubelet_root / "plugins_registry" / f"{driver}-reg.sock"
        self._handler = handler
        self._client = client
        self._clock = clock
        self._health = health
        self._publishers = PoolPublishers(
            lambda pool: SlicePublisher(
                client, driver, node_name, clock, slices, pool=pool, handle_error=handle_error
            )
        )
        self._server: aio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def make_directory(self) -> None:
        """Make the directory for the driver's own files.

        Raises:
            DriverConfigError: that is not possible.
        """
        make_directory(f"driver {self.driver}", self.directory)

    async def start(self) -> None:
        """Serve, and show the kubelet the registration socket.

        Raises:
            DriverConfigError: a socket cannot be made.
        """
        server = aio.server(options=_OPTIONS)
        dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_DraV1(self), server)
        dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(_DraV1Beta1(self), server)
        registration_v1_pb2_grpc.add_RegistrationServicer_to_server(_Registration(self), server)
        if self._health is not None:
            health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server(
                _HealthService(self._health, health_v1_pb2, self._clock), server
            )
            health_v1alpha1_pb2_grpc.add_DRAResourceHealthServicer_to_server(
                _HealthService(self._health, health_v1alpha1_pb2, self._clock), server
            )
        # The registration socket last: a client that sees it may connect to the other at once.
        for socket in (self._dra_socket, self._registration_socket):
            make_directory(f"driver {self.driver}", socket.parent)
            _listen(server, socket)
        await server.start()
        self._server = server
        self._publishers.start()
        _log.info("driver is serving", driver=self.driver, node=self.node_name, socket=str(self._dra_socket))

    async def stop(self) -> None:
        """Take the sockets away and stop serving; the slices stay, for the kubelet to wipe or a successor to use."""
        await self._publishers.stop()
        for socket in (self._registration_socket, self._dra_socket):
            socket.unlink(missing_ok=True)
        if self._server is not None:
            await self._server.stop(_STOP_GRACE)

    def publish(self, resources: DriverResources) -> None:
        """Publish these slices from now on."""
        self._publishers.publish(resources)

    async def published(self) -> None:
        """Wait until the slices last asked for are in the API server."""
        await self._publishers.published()

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, list[PreparedDevice] | str]:
        """Prepare claims; devices, or what went wrong, by UID.

        Raises:
            PrepareError: a claim cannot be had from the API server; none is prepared.
        """
        found = [await self._claim(claim) for claim in claims]
        answers: dict[str, list[PreparedDevice] | str] = {}
        for claim in found:
            try:
                answers[claim.metadata.uid] = list(await self._handler.prepare(claim))
            except PrepareError as error:
                answers[claim.metadata.uid] = str(error)
        return answers

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Unprepare claims; what went wrong (empty: nothing) by UID."""
        answers = {}
        for claim in claims:
            try:
                await self._handler.unprepare(claim)
                answers[claim.uid] = ""
            except PrepareError as error:
                answers[claim.uid] = str(error)
        return answers

    @property
    def services(self) -> tuple[str, ...]:
        """The gRPC services that the kubelet may call."""
        return _SERVICES + (_HEALTH_SERVICES if self._health is not None else ())

    @property
    def endpoint(self) -> str:
        """The socket of the DRA service."""
        return str(self._dra_socket)

    async def _claim(self, ref: ClaimRef) -> ResourceClaim:
        where = f"{ref.namespace}/{ref.name}"
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        except (ApiError, OSError, TimeoutError) as error:
            raise PrepareError(f"get resource claims: retrieve claim {where}: {error}") from error
        if claim.status.allocation is None:
            raise PrepareError(f"get resource claims: claim {where} not allocated")
        if claim.metadata.uid != ref.uid:
            raise PrepareError(f"get resource claims: claim {where} got replaced")
        return claim


class _DraV1(dra_v1_pb2_grpc.DRAPluginServicer):
    messages: Any = dra_v1_pb2

    def __init__(self, driver: DriverServer) -> None:
        self._driver = driver

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        try:
            answers = await self._driver.prepare([_ref(claim) for claim in request.claims])
        except PrepareError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        response = self.messages.NodePrepareResourcesResponse()
        for uid, answer in answers.items():
            entry = response.claims[uid]
            if isinstance(answer, str):
                entry.error = answer
                continue
            for device in answer:
                entry.devices.append(self._device(device))
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        response = self.messages.NodeUnprepareResourcesResponse()
        answers = await self._driver.unprepare([_ref(claim) for claim in request.claims])
        for uid, error in answers.items():
            response.claims[uid].error = error
        return response

    def _device(self, device: PreparedDevice) -> Any:
        message = self.messages.Device(
            request_names=[name.partition("/")[0] for name in device.requests],
            pool_name=device.pool,
            device_name=device.device,
            cdi_device_ids=device.cdi_ids,
        )
        if device.share_id is not None and "share_id" in message.DESCRIPTOR.fields_by_name:
            message.share_id = device.share_id
        return message


class _DraV1Beta1(_DraV1):
    messages = dra_v1beta1_pb2


class _Registration(registration_v1_pb2_grpc.RegistrationServicer):
    def __init__(self, driver: DriverServer) -> None:
        self._driver = driver

    async def GetInfo(self, request: Any, context: Any) -> Any:
        return registration_v1_pb2.PluginInfo(
            type="DRAPlugin",
            name=self._driver.driver,
            endpoint=self._driver.endpoint,
            supported_versions=self._driver.services,
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self._driver.registration_error = request.error
        if request.plugin_registered:
            self._driver.registered.set()
        else:
            self._driver.registered.clear()
            _log.error("the kubelet refused the driver", driver=self._driver.driver, error=request.error)
        return registration_v1_pb2.RegistrationStatusResponse()


class _HealthService:
    """NodeWatchResources in either version; their messages are the same."""

    def __init__(self, board: HealthBoard, messages: Any, clock: Clock) -> None:
        self._board = board
        self._messages = messages
        self._clock = clock

    async def NodeWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for devices in self._board.reports(self._clock):
            response = self._messages.NodeWatchResourcesResponse()
            for health in devices:
                status = {True: "HEALTHY", False: "UNHEALTHY", None: "UNKNOWN"}[health.healthy]
                response.devices.add(
                    device=self._messages.DeviceIdentifier(pool_name=health.pool, device_name=health.device),
                    health=self._messages.HealthStatus.Value(status),
                    last_updated_time=int(self._clock.now().timestamp()),
                    message=health.message,
                )
            yield response


def _ref(claim: Any) -> ClaimRef:
    return ClaimRef(claim.namespace, claim.name, claim.uid)


def _listen(server: aio.Server, socket: Path) -> None:
    path = str(socket)
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise DriverConfigError(f"socket path is longer than {_SOCKET_PATH_MAX} bytes: {path}")
    socket.unlink(missing_ok=True)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise DriverConfigError(f"cannot listen on {path}: {error}") from error

"""The gRPC services of a driver, in all of their versions (draplugin.go and registrationserver.go)."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

import grpc
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_driverkit.claims import ClaimRef, PreparedDevice
from dra_driverkit.errors import PrepareError
from dra_driverkit.health import Health, HealthBoard
from dra_driverkit.proto import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    health_v1alpha1_pb2,
    registration_v1_pb2,
    rpc,
)

DRA_SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")

_log = logger(__name__)


class Served(Protocol):
    """The interface of the driver's server for the services."""

    driver: str

    @property
    def endpoint(self) -> str: ...

    @property
    def services(self) -> tuple[str, ...]: ...

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, list[PreparedDevice] | str]: ...

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]: ...

    def handle_registration(self, registered: bool, error: str) -> None: ...


def add_dra(server: Any, driver: Served) -> None:
    """Serve NodePrepareResources and NodeUnprepareResources."""
    rpc.serve(dra_v1_pb2, "DRAPlugin", _DraV1(driver), server)
    rpc.serve(dra_v1beta1_pb2, "DRAPlugin", _DraV1Beta1(driver), server)


def add_health(server: Any, board: HealthBoard, clock: Clock) -> None:
    """Serve the health of the devices."""
    rpc.serve(health_v1_pb2, "DRAResourceHealth", _HealthService(board, health_v1_pb2, clock), server)
    rpc.serve(
        health_v1alpha1_pb2, "DRAResourceHealth", _HealthService(board, health_v1alpha1_pb2, clock), server
    )


def add_registration(server: Any, driver: Served) -> None:
    """Serve the registration of the driver with the kubelet."""
    rpc.serve(registration_v1_pb2, "Registration", _Registration(driver), server)


class _DraV1:
    messages: Any = dra_v1_pb2

    def __init__(self, driver: Served) -> None:
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
        try:
            answers = await self._driver.unprepare([_ref(claim) for claim in request.claims])
        except PrepareError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        for uid, problem in answers.items():
            response.claims[uid].error = problem
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


class _Registration:
    def __init__(self, driver: Served) -> None:
        self._driver = driver

    async def GetInfo(self, request: Any, context: Any) -> Any:
        return registration_v1_pb2.PluginInfo(
            type="DRAPlugin",
            name=self._driver.driver,
            endpoint=self._driver.endpoint,
            supported_versions=self._driver.services,
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self._driver.handle_registration(request.plugin_registered, request.error)
        if not request.plugin_registered:
            _log.error("the kubelet refused the driver", driver=self._driver.driver, error=request.error)
        return registration_v1_pb2.RegistrationStatusResponse()


class _HealthService:
    """NodeWatchResources in either version. The messages are the same."""

    def __init__(self, board: HealthBoard, messages: Any, clock: Clock) -> None:
        self._board = board
        self._messages = messages
        self._clock = clock

    async def NodeWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for devices in self._board.reports(self._clock):
            yield self._response(devices)

    def _response(self, devices: Sequence[Health]) -> Any:
        response = self._messages.NodeWatchResourcesResponse()
        for health in devices:
            status = {True: "HEALTHY", False: "UNHEALTHY", None: "UNKNOWN"}[health.healthy]
            response.devices.add(
                device=self._messages.DeviceIdentifier(pool_name=health.pool, device_name=health.device),
                health=self._messages.HealthStatus.Value(status),
                last_updated_time=int(self._clock.now().timestamp()),
                message=health.message,
            )
        return response


def _ref(claim: Any) -> ClaimRef:
    return ClaimRef(claim.namespace, claim.name, claim.uid)

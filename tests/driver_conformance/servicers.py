"""The gRPC services of a handwritten driver: requests are handled by :class:`Driver`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from dra_driverkit.proto import (
    health_v1_pb2,
    registration_v1_pb2,
)
from dra_shared.jsontypes import JsonObject
from grpc import StatusCode


class Refused(Exception):
    """A claim cannot be prepared. The message is the driver's answer."""


class Driver(Protocol):
    """The interface that the services need of a driver."""

    async def prepare(self, claims: Sequence[Any]) -> Mapping[str, list[JsonObject] | str]:
        """Return devices, or an error, by UID."""
        ...

    async def unprepare(self, claims: Sequence[Any]) -> Mapping[str, str]:
        """Return an error by UID, empty on success."""
        ...

    def message(self, messages: Any, device: JsonObject) -> JsonObject:
        """Return a prepared device in the messages of one version of the service."""
        ...

    def info(self) -> Any:
        """Return the response to GetInfo."""
        ...

    async def handle_notification(self, request: Any) -> None:
        """Handle NotifyRegistrationStatus."""
        ...

    def reports(self) -> AsyncIterator[list[Any]]:
        """Yield the reports of a health stream."""
        ...


class DraServicer:
    def __init__(self, driver: Driver, messages: Any) -> None:
        self._driver, self._messages = driver, messages

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        response = self._messages.NodePrepareResourcesResponse()
        try:
            answers = await self._driver.prepare(request.claims)
        except Refused as error:
            await context.abort(StatusCode.UNKNOWN, str(error))
        for uid, answer in answers.items():
            entry = response.claims[uid]
            if isinstance(answer, str):
                entry.error = answer
                continue
            for device in answer:
                message = entry.devices.add()
                device = self._driver.message(self._messages, device)
                known = message.DESCRIPTOR.fields_by_name
                for field, value in device.items():
                    if field in known and isinstance(value, list):
                        getattr(message, field).extend(value)
                    elif field in known and value is not None:
                        setattr(message, field, value)
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        response = self._messages.NodeUnprepareResourcesResponse()
        try:
            answers = await self._driver.unprepare(request.claims)
        except Refused as error:
            await context.abort(StatusCode.UNKNOWN, str(error))
        for uid, problem in answers.items():
            response.claims[uid].error = problem
        return response


class RegistrationServicer:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def GetInfo(self, request: Any, context: Any) -> Any:
        return self._driver.info()

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        await self._driver.handle_notification(request)
        return registration_v1_pb2.RegistrationStatusResponse()


class HealthServicer:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def NodeWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for devices in self._driver.reports():
            yield health_v1_pb2.NodeWatchResourcesResponse(devices=devices)

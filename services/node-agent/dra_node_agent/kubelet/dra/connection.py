"""The connection to one registered instance of a DRA driver (pkg/kubelet/cm/dra/plugin/dra_plugin.go)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TypeVar

import grpc
from dra_driverkit.proto import dra_v1_pb2, dra_v1alpha3_pb2, dra_v1beta1_pb2, health_v1_pb2
from dra_driverkit.transport import Sockets, UnixSockets
from dra_shared.clock import Clock, SystemClock
from dra_shared.quoting import go_quote
from dra_shared.version import DEFAULT, V1_37, Version
from google.protobuf.message import Message

from dra_node_agent.kubelet.dra import alpha, wire
from dra_node_agent.kubelet.dra.callfaults import CallFaults
from dra_node_agent.kubelet.dra.classichandles import HandleReader, NoHandles
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.health import DeviceHealth, device_health
from dra_node_agent.kubelet.dra.metrics import CALLS

V1, V1BETA1 = "v1.DRAPlugin", "v1beta1.DRAPlugin"
SUPPORTED_SERVICES = (V1, V1BETA1)
HEALTH_V1, HEALTH_V1ALPHA1 = "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"

# The default timeout of a call: half of the time after which the kubelet retries.
CALL_TIMEOUT = 45.0

M = TypeVar("M", bound=Message)


class DriverError(Exception):
    """A driver cannot be used, or a call to it failed."""


class NoHealth(DriverError):
    """The driver does not report its devices' health."""


def choose_service(services: Sequence[str]) -> str:
    """Return the DRA service to call: the first known one that the driver offers.

    Services of drivers before Kubernetes 1.32, which upstream's current kubelet rejects, come last.

    Raises:
        DriverError: there is none.
    """
    if not services:
        raise DriverError("empty list of supported gRPC services (aka supported versions)")
    for service in services:
        if service in SUPPORTED_SERVICES:
            return service
    for service in services:
        if service in alpha.SERVICES:
            return service
    offered = " ".join(map(go_quote, services))
    known = " ".join(map(go_quote, SUPPORTED_SERVICES))
    raise DriverError(
        f"none of services supported by the plugin ([{offered}]) are supported by the kubelet ([{known}])"
    )


def health_service(services: Sequence[str], kubernetes: Version) -> str | None:
    """Return the health service that a kubelet of that version watches, or None.

    Until 1.36 it tries v1alpha1 even if the driver does not offer it.
    """
    if kubernetes < V1_37:
        return HEALTH_V1ALPHA1
    return next((service for service in (HEALTH_V1, HEALTH_V1ALPHA1) if service in services), None)


class DriverConnection:
    """Calls the driver at the socket ``endpoint``. It connects on demand and reconnects automatically."""

    def __init__(
        self,
        driver: str,
        endpoint: str,
        services: Sequence[str],
        *,
        timeout: float = CALL_TIMEOUT,
        clock: Clock | None = None,
        faults: CallFaults | None = None,
        kubernetes: Version = DEFAULT,
        sockets: Sockets | None = None,
        handles: HandleReader | None = None,
    ) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self._kubernetes = kubernetes
        self._health_service = health_service(services, kubernetes)
        self._chosen = choose_service(services)
        self.connected = False
        self._services = services
        self._timeout = timeout
        self._handles = handles or NoHandles()
        self._clock = clock or SystemClock()
        self._faults = faults or CallFaults(self._clock)
        self._channel = (sockets or UnixSockets()).channel(endpoint)

    @property
    def chosen_service(self) -> str:
        """The DRA service to call."""
        old = self._chosen == V1 and V1BETA1 in self._services and self._faults.is_old(self.driver)
        return V1BETA1 if old else self._chosen

    async def close(self) -> None:
        """Close the connection. Calls in progress fail."""
        await self._channel.close()

    async def watch_connectivity(self) -> AsyncIterator[bool]:
        """Yield whether the driver is connected, now and after each change. Keeps the connection open."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            if state is grpc.ChannelConnectivity.SHUTDOWN:
                return
            yield state is grpc.ChannelConnectivity.READY
            await self._channel.wait_for_state_change(state)

    async def prepare(
        self, claims: Sequence[dra_v1_pb2.Claim]
    ) -> Mapping[str, dra_v1_pb2.NodePrepareResourceResponse]:
        """Call NodePrepareResources. Return the answers by claim UID.

        Raises:
            DriverError: the whole call failed.
        """
        if self.chosen_service == V1:
            request = dra_v1_pb2.NodePrepareResourcesRequest(claims=claims)
            response = await self._call(
                "NodePrepareResources", request, dra_v1_pb2.NodePrepareResourcesResponse
            )
            return dict(response.claims)
        if self.chosen_service in alpha.SERVICES:
            return await self._prepare_alpha(claims)
        old_request = dra_v1beta1_pb2.NodePrepareResourcesRequest(claims=_downgrade(claims))
        answer = dra_v1beta1_pb2.NodePrepareResourcesResponse
        old = await self._call("NodePrepareResources", old_request, answer)
        return {
            uid: dra_v1_pb2.NodePrepareResourceResponse.FromString(one.SerializeToString())
            for uid, one in old.claims.items()
        }

    async def _prepare_alpha(
        self, claims: Sequence[dra_v1_pb2.Claim]
    ) -> Mapping[str, dra_v1_pb2.NodePrepareResourceResponse]:
        converted = await self._convert_alpha(claims)
        request = dra_v1alpha3_pb2.NodePrepareResourcesRequest(claims=converted)
        answer = dra_v1alpha3_pb2.NodePrepareResourcesResponse
        response = await self._call("NodePrepareResources", request, answer)
        try:
            return {uid: alpha.convert_answer(one) for uid, one in response.claims.items()}
        except ValueError as error:
            raise DriverError(f"NodePrepareResources of {self.driver}: {error}") from error

    async def _convert_alpha(self, claims: Sequence[dra_v1_pb2.Claim]) -> list[dra_v1alpha3_pb2.Claim]:
        try:
            return await self._handles.convert(claims, self.driver)
        except DraError as error:
            raise DriverError(str(error)) from error

    async def unprepare(self, claims: Sequence[dra_v1_pb2.Claim]) -> Mapping[str, str]:
        """Call NodeUnprepareResources. Return errors (empty for success) by claim UID.

        Raises:
            DriverError: the whole call failed.
        """
        method = "NodeUnprepareResources"
        if self.chosen_service == V1:
            request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=claims)
            response = await self._call(method, request, dra_v1_pb2.NodeUnprepareResourcesResponse)
            return {uid: answer.error for uid, answer in response.claims.items()}
        if self.chosen_service in alpha.SERVICES:
            converted = await self._convert_alpha(claims)
            alpha_request = dra_v1alpha3_pb2.NodeUnprepareResourcesRequest(claims=converted)
            undone = await self._call(method, alpha_request, dra_v1alpha3_pb2.NodeUnprepareResourcesResponse)
            return {uid: answer.error for uid, answer in undone.claims.items()}
        old_request = dra_v1beta1_pb2.NodeUnprepareResourcesRequest(claims=_downgrade(claims))
        old = await self._call(method, old_request, dra_v1beta1_pb2.NodeUnprepareResourcesResponse)
        return {uid: answer.error for uid, answer in old.claims.items()}

    def _paths(self, method: str) -> list[str]:
        if self.chosen_service in alpha.SERVICES:
            return alpha.paths(self.chosen_service, method)
        version = self.chosen_service.partition(".")[0]
        return [f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/{method}"]

    async def _call(self, method: str, request: Message, answer: type[M]) -> M:
        *others, last = self._paths(method)
        for path in others:
            try:
                return await self._call_at(path, request, answer)
            except wire.CallError as error:
                if error.code != "Unimplemented":
                    raise DriverError(str(error)) from error
        try:
            return await self._call_at(last, request, answer)
        except wire.CallError as error:
            raise DriverError(str(error)) from error

    async def _call_at(self, path: str, request: Message, answer: type[M]) -> M:
        started, code = self._clock.monotonic(), "OK"
        try:
            await self._faults.before(self.driver, self.endpoint, self._timeout)
            found = await wire.call(self._channel, path, request, answer, self._timeout)
            self._faults.after(self.driver)
            return answer() if self._faults.is_wrong(self.driver) else found
        except wire.CallError as error:
            code = error.code
            raise
        finally:
            CALLS.labels(self.driver, path, code).observe(self._clock.monotonic() - started)

    async def watch_health(self) -> AsyncIterator[list[DeviceHealth]]:
        """Yield the driver's health reports until the stream ends.

        Raises:
            NoHealth: the driver does not report health. DriverError: the stream broke.
        """
        service = self._health_service
        if service is None:
            raise NoHealth(f"driver {self.driver} offers no health service")
        # Both versions have the same messages.
        request, answer = health_v1_pb2.NodeWatchResourcesRequest(), health_v1_pb2.NodeWatchResourcesResponse
        reports = wire.stream(self._channel, f"/{service}/NodeWatchResources", request, answer)
        try:
            while True:
                yield _devices(await anext(reports))
        except StopAsyncIteration:
            return
        except wire.CallError as error:
            # Drivers of 1.37 always offer the service, and return this error if they do not report health.
            promised = self._kubernetes < V1_37 and HEALTH_V1ALPHA1 in self._services
            missing = error.code == "Unimplemented" and not promised
            raise (NoHealth if missing else DriverError)(str(error)) from error


def _devices(report: health_v1_pb2.NodeWatchResourcesResponse) -> list[DeviceHealth]:
    return [
        device_health(
            entry.device.pool_name,
            entry.device.device_name,
            entry.health,
            entry.health_check_timeout_seconds,
            entry.message,
        )
        for entry in report.devices
    ]


def _downgrade(claims: Sequence[dra_v1_pb2.Claim]) -> list[dra_v1beta1_pb2.Claim]:
    return [
        dra_v1beta1_pb2.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name) for claim in claims
    ]

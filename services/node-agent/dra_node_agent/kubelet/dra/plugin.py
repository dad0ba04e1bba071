"""One registered plugin of a DRA driver: its gRPC connection and the calls that the kubelet makes on it."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
from dra_shared.clock import Clock, SystemClock
from dra_shared.quoting import go_quote
from grpc import aio

from dra_node_agent.kubelet.dra.health import DeviceHealth, device_health
from dra_node_agent.kubelet.dra.metrics import CALLS
from dra_node_agent.proto import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    health_v1_pb2,
    health_v1_pb2_grpc,
    health_v1alpha1_pb2,
    health_v1alpha1_pb2_grpc,
)

V1, V1BETA1 = "v1.DRAPlugin", "v1beta1.DRAPlugin"
SUPPORTED_SERVICES = (V1, V1BETA1)
HEALTH_V1, HEALTH_V1ALPHA1 = "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"

# Half of the time after which the kubelet tries again.
CALL_TIMEOUT = 45.0

CHANNEL_OPTIONS: Sequence[tuple[str, Any]] = (
    # The default authority is the escaped socket path, which other gRPC servers refuse (grpc/grpc#38142).
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)

# How a dial fails here, and how a connection that the driver closes.
_DIALED = re.compile(r"connect failed: addr: unix:(?P<path>.+) error: (?P<why>.+)$")
_CLOSED = ("Socket closed", "Stream removed (Socket closed)")


class PluginError(Exception):
    """A plugin cannot be used, or a call to it failed."""


class NoHealth(PluginError):
    """The plugin does not tell of its devices' health."""


def choose_service(services: Sequence[str]) -> str:
    """The DRA service to call: of those that the plugin offers, the first that the kubelet knows.

    Raises:
        PluginError: there is none.
    """
    if not services:
        raise PluginError("empty list of supported gRPC services (aka supported versions)")
    for service in services:
        if service in SUPPORTED_SERVICES:
            return service
    offered = " ".join(map(go_quote, services))
    known = " ".join(map(go_quote, SUPPORTED_SERVICES))
    raise PluginError(
        f"none of services supported by the plugin ([{offered}]) are supported by the kubelet ([{known}])"
    )


class DraPlugin:
    """A plugin at ``endpoint``, a socket's path. The connection is made on demand and comes back by itself."""

    def __init__(
        self,
        driver: str,
        endpoint: str,
        services: Sequence[str],
        *,
        timeout: float = CALL_TIMEOUT,
        clock: Clock | None = None,
    ) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.chosen_service = choose_service(services)
        self.connected = False
        self._services = services
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._channel = aio.insecure_channel(f"unix:{endpoint}", options=CHANNEL_OPTIONS)

    async def close(self) -> None:
        """Close the connection; calls in progress fail."""
        await self._channel.close()

    async def connectivity(self) -> AsyncIterator[bool]:
        """Whether the plugin is connected, now and after each change. Keeps the connection up meanwhile."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            if state is grpc.ChannelConnectivity.SHUTDOWN:
                return
            yield state is grpc.ChannelConnectivity.READY
            await self._channel.wait_for_state_change(state)

    async def prepare(
        self, claims: Sequence[dra_v1_pb2.Claim]
    ) -> Mapping[str, dra_v1_pb2.NodePrepareResourceResponse]:
        """NodePrepareResources; answers by claim UID.

        Raises:
            PluginError: the call as a whole failed.
        """
        try:
            with self._observed("NodePrepareResources"):
                return await self._prepare(claims)
        except aio.AioRpcError as error:
            raise PluginError(rpc_error_text(error)) from error

    async def _prepare(
        self, claims: Sequence[dra_v1_pb2.Claim]
    ) -> Mapping[str, dra_v1_pb2.NodePrepareResourceResponse]:
        if self.chosen_service == V1:
            request = dra_v1_pb2.NodePrepareResourcesRequest(claims=claims)
            stub = dra_v1_pb2_grpc.DRAPluginStub(self._channel)
            response = await stub.NodePrepareResources(request, timeout=self._timeout)
            return dict(response.claims)
        old_request = dra_v1beta1_pb2.NodePrepareResourcesRequest(claims=_downgrade(claims))
        old_stub = dra_v1beta1_pb2_grpc.DRAPluginStub(self._channel)
        old = await old_stub.NodePrepareResources(old_request, timeout=self._timeout)
        return {
            uid: dra_v1_pb2.NodePrepareResourceResponse.FromString(answer.SerializeToString())
            for uid, answer in old.claims.items()
        }

    async def unprepare(self, claims: Sequence[dra_v1_pb2.Claim]) -> Mapping[str, str]:
        """NodeUnprepareResources; errors (empty for success) by claim UID.

        Raises:
            PluginError: the call as a whole failed.
        """
        try:
            with self._observed("NodeUnprepareResources"):
                if self.chosen_service == V1:
                    request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=claims)
                    stub = dra_v1_pb2_grpc.DRAPluginStub(self._channel)
                    response = await stub.NodeUnprepareResources(request, timeout=self._timeout)
                else:
                    old_request = dra_v1beta1_pb2.NodeUnprepareResourcesRequest(claims=_downgrade(claims))
                    old_stub = dra_v1beta1_pb2_grpc.DRAPluginStub(self._channel)
                    response = await old_stub.NodeUnprepareResources(old_request, timeout=self._timeout)
            return {uid: answer.error for uid, answer in response.claims.items()}
        except aio.AioRpcError as error:
            raise PluginError(rpc_error_text(error)) from error

    @contextmanager
    def _observed(self, method: str) -> Iterator[None]:
        version = self.chosen_service.partition(".")[0]
        name = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/{method}"
        started, code = self._clock.monotonic(), "OK"
        try:
            yield
        except aio.AioRpcError as error:
            code = _go_code(error)
            raise
        finally:
            CALLS.labels(self.driver, name, code).observe(self._clock.monotonic() - started)

    async def health(self) -> AsyncIterator[list[DeviceHealth]]:
        """The driver's health reports, until the stream ends. A plugin may give them without having said so.

        Raises:
            NoHealth: there are none, nor has the plugin said that there are.
            PluginError: the stream broke.
        """
        if HEALTH_V1 in self._services:
            stub = health_v1_pb2_grpc.DRAResourceHealthStub(self._channel)
            stream = stub.NodeWatchResources(health_v1_pb2.NodeWatchResourcesRequest())
        else:
            old = health_v1alpha1_pb2_grpc.DRAResourceHealthStub(self._channel)
            stream = old.NodeWatchResources(health_v1alpha1_pb2.NodeWatchResourcesRequest())
        try:
            async for report in stream:
                yield [
                    device_health(
                        entry.device.pool_name,
                        entry.device.device_name,
                        entry.health,
                        entry.health_check_timeout_seconds,
                        entry.message,
                    )
                    for entry in report.devices
                ]
        except aio.AioRpcError as error:
            promised = HEALTH_V1 in self._services or HEALTH_V1ALPHA1 in self._services
            missing = error.code() is grpc.StatusCode.UNIMPLEMENTED and not promised
            raise (NoHealth if missing else PluginError)(rpc_error_text(error)) from error
        finally:
            stream.cancel()


def rpc_error_text(error: aio.AioRpcError) -> str:
    """The error as Go's gRPC prints it."""
    code: str = error.code().name
    name = _go_code(error)
    details = error.details() or ""
    if code == "DEADLINE_EXCEEDED" and details == "Deadline Exceeded":
        details = "context deadline exceeded"
    elif code == "UNAVAILABLE" and (dialed := _DIALED.search(details)):
        cause = f"dial unix {dialed['path']}: connect: {dialed['why'].lower()}"
        details = f"connection error: desc = {go_quote(f'transport: Error while dialing: {cause}')}"
    elif code == "UNAVAILABLE" and details in _CLOSED:
        details = "error reading from server: EOF"
    return f"rpc error: code = {name} desc = {details}"


def _go_code(error: aio.AioRpcError) -> str:
    code: str = error.code().name
    return "OK" if code == "OK" else "".join(part.capitalize() for part in code.split("_"))


def _downgrade(claims: Sequence[dra_v1_pb2.Claim]) -> list[dra_v1beta1_pb2.Claim]:
    return [
        dra_v1beta1_pb2.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name) for claim in claims
    ]

"""A kubelet that looks for sockets, registers drivers and calls them only when the suite asks it to.

The steps follow pkg/kubelet/pluginmanager and pkg/kubelet/cm/dra/plugin. The wire protocol is the node agent's.
"""

import asyncio
import contextlib
import os
import socket as socketlib
import stat
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_driverkit.proto import dra_v1_pb2, dra_v1beta1_pb2, health_v1_pb2, registration_v1_pb2
from dra_driverkit.transport import CHANNEL_OPTIONS
from dra_node_agent.kubelet.dra import wire
from dra_node_agent.kubelet.dra.connection import SUPPORTED_SERVICES, DriverConnection, DriverError
from dra_node_agent.kubelet.registration.registrar import DRA_TYPE
from grpc import aio

_SERVICE = "/pluginregistration.Registration"
_ASK, _NOTIFY = 1.0, 5.0
#: The suite waits for a service that starts late for the time of a registration, divided by this number.
_LATE = 4
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


@dataclass(frozen=True)
class Registration:
    """A driver's answer to GetInfo, and the seconds until the kubelet had it.

    ``unserved`` says why the endpoint did not accept connections when GetInfo was answered; empty if it did.
    """

    socket: Path
    type: str
    name: str
    endpoint: str
    versions: tuple[str, ...]
    seconds: float
    unserved: str = ""

    def is_there(self) -> bool:
        """True if both of the driver's sockets exist."""
        return self.socket.exists() and Path(self.endpoint).exists()

    @property
    def dra_services(self) -> tuple[str, ...]:
        """The announced services with which a current kubelet prepares claims."""
        return tuple(version for version in self.versions if version in SUPPORTED_SERVICES)


class Kubelet:
    """The kubelet's directories below ``root``, and its calls to registered drivers."""

    def __init__(self, root: Path, poll: float) -> None:
        self.root = root
        self.plugins = root / "plugins"
        self.registry = root / "plugins_registry"
        self._poll = poll
        for folder in (self.plugins, self.registry):
            folder.mkdir(parents=True, exist_ok=True)

    def sockets(self) -> list[Path]:
        """Return the sockets in the registry, oldest first."""
        found = []
        for folder, _, names in os.walk(self.registry):
            for name in names:
                path = Path(folder, name)
                try:
                    info = path.lstat()
                except FileNotFoundError:
                    continue
                if stat.S_ISSOCK(info.st_mode) and not name.startswith("."):
                    found.append((info.st_mtime_ns, path))
        return [path for _, path in sorted(found)]

    async def find(
        self, within: float, *, apart_from: Sequence[Path] = (), alive: Callable[[], bool] = lambda: True
    ) -> Registration:
        """Wait for a socket whose driver answers GetInfo.

        Raises:
            DriverError: no socket appeared in time, GetInfo failed, or the driver is no longer ``alive``.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        problem = f"no socket appeared in {self.registry}"
        while (spent := loop.time() - began) < within:
            for socket in reversed([path for path in self.sockets() if path not in apart_from]):
                try:
                    info = await self.ask(socket)
                except (wire.CallError, TimeoutError, OSError) as error:
                    problem = f"{socket.name}: GetInfo: {error}"
                    continue
                versions = tuple(info.supported_versions)
                endpoint = info.endpoint or str(socket)
                unserved = _connection_problem(endpoint)
                if unserved:
                    await self._await_service(endpoint, within / _LATE)
                return Registration(socket, info.type, info.name, endpoint, versions, spent, unserved)
            if not alive():
                raise DriverError(f"the driver ended after {spent:.1f} s; {problem}")
            await asyncio.sleep(self._poll)
        raise DriverError(f"{problem} within {within:g} s")

    async def _await_service(self, endpoint: str, within: float) -> None:
        """Wait until the endpoint accepts connections, so that a late service fails one check and not all."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while _connection_problem(endpoint):
            if loop.time() > end:
                return
            await asyncio.sleep(self._poll)

    async def ask(self, socket: Path) -> Any:
        """Call GetInfo.

        Raises:
            CallError: the call failed.
        """
        async with aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS) as channel:
            request, answer = registration_v1_pb2.InfoRequest(), registration_v1_pb2.PluginInfo
            return await wire.call(channel, f"{_SERVICE}/GetInfo", request, answer, _ASK)

    async def notify(self, socket: Path, error: str = "") -> None:
        """Call NotifyRegistrationStatus.

        Raises:
            CallError: the call failed.
        """
        async with aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS) as channel:
            status = registration_v1_pb2.RegistrationStatus(plugin_registered=not error, error=error)
            answer = registration_v1_pb2.RegistrationStatusResponse
            await wire.call(channel, f"{_SERVICE}/NotifyRegistrationStatus", status, answer, _NOTIFY)

    def connect(self, registration: Registration, timeout: float) -> DriverConnection:
        """Return a connection for calls to the driver.

        Raises:
            DriverError: the plugin is not a DRA driver, or offers no service that a kubelet calls.
        """
        if registration.type != DRA_TYPE:
            raise DriverError(f"plugin type {registration.type!r}")
        return DriverConnection(
            registration.name, registration.endpoint, registration.versions, timeout=timeout
        )


def _connection_problem(endpoint: str) -> str:
    """Return why the unix socket accepts no connection, or ""."""
    with socketlib.socket(socketlib.AF_UNIX, socketlib.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(endpoint)
        except BlockingIOError:
            # The queue of connections is full, so somebody listens.
            return ""
        except OSError as error:
            return error.strerror or str(error)
    return ""


async def serves(registration: Registration, service: str) -> bool:
    """True if the driver implements the service: send it a call without claims.

    Raises:
        CallError: the call failed for a reason other than Unimplemented.
    """
    async with aio.insecure_channel(f"unix:{registration.endpoint}", options=CHANNEL_OPTIONS) as channel:
        version = service.partition(".")[0]
        messages = dra_v1_pb2 if version == "v1" else dra_v1beta1_pb2
        try:
            await wire.call(
                channel,
                f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/NodePrepareResources",
                messages.NodePrepareResourcesRequest(),
                messages.NodePrepareResourcesResponse,
                _NOTIFY,
            )
        except wire.CallError as error:
            if error.code == "Unimplemented":
                return False
            raise
        return True


async def health_reports(registration: Registration, service: str) -> AsyncGenerator[Sequence[Any]]:
    """Open a health stream and yield its reports, each a list of devices.

    Raises:
        CallError: the stream broke.
    """
    async with aio.insecure_channel(f"unix:{registration.endpoint}", options=CHANNEL_OPTIONS) as channel:
        # Both versions have the same messages.
        request, answer = health_v1_pb2.NodeWatchResourcesRequest(), health_v1_pb2.NodeWatchResourcesResponse
        reports = wire.stream(channel, f"/{service}/NodeWatchResources", request, answer)
        async with contextlib.aclosing(reports):
            async for report in reports:
                yield report.devices


async def serves_health(registration: Registration, service: str) -> bool:
    """True if the driver implements the health service, even if it reports nothing."""
    try:
        async with asyncio.timeout(_ASK):
            async with contextlib.aclosing(health_reports(registration, service)) as reports:
                async for _ in reports:
                    break
    except wire.CallError as error:
        return error.code != "Unimplemented"
    except TimeoutError:
        pass
    return True

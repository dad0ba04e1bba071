"""A kubelet whose every step is the suite's: it looks for sockets, asks, registers and calls when it is asked to.

The steps are those of pkg/kubelet/pluginmanager and pkg/kubelet/cm/dra/plugin; the wire is the node agent's own.
"""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_driverkit.proto import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    registration_v1_pb2,
)
from dra_driverkit.transport import CHANNEL_OPTIONS
from dra_node_agent.kubelet.dra import wire
from dra_node_agent.kubelet.dra.connection import (
    SUPPORTED_SERVICES,
    DriverConnection,
    DriverError,
)
from dra_node_agent.kubelet.registration.registrar import DRA_TYPE
from grpc import aio

_SERVICE = "/pluginregistration.Registration"
_ASK, _NOTIFY = 1.0, 5.0
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


@dataclass(frozen=True)
class Registration:
    """A driver's answer when the kubelet found its socket, and after how many seconds that was."""

    socket: Path
    type: str
    name: str
    endpoint: str
    versions: tuple[str, ...]
    seconds: float

    def is_there(self) -> bool:
        """Whether both of its sockets are there."""
        return self.socket.exists() and Path(self.endpoint).exists()

    @property
    def dra_services(self) -> tuple[str, ...]:
        """The announced services that a kubelet of today calls to prepare claims."""
        return tuple(version for version in self.versions if version in SUPPORTED_SERVICES)


class Kubelet:
    """The kubelet's directories below ``root``, and its calls to what registers there."""

    def __init__(self, root: Path, poll: float) -> None:
        self.root = root
        self.plugins = root / "plugins"
        self.registry = root / "plugins_registry"
        self._poll = poll
        for folder in (self.plugins, self.registry):
            folder.mkdir(parents=True, exist_ok=True)

    def sockets(self) -> list[Path]:
        """The sockets in the registry, the newest last."""
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
        """Wait for a socket and ask who is there, as often as it takes.

        Raises:
            DriverError: there is none in that time, it does not answer, or the driver is not ``alive`` any more.
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
                return Registration(socket, info.type, info.name, endpoint, versions, spent)
            if not alive():
                raise DriverError(f"the driver ended after {spent:.1f} s; {problem}")
            await asyncio.sleep(self._poll)
        raise DriverError(f"{problem} within {within:g} s")

    async def ask(self, socket: Path) -> Any:
        """GetInfo.

        Raises:
            CallError: it failed.
        """
        async with aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS) as channel:
            request, answer = registration_v1_pb2.InfoRequest(), registration_v1_pb2.PluginInfo
            return await wire.call(channel, f"{_SERVICE}/GetInfo", request, answer, _ASK)

    async def notify(self, socket: Path, error: str = "") -> None:
        """NotifyRegistrationStatus.

        Raises:
            CallError: it failed.
        """
        async with aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS) as channel:
            status = registration_v1_pb2.RegistrationStatus(plugin_registered=not error, error=error)
            answer = registration_v1_pb2.RegistrationStatusResponse
            await wire.call(channel, f"{_SERVICE}/NotifyRegistrationStatus", status, answer, _NOTIFY)

    def connect(self, registration: Registration, timeout: float) -> DriverConnection:
        """A connection for calls.

        Raises:
            DriverError: it is no DRA driver, or offers no service that a kubelet calls.
        """
        if registration.type != DRA_TYPE:
            raise DriverError(f"plugin type {registration.type!r}")
        return DriverConnection(
            registration.name, registration.endpoint, registration.versions, timeout=timeout
        )


async def serves(registration: Registration, service: str) -> bool:
    """Whether the driver answers a call of that service at all, with nothing to do.

    Raises:
        CallError: neither an answer nor that it is unimplemented.
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
    """The reports of a new health stream, device by device.

    Raises:
        CallError: the stream broke.
    """
    async with aio.insecure_channel(f"unix:{registration.endpoint}", options=CHANNEL_OPTIONS) as channel:
        # Both versions have the same messages.
        request, answer = health_v1_pb2.NodeWatchResourcesRequest(), health_v1_pb2.NodeWatchResourcesResponse
        async for report in wire.stream(channel, f"/{service}/NodeWatchResources", request, answer):
            yield report.devices


async def streams(registration: Registration, service: str) -> bool:
    """Whether the driver implements that health service, whatever it reports."""
    try:
        async with asyncio.timeout(_ASK):
            async for _ in health_reports(registration, service):
                break
    except wire.CallError as error:
        return error.code != "Unimplemented"
    except TimeoutError:
        pass
    return True

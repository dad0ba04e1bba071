"""A driver's side of the kubelet's protocols (k8s.io/dynamic-resource-allocation/kubeletplugin).

It runs one gRPC server on two unix sockets: ``dra.sock`` in the driver's directory for the DRA and health
services, and ``<driver>-reg.sock`` in the registration directory, where the kubelet finds it.
"""

import asyncio
import base64
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock
from dra_shared.log import logger

from dra_driverkit.claims import ClaimHandler, ClaimRef, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import DriverConfigError, PrepareError
from dra_driverkit.flags import Flag
from dra_driverkit.health import HealthBoard
from dra_driverkit.locks import FileLock, LockTimeout
from dra_driverkit.metadata import MetadataError, MetadataWriter
from dra_driverkit.pools import PoolPublishers
from dra_driverkit.problems import HandleError, log_error
from dra_driverkit.publisher import MakeResources, SlicePublisher
from dra_driverkit.resources import DriverResources
from dra_driverkit.services import DRA_SERVICES, HEALTH_SERVICES, add_dra, add_health, add_registration
from dra_driverkit.sliceheads import SliceHeads
from dra_driverkit.transport import PluginServer, Sockets, UnixSockets

# The maximum length of a socket's path in bytes. Upstream includes the zero byte at its end.
PATH_MAX = 107
_SUFFIX = "-reg.sock"


def registration_socket(registrar: Path, driver: str, instance: str) -> Path:
    """Return the socket in the registration directory on which the kubelet finds the driver.

    Args:
        registrar: the directory where plugins register.
        instance: the UID of the driver's pod, if several of its instances may serve at once. If that makes the
            path too long, the UID is replaced by its hash, or driver and UID by one hash of both.
    """
    if not instance:
        # Upstream has no shorter name for a driver without an instance, and cannot listen then.
        names = [f"{driver}{_SUFFIX}", f"dra-{_hash(driver, 16)}{_SUFFIX}"]
    else:
        both = f"{driver}\0{instance}"
        names = [
            f"{driver}-{instance}{_SUFFIX}",
            f"{driver}-{_hash(instance, 8)}{_SUFFIX}",
            f"dra-{_hash(both, 16)}{_SUFFIX}",
        ]
    paths = [registrar / name for name in names]
    return next((path for path in paths if len(os.fsencode(path)) <= PATH_MAX), paths[-1])


def _hash(text: str, size: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:size]).decode().rstrip("=")


_STOP_GRACE = 0.2
# The time in seconds that the other instance of a driver may hold the lock: the kubelet's timeout.
_LOCK_SECONDS = 45.0

_log = logger(__name__)


class DriverServer:
    """Runs a driver on a node: serves the kubelet, and publishes slices. An ``async with`` object.

    Args:
        client: for claims and slices; it may outlive the server.
        health: the device health, from drivers that monitor it.
        instance: the UID of the driver's pod, for rolling updates. The names of the sockets contain it or its
            hash, so that the old and the new instance can serve at once, and their calls take turns
            (RollingUpdate).
        serialize: True if claims are prepared and unprepared one after another. Otherwise the driver has to handle
            concurrent calls.
        slices: a shared informer of all slices.
        metadata: writes files about devices for containers, if the driver has any.
        handle_error: called with each error in the background.
        sockets: the sockets to listen on; the default is unix sockets.
        own_domain: accept names of attributes and capacities that have the driver's domain, as Kubernetes 1.37 does.
    """

    def __init__(
        self,
        driver: str,
        node_name: str,
        directories: Directories,
        handler: ClaimHandler,
        client: Client,
        clock: Clock | None = None,
        *,
        health: HealthBoard | None = None,
        instance: str = "",
        serialize: bool = True,
        slices: SliceHeads | None = None,
        metadata: MetadataWriter | None = None,
        handle_error: HandleError = log_error,
        sockets: Sockets | None = None,
        own_domain: bool = False,
    ) -> None:
        self.driver = driver
        self.node_name = node_name
        self.directories = directories
        self.registered = Flag()
        self.registration_error = ""
        part = f"-{instance}" if instance else ""
        self._dra_socket = str(directories.plugin / f"dra{part}.sock")
        self._instance = instance
        self._handler = handler
        self._client = client
        self._clock = clock = clock or SystemClock()
        self._health = health
        self._serialize = serialize
        self._metadata = metadata
        self._turn = asyncio.Lock()
        self._lock = FileLock(directories.plugin / "serialize.lock", clock) if instance else None
        self._publishers = PoolPublishers(
            lambda pool: SlicePublisher(
                client,
                driver,
                node_name,
                clock,
                slices,
                pool=pool,
                handle_error=handle_error,
                own_domain=own_domain,
            )
        )
        self._sockets = sockets or UnixSockets()
        self._server: PluginServer | None = None

    @property
    def directory(self) -> Path:
        """The driver's own directory."""
        return self.directories.plugin

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start serving, and create the registration socket for the kubelet.

        Raises:
            DriverConfigError: a socket cannot be created.
        """
        self.directories.make(self.driver)
        # Create the registration socket last: a client that sees it may connect to the other one at once.
        paths = self._paths
        for path in paths:
            if len(os.fsencode(path)) > PATH_MAX:
                raise DriverConfigError(f"socket path is longer than {PATH_MAX} bytes: {path}")
        try:
            server = self._sockets.server(paths, self._add_services)
        except OSError as error:
            raise DriverConfigError(str(error)) from error
        await server.start()
        self._server = server
        self._publishers.start()
        _log.info("driver is serving", driver=self.driver, node=self.node_name, socket=self._dra_socket)

    async def stop(self) -> None:
        """Remove the sockets and stop serving. The slices stay: the kubelet removes them, or a successor uses them."""
        await self._publishers.stop()
        for socket in reversed(self._paths):
            socket.unlink(missing_ok=True)
        if self._server is not None:
            await self._server.stop(_STOP_GRACE)

    def _add_services(self, server: Any) -> None:
        add_dra(server, self)
        add_registration(server, self)
        if self._health is not None:
            add_health(server, self._health, self._clock)

    def publish(self, resources: DriverResources, again: MakeResources | None = None) -> None:
        """Publish these slices from now on, and delete all others of the driver.

        Args:
            again: returns the same resources once more; with it they are only kept in memory until they are published.
        """
        self._publishers.publish(resources, again)

    async def wait_until_published(self) -> None:
        """Wait until the slices of the last call are in the API server."""
        await self._publishers.wait_until_published()

    # Deprecated: the name in 0.1, kept for one release.
    published = wait_until_published

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, list[PreparedDevice] | str]:
        """Prepare claims. Return devices or an error message by UID.

        Raises:
            PrepareError: a claim cannot be read from the API server, or the lock is held for too long; no claim is
                prepared.
        """
        found = [await self._claim(claim) for claim in claims]
        answers: dict[str, list[PreparedDevice] | str] = {}
        async with self._serialize_call():
            for claim in found:
                try:
                    answers[claim.metadata.uid] = self._add_metadata(
                        claim, await self._handler.prepare(claim)
                    )
                except PrepareError as error:
                    answers[claim.metadata.uid] = str(error)
                except Exception as error:
                    answers[claim.metadata.uid] = self._report_bug("prepare", claim.metadata.uid, error)
        return answers

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Unprepare claims. Return error messages by UID, empty for success.

        Raises:
            PrepareError: the lock is held for too long; no claim is unprepared.
        """
        answers = {}
        async with self._serialize_call():
            for claim in claims:
                try:
                    await self._handler.unprepare(claim)
                    answers[claim.uid] = self._remove_metadata(claim)
                except PrepareError as error:
                    answers[claim.uid] = str(error)
                except Exception as error:
                    answers[claim.uid] = self._report_bug("unprepare", claim.uid, error)
        return answers

    def update_metadata(self, claim: ClaimRef, request: str, devices: Sequence[PreparedDevice]) -> None:
        """Update the metadata of a request's devices after the claim was prepared.

        Args:
            devices: all devices of the request, with their metadata.

        Raises:
            MetadataError: the server writes no metadata, or has no file for the request.
            OSError: the file cannot be written.
        """
        if self._metadata is None:
            raise MetadataError("device metadata is not enabled")
        self._metadata.update(claim, request, devices)

    def handle_registration(self, registered: bool, error: str) -> None:
        """Record the kubelet's answer to the driver's registration."""
        self.registration_error = error
        if registered:
            self.registered.set()
        else:
            self.registered.clear()

    @property
    def services(self) -> tuple[str, ...]:
        """The gRPC services that the kubelet may call."""
        return DRA_SERVICES + (HEALTH_SERVICES if self._health is not None else ())

    @property
    def endpoint(self) -> str:
        """The socket of the DRA service."""
        return self._dra_socket

    @property
    def _paths(self) -> tuple[Path, Path]:
        """The sockets of the DRA service and of the registration."""
        directory = self.directories.registrar
        return Path(self._dra_socket), registration_socket(directory, self.driver, self._instance)

    @contextlib.asynccontextmanager
    async def _serialize_call(self) -> AsyncIterator[None]:
        if not self._serialize:
            yield
            return
        async with self._turn:
            if self._lock is None:
                yield
                return
            async with contextlib.AsyncExitStack() as stack:
                try:
                    await stack.enter_async_context(self._lock.hold(_LOCK_SECONDS))
                except (LockTimeout, OSError) as error:
                    raise PrepareError(f"serialize gRPC: {error}") from error
                yield

    def _add_metadata(self, claim: ResourceClaim, devices: Sequence[PreparedDevice]) -> list[PreparedDevice]:
        """Return the devices with the CDI ids of their metadata. If writing fails, the claim is prepared without it."""
        if self._metadata is None:
            return list(devices)
        try:
            return self._metadata.write(claim, devices)
        except OSError as error:
            _log.error("device metadata not written", claim=claim.metadata.name, error=str(error))
            return list(devices)

    def _remove_metadata(self, claim: ClaimRef) -> str:
        if self._metadata is None:
            return ""
        try:
            self._metadata.remove(claim)
        except OSError as error:
            return f"clean up device metadata: {error}"
        return ""

    def _report_bug(self, action: str, uid: str, error: Exception) -> str:
        """Log a bug of the driver with its traceback.

        Return the error message for the claim. Other claims are not affected.
        """
        _log.exception("driver failed", driver=self.driver, action=action, claim=uid)
        return f"{action} of claim {uid} failed: {type(error).__name__}: {error}"

    async def _claim(self, ref: ClaimRef) -> ResourceClaim:
        where = f"{ref.namespace}/{ref.name}"
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            raise PrepareError(f"get resource claims: retrieve claim {where}: {error}") from error
        if claim.status.allocation is None:
            raise PrepareError(f"get resource claims: claim {where} not allocated")
        if claim.metadata.uid != ref.uid:
            raise PrepareError(f"get resource claims: claim {where} got replaced")
        return claim

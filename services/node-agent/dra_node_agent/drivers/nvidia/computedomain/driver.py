"""The driver on a node (cmd/compute-domain-kubelet-plugin/driver.go)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Self, TypeVar

import httpx
from dra_driverkit.claims import ClaimRef, PreparedDevice
from dra_driverkit.errors import CheckpointError, DriverConfigError, PrepareError
from dra_driverkit.locks import FileLock, LockTimeout
from dra_driverkit.server import DriverServer
from dra_shared.api.resource import ResourceClaim
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import Informer
from dra_shared.log import logger

from dra_node_agent.drivers.base import DriverNode
from dra_node_agent.drivers.nvidia.computedomain import DRIVER_NAME, devices
from dra_node_agent.drivers.nvidia.computedomain.api import ComputeDomain
from dra_node_agent.drivers.nvidia.computedomain.choices import PermanentError
from dra_node_agent.drivers.nvidia.computedomain.cleanup import StaleClaims
from dra_node_agent.drivers.nvidia.computedomain.controlplane import ControlPlane
from dra_node_agent.drivers.nvidia.computedomain.domains import Domains
from dra_node_agent.drivers.nvidia.computedomain.imex import Imex
from dra_node_agent.drivers.nvidia.computedomain.state import ComputeDomainState
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary, DiscoveryError

_LOCK_FILE = "pu.lock"
# The kubelet's timeout. A daemon's claim must be prepared before a channel's can be.
_RETRY_SECONDS = 45.0
# The seconds after which aborted claims are forgotten. Any attempt that was running when the claim was given up
# has ended by then.
_ABORTED_SECONDS = 2 * _RETRY_SECONDS
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 3.0

T = TypeVar("T")

_log = logger(__name__)


class ComputeDomainDriver:
    """``compute-domain.nvidia.com`` on one node: an ``async with`` object that serves and publishes.

    Raises (on entering):
        DriverConfigError: NVML failed, or the checkpoint is damaged.
    """

    def __init__(
        self, library: DeviceLibrary, node: DriverNode, plane: ControlPlane, namespace: str, imex: Imex
    ) -> None:
        self._imex = imex
        self._library = library
        self._node = node
        self._plane = plane
        self._namespace = namespace
        self._directories = node.directories(DRIVER_NAME)
        self._lock = FileLock(self._directories.plugin / _LOCK_FILE, node.clock)
        # Preparing a channel waits for a daemon, so the lock above is held only during each attempt.
        self.server = DriverServer(
            DRIVER_NAME,
            node.name,
            self._directories,
            self,
            node.client,
            node.clock,
            serialize=False,
            slices=node.slices,
            sockets=node.sockets,
        )
        self._stack = contextlib.AsyncExitStack()
        self._domains: Informer[ComputeDomain]
        self.state: ComputeDomainState

    async def __aenter__(self) -> Self:
        node = self._node
        self._directories.make(DRIVER_NAME)
        async with contextlib.AsyncExitStack() as stack:
            joined = self._plane.join(node.cluster or node.client, node.clock)
            self._domains = await stack.enter_async_context(joined)
            try:
                clique = self._library.clique() or ""
                domains = Domains(node.client, self._domains, self._namespace, node.name, clique)
                self.state = ComputeDomainState(
                    self._library, domains, self._directories, node.clock.now, self._imex
                )
                self.state.open()
            except (CheckpointError, DiscoveryError, OSError) as error:
                raise DriverConfigError(f"driver {DRIVER_NAME} on node {node.name}: {error}") from error
            self._domains.add_handler(on_delete=self._domain_deleted)
            await self.server.start()
            stack.push_async_callback(self.server.stop)
            stale = StaleClaims(node.client, node.clock, self)
            stack.push_async_callback(
                _end, asyncio.create_task(stale.run(), name=f"stale claims of {node.name}")
            )
            self._stack = stack.pop_all()
        self.server.publish(devices.resources(node.name, host_managed=self._imex.host_managed))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def wait_until_published(self) -> None:
        """Wait until the slices are in the API server and the kinds are served."""
        await self._domains.wait_for_sync()
        await self.server.wait_until_published()

    async def prepare(self, claim: ResourceClaim) -> Sequence[PreparedDevice]:
        where = f"{claim.metadata.namespace}/{claim.metadata.name}:{claim.metadata.uid}"
        try:
            found = await self._retry(lambda: self.state.prepare(claim), "prepare devices failed: ")
        except PrepareError as error:
            raise PrepareError(f"error preparing devices for claim '{where}': {error}") from error
        _log.info("prepared", claim=where, devices=[device.device for device in found])
        return found

    async def unprepare(self, claim: ClaimRef) -> None:
        try:
            await self._retry(lambda: self.state.unprepare(claim), "unprepare devices failed: ")
        except PrepareError as error:
            raise PrepareError(f"error unpreparing devices for claim '{claim}': {error}") from error
        _log.info("unprepared", claim=str(claim))

    def unfinished_claims(self) -> list[ClaimRef]:
        return self.state.unfinished_claims()

    async def forget_aborted(self) -> int:
        try:
            async with self._lock.hold():
                return self.state.forget_aborted(_ABORTED_SECONDS)
        except LockTimeout as error:
            raise PrepareError(f"error acquiring prep/unprep lock: {error}") from error

    async def _retry(self, attempt: Callable[[], Awaitable[T]], failed: str) -> T:
        """Retry the attempt until it succeeds or fails permanently, for at most the kubelet's timeout.

        Raises PrepareError.
        """
        clock = self._node.clock
        until = clock.monotonic() + _RETRY_SECONDS
        delay = _FIRST_DELAY
        while True:
            try:
                return await self._once(attempt, failed)
            except PrepareError as error:
                if isinstance(error, PermanentError) or clock.monotonic() >= until:
                    raise
                _log.info("tried again", error=str(error))
            await clock.sleep(min(delay, max(0.0, until - clock.monotonic())))
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _once(self, attempt: Callable[[], Awaitable[T]], failed: str) -> T:
        try:
            async with self._lock.hold():
                return await attempt()
        except LockTimeout as error:
            raise PrepareError(f"error acquiring prep/unprep lock: {error}") from error
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            raise PrepareError(f"{failed}{error}") from error

    def _domain_deleted(self, domain: ComputeDomain) -> None:
        self.state.forget(domain.metadata.uid)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

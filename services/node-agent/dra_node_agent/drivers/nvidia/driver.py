"""The driver on a node (cmd/gpu-kubelet-plugin/driver.go of dra-driver-nvidia-gpu)."""

import asyncio
from collections.abc import Sequence
from typing import Self

from dra_driverkit.claims import ClaimRef, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import CheckpointError, DriverConfigError, PrepareError
from dra_driverkit.health import Health, HealthBoard
from dra_driverkit.locks import FileLock, LockTimeout
from dra_driverkit.metadata import V1ALPHA1, MetadataWriter
from dra_driverkit.resources import DriverResources
from dra_driverkit.server import DriverServer
from dra_driverkit.serverversion import has_split_slices, join_counters
from dra_driverkit.sliceheads import SliceHeads
from dra_driverkit.transport import Sockets
from dra_shared.api.resource import ResourceClaim
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_node_agent.drivers.nvidia import DRIVER_NAME, gates, taints
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary, DiscoveryError
from dra_node_agent.drivers.nvidia.fabricmanager import NO_PARTITIONS, FabricPartitions
from dra_node_agent.drivers.nvidia.health import HealthMonitor
from dra_node_agent.drivers.nvidia.host import Host
from dra_node_agent.drivers.nvidia.options import NvidiaOptions
from dra_node_agent.drivers.nvidia.state import CrashPoint, DeviceState
from dra_node_agent.drivers.nvidia.taints import DeviceTaints

LOCK_FILE = "pu.lock"

_log = logger(__name__)


class NvidiaDriver:
    """``gpu.nvidia.com`` on one node: an ``async with`` object that serves, publishes and watches.

    Raises (on entering):
        DriverConfigError: options contradict each other, NVML failed, or the checkpoint is damaged.
    """

    def __init__(
        self,
        host: Host,
        node_name: str,
        directories: Directories,
        client: Client,
        clock: Clock,
        options: NvidiaOptions,
        *,
        slices: SliceHeads | None = None,
        sockets: Sockets | None = None,
        reached: CrashPoint = lambda point: None,
    ) -> None:
        self._node = node_name
        self._directories = directories
        self._gates = options.gates
        library = DeviceLibrary(host, options.gates)
        partitioned = options.gates.is_enabled(gates.FABRIC_PARTITIONS)
        fabric = (
            FabricPartitions(host.gpu_modules(), switched=host.has_switches())
            if partitioned
            else NO_PARTITIONS
        )
        self._announcer = Announcer(options.gates, options.shares, fabric)
        self._client = client
        self._split_slices = True
        self._board = HealthBoard() if options.gates.is_enabled(gates.HEALTH_CHECK) else None
        described = options.gates.is_enabled(gates.DEVICE_METADATA)
        self.server = DriverServer(
            DRIVER_NAME,
            node_name,
            directories,
            self,
            client,
            clock,
            health=self._board,
            # The lock below also excludes other processes of the driver, and is held for a shorter time.
            serialize=False,
            slices=slices,
            metadata=MetadataWriter(DRIVER_NAME, directories, (V1ALPHA1,)) if described else None,
            sockets=sockets,
        )
        self.state = DeviceState(
            library,
            options.gates,
            directories.plugin,
            directories.cdi,
            reached,
            shared=self._announcer.is_shared,
            fabric=fabric,
            metadata=self._announcer.metadata if described else None,
            monotonic=clock.monotonic,
            durable=directories.durable,
        )
        self._lock = FileLock(directories.plugin / LOCK_FILE, clock)
        self._taints = DeviceTaints(directories.plugin / taints.FILE_NAME)
        self._boot_id = host.nvml.boot_id
        self._monitor = HealthMonitor(host.nvml, clock, options.ignored_xids) if self._board else None
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._directories.make(DRIVER_NAME)
        try:
            self.state.open()
        except (CheckpointError, DiscoveryError, OSError) as error:
            raise DriverConfigError(f"driver {DRIVER_NAME} on node {self._node}: {error}") from error
        self._taints.open(self._boot_id())
        self._split_slices = await has_split_slices(self._client)
        await self.server.start()
        await self._publish()
        if self._monitor is not None:
            self._monitor.watch(self.state.per_gpu)
            self._watching = asyncio.create_task(self._watch(self._monitor), name=f"health of {self._node}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._monitor is not None:
            self._monitor.close()
        await self.server.stop()

    async def wait_until_published(self) -> None:
        """Wait until the slices are in the API server."""
        await self.server.wait_until_published()

    async def mark_repaired(self) -> None:
        if self._monitor is not None:
            self._monitor.reset_lost()
        if self._taints.clear():
            await self._publish()

    async def prepare(self, claim: ResourceClaim) -> Sequence[PreparedDevice]:
        where = f"{claim.metadata.namespace}/{claim.metadata.name}:{claim.metadata.uid}"
        try:
            async with self._lock.hold():
                devices = self.state.prepare(claim)
        except LockTimeout as error:
            raise PrepareError(f"error acquiring prep/unprep lock: {error}") from error
        except (OSError, CheckpointError) as error:
            raise PrepareError(
                f"error preparing devices for claim {where}: unable to update checkpoint: {error}"
            ) from error
        except PrepareError as error:
            raise PrepareError(f"error preparing devices for claim {where}: {error}") from error
        if self._gates.is_enabled(gates.PASSTHROUGH):
            await self._publish()
        _log.info("prepared", claim=where, devices=[device.device for device in devices])
        return devices

    async def unprepare(self, claim: ClaimRef) -> None:
        try:
            async with self._lock.hold():
                self.state.unprepare(claim)
        except LockTimeout as error:
            raise PrepareError(f"error acquiring prep/unprep lock: {error}") from error
        except (PrepareError, OSError) as error:
            raise PrepareError(f"error unpreparing devices for claim {claim}: {error}") from error
        if self._gates.is_enabled(gates.PASSTHROUGH):
            await self._publish()
        _log.info("unprepared", claim=str(claim))

    async def _publish(self) -> None:
        self.server.publish(self._resources(), self._resources)
        if self._board is not None:
            await self._board.set(
                [self._health(name) for devices in self.state.per_gpu.values() for name in devices]
            )

    def _resources(self) -> DriverResources:
        state = self.state
        found = self._announcer.resources(
            self._node, state.per_gpu, self._taints.by_device, state.is_partitioned
        )
        return found if self._split_slices else join_counters(found)

    def _health(self, name: str) -> Health:
        found = self._taints.of(name)
        bad = next((taint for taint in found if taint.effect != "None"), None)
        message = "" if bad is None else f"{bad.key}={bad.value}" if bad.value else bad.key
        unknown = bad is None and any(taint.key.endswith("/unmonitored") for taint in found)
        return Health(self._node, name, None if unknown else bad is None, message)

    async def _watch(self, monitor: HealthMonitor) -> None:
        async for names, taint in monitor.events():
            if self._taints.add(names, taint):
                _log.warning("device health changed", devices=names, taint=taint.key, value=taint.value)
                await self._publish()

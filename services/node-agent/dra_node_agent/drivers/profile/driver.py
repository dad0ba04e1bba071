"""The driver of a profile on a node."""

import asyncio
from collections.abc import Sequence
from typing import Self

from dra_driverkit.claims import ClaimRef, PreparedDevice
from dra_driverkit.devicestatus import report_device_status
from dra_driverkit.directories import Directories
from dra_driverkit.errors import DriverConfigError, PrepareError
from dra_driverkit.health import Health, HealthBoard
from dra_driverkit.server import DriverServer
from dra_driverkit.serverversion import has_split_slices, join_counters
from dra_driverkit.sliceheads import SliceHeads
from dra_driverkit.transport import Sockets
from dra_shared.api.resource import ResourceClaim
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.version import DEFAULT, Version

from dra_node_agent.drivers.profile.binding import BindingConditionSetter
from dra_node_agent.drivers.profile.devices import cluster_resources, loop_values, resources
from dra_node_agent.drivers.profile.metadata import metadata_writer
from dra_node_agent.drivers.profile.model import Profile
from dra_node_agent.drivers.profile.state import ProfileState
from dra_node_agent.drivers.profile.versions import of_version

_log = logger(__name__)


class ProfileDriver:
    """An ``async with`` object that serves, publishes and prepares the profile's devices.

    Raises (also on entering):
        DriverConfigError: the profile is invalid, or not possible with this version of Kubernetes.
    """

    def __init__(
        self,
        profile: Profile,
        node_name: str,
        directories: Directories,
        client: Client,
        clock: Clock,
        *,
        slices: SliceHeads | None = None,
        kubernetes: Version = DEFAULT,
        sockets: Sockets | None = None,
        instance: str = "",
    ) -> None:
        self._profile = profile = of_version(profile, kubernetes)
        self._node = node_name
        self._client = client
        self._clock = clock
        self._resources = resources(profile, node_name)
        everywhere = {**self._resources.pools, **cluster_resources(profile).pools}
        self._devices = {
            (name, device.name): device
            for name, pool in everywhere.items()
            for part in pool.slices
            for device in part.devices
        }
        self._board = HealthBoard() if profile.serve_health else None
        self.server = DriverServer(
            profile.driver,
            node_name,
            directories,
            self,
            client,
            clock,
            health=self._board,
            instance=instance,
            slices=slices,
            metadata=metadata_writer(profile, directories, kubernetes),
            sockets=sockets,
            # Keep names with the driver's own domain, because released drivers, such as dra.cpu, publish them.
            own_domain=True,
        )
        self.state = self._state(directories)
        self._setter = (
            BindingConditionSetter(
                client, clock, profile.driver, self._resources.pools, profile.binding_conditions
            )
            if profile.binding_conditions is not None
            else None
        )
        self._setting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            self.state.open()
        except (PrepareError, OSError) as error:
            raise DriverConfigError(f"driver {self._profile.driver} on node {self._node}: {error}") from error
        split = await has_split_slices(self._client)
        await self.server.start()
        self.server.publish(self._resources if split else join_counters(self._resources))
        if self._board is not None:
            await self._board.set([Health(pool, name, True) for pool, name in self._devices])
        if self._setter is not None:
            self._setting = asyncio.create_task(
                self._setter.run(), name=f"conditions of {self._profile.driver}"
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._setting is not None:
            self._setting.cancel()
            await asyncio.gather(self._setting, return_exceptions=True)
        await self.server.stop()

    async def wait_until_published(self) -> None:
        """Wait until the slices are in the API server."""
        await self.server.wait_until_published()

    async def prepare(self, claim: ResourceClaim) -> Sequence[PreparedDevice]:
        where = f"{claim.metadata.namespace}/{claim.metadata.name}:{claim.metadata.uid}"
        try:
            devices = self.state.prepare(claim)
        except (PrepareError, OSError) as error:
            raise PrepareError(f"error preparing devices for claim {claim.metadata.uid}: {error}") from error
        profile = self._profile
        if profile.device_status or profile.device_conditions or profile.network_data:
            await self._report_status(claim)
        _log.info("prepared", driver=self._profile.driver, claim=where, devices=[d.device for d in devices])
        return devices

    async def unprepare(self, claim: ClaimRef) -> None:
        try:
            self.state.unprepare(claim)
        except (PrepareError, OSError) as error:
            raise PrepareError(f"error unpreparing devices for claim {claim.uid}: {error}") from error

    def _state(self, directories: Directories) -> ProfileState:
        profile, node = self._profile, self._node
        try:
            return ProfileState(profile, node, self._devices, directories, loops=loop_values(profile, node))
        except PrepareError as error:
            raise DriverConfigError(f"driver {profile.driver} on node {node}: {error}") from error

    async def _report_status(self, claim: ResourceClaim) -> None:
        """Copy the attributes that users may want to see into the claim's status. Failures are only logged."""
        try:
            statuses = self.state.device_statuses(claim)
            await report_device_status(self._client, self._clock, claim, statuses)
        except (ApiError, PrepareError, OSError, TimeoutError) as error:
            where = f"{claim.metadata.namespace}/{claim.metadata.name}"
            _log.error("cannot report device status", claim=where, error=str(error))

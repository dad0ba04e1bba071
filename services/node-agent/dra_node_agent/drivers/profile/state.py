"""Preparation of claims for a profile's devices: configs and allocations become the edits of CDI files."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from dra_driverkit.cdi import ContainerEdits
from dra_driverkit.claims import ClaimRef, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import PrepareError
from dra_driverkit.opaque import choose, configs_for
from dra_driverkit.store import ClaimStore, Ready, own_results
from dra_shared.api.meta import Condition
from dra_shared.api.resource import (
    AllocatedDeviceStatus,
    Device,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from dra_shared.quantity import Quantity

from dra_node_agent.drivers.profile.configs import decode_config, default_config
from dra_node_agent.drivers.profile.edits import container_edits, device_values
from dra_node_agent.drivers.profile.metadata import device_metadata, network_data
from dra_node_agent.drivers.profile.model import Edits, Profile


class ProfileState:
    """The claims that hold a profile's devices on a node.

    Args:
        devices: by pool and name. loops: the values of the profile's loops for each device, by pool and name.
        reached: called at each named point of a preparation; tests make it raise an error.

    Raises:
        PrepareError: the profile's common edits are not CDI edits.
    """

    def __init__(
        self,
        profile: Profile,
        node_name: str,
        devices: Mapping[tuple[str, str], Device],
        directories: Directories,
        reached: Callable[[str], None] = lambda point: None,
        loops: Mapping[tuple[str, str], dict[str, Any]] | None = None,
    ) -> None:
        self._profile = profile
        self._base = {"node": node_name, "driver": profile.driver}
        self._devices = devices
        self._loops = loops or {}
        common = ContainerEdits()
        if profile.common_edits != Edits():
            common = container_edits(profile, profile.common_edits, self._base)
        kind = f"{profile.vendor}/{profile.cdi_class}"
        self._store = ClaimStore(profile.driver, directories, kind, node_name, common=common, reached=reached)

    def open(self) -> None:
        """Load the state of the previous process. Raises like :meth:`ClaimStore.open`."""
        self._store.open()

    def prepared_uids(self) -> list[str]:
        """Return the UIDs of the prepared claims."""
        return self._store.prepared_claims()

    def prepare(self, claim: ResourceClaim) -> list[PreparedDevice]:
        """Prepare the claim's devices. Raises like :meth:`ClaimStore.prepare`."""
        return self._store.prepare(claim, self._ready)

    def unprepare(self, claim: ClaimRef) -> None:
        """Unprepare the claim's devices. Raises like :meth:`ClaimStore.unprepare`."""
        self._store.unprepare(claim)

    def device_statuses(self, claim: ResourceClaim) -> list[AllocatedDeviceStatus]:
        """Return what the profile reports of the claim's devices: attributes, conditions and network data.

        Raises:
            PrepareError: the profile's network data have another form than the API's.
        """
        profile = self._profile
        statuses = []
        for result in own_results(claim, profile.driver):
            attributes = self._devices[result.pool, result.device].attributes
            data = {
                name: msgspec.to_builtins(attributes[name])
                for name in profile.device_status
                if name in attributes
            }
            values = self._values(claim, result, {}, admin=bool(result.admin_access))
            conditions = tuple(
                Condition(type=one.type, status="True", reason=one.reason, message=one.message)
                for one in profile.device_conditions
            )
            statuses.append(
                AllocatedDeviceStatus(
                    driver=result.driver,
                    pool=result.pool,
                    device=result.device,
                    share_id=result.share_id,
                    conditions=conditions,
                    data=data if profile.device_status else None,
                    network_data=network_data(profile.driver, profile.network_data, values),
                )
            )
        return statuses

    def _ready(self, claim: ResourceClaim) -> Iterator[Ready]:
        assert claim.status.allocation is not None
        configs = self._configs(claim)
        admin = any(result.admin_access for result in claim.status.allocation.devices.results)
        for result in own_results(claim, self._profile.driver):
            key = result.pool, result.device
            if key not in self._devices:
                raise PrepareError(f"requested device is not allocatable: {result.device}")
            values = self._values(claim, result, choose(configs, result.request), admin=admin)
            edits = container_edits(self._profile, self._profile.device_edits, values)
            yield Ready(result, edits, device_metadata(self._profile, self._devices[key], values))

    def _configs(self, claim: ResourceClaim) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
        """Return the default config and those of claim and classes, lowest precedence first. Raises PrepareError."""
        assert claim.status.allocation is not None
        configs: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), default_config(self._profile.configs))]
        for requests, parameters in configs_for(self._profile.driver, claim.status.allocation.devices.config):
            if self._profile.any_config:
                continue
            if not self._profile.configs:
                raise PrepareError("configuration not allowed")
            configs.append((requests, decode_config(parameters, self._profile.configs)))
        return configs

    def _values(
        self,
        claim: ResourceClaim,
        result: DeviceRequestAllocationResult,
        config: Mapping[str, Any],
        *,
        admin: bool,
    ) -> dict[str, Any]:
        device = self._devices[result.pool, result.device]
        values = (
            self._base
            | self._loops.get((result.pool, result.device), {})
            | device_values(device)
            | {
                "pool": result.pool,
                "request": result.request,
                "shareID": result.share_id,
                "adminAccess": admin,
                "claim.uid": claim.metadata.uid,
                "claim.name": claim.metadata.name,
                "claim.namespace": claim.metadata.namespace,
            }
        )
        for path, value in config.items():
            values[f"config.{path}"] = value
        for name, quantity in result.consumed_capacity.items():
            parsed = Quantity.parse(quantity)
            values[f"consumed.{name}"] = str(parsed)
            values[f"consumedNumber.{name}"] = parsed.value()
        return values

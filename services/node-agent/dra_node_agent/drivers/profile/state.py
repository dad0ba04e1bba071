"""Preparing claims for a profile's devices: configs and allocations become CDI files."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from dra_shared.api.resource import Device, DeviceRequestAllocationResult, ResourceClaim
from dra_shared.log import logger
from dra_shared.quantity import Quantity

from dra_node_agent.cdi import (
    CdiDevice,
    ContainerEdits,
    Spec,
    SpecError,
    qualified_name,
    read_spec,
    remove_spec,
    transient_name,
    write_spec,
)
from dra_node_agent.drivers.claims import ClaimRef, PreparedDevice
from dra_node_agent.drivers.errors import PrepareError
from dra_node_agent.drivers.opaque import applies_to, configs_for
from dra_node_agent.drivers.profile.configs import decode_config, default_config
from dra_node_agent.drivers.profile.edits import container_edits, device_values
from dra_node_agent.drivers.profile.model import Edits, Profile

_COMMON = "common"

_log = logger(__name__)


class _Entry(msgspec.Struct, rename="camel"):
    uid: str
    completed: bool = False
    devices: list[dict[str, Any]] = msgspec.field(default_factory=list)


class _File(msgspec.Struct, rename="camel"):
    prepared_claims: list[_Entry] = msgspec.field(default_factory=list)


class ProfileState:
    """The claims that hold a profile's devices on a node.

    Args:
        devices: by pool and name.
        loops: what the profile's loops gave each device, by pool and name.
        reached: called at each named point of a preparation; a test makes it raise.
    """

    def __init__(
        self,
        profile: Profile,
        node_name: str,
        devices: Mapping[tuple[str, str], Device],
        directory: Path,
        cdi_directory: Path,
        reached: Callable[[str], None] = lambda point: None,
        loops: Mapping[tuple[str, str], dict[str, Any]] | None = None,
    ) -> None:
        self._profile = profile
        self._node = node_name
        self._devices = devices
        self._loops = loops or {}
        self._path = directory / "checkpoint.json"
        self._cdi = cdi_directory
        self._vendor = profile.vendor
        self._reached = reached
        self._entries: dict[str, _Entry] = {}

    def open(self) -> None:
        """Take over what the last process left, and write the CDI file of what all devices have in common.

        Raises:
            PrepareError: the checkpoint is damaged.
        """
        try:
            content = msgspec.json.decode(self._path.read_bytes(), type=_File)
            self._entries = {entry.uid: entry for entry in content.prepared_claims if self._is_whole(entry)}
        except FileNotFoundError:
            self._save()
        except msgspec.DecodeError as error:
            raise PrepareError(f"{self._path}: checkpoint is corrupted: {error}") from error
        prefix = transient_name(self._vendor, self._profile.cdi_class, "")
        for path in self._cdi.glob(f"{prefix}*.yaml"):
            if path.stem.removeprefix(prefix) not in {*self._entries, _COMMON}:
                _log.warning("removing the CDI file of a claim that is not in the checkpoint", path=str(path))
                path.unlink(missing_ok=True)
        if self._has_common:
            edits = container_edits(self._profile, self._profile.common_edits, self._base())
            self._write(_COMMON, (CdiDevice(_COMMON, container_edits=edits),))

    def prepared(self) -> list[str]:
        """The UIDs of the claims that are prepared."""
        return sorted(self._entries)

    def prepare(self, claim: ResourceClaim) -> list[PreparedDevice]:
        """Make the claim's devices ready.

        Raises:
            PrepareError: it cannot be done.
        """
        uid = claim.metadata.uid
        entry = self._entries.get(uid)
        if entry is not None:
            return [msgspec.convert(device, PreparedDevice) for device in entry.devices]
        try:
            answers, devices = self._compute(claim)
        except PrepareError as error:
            raise PrepareError(f"prepare failed: {error}") from error
        if devices:
            # After a crash right here the file is that of no claim in the checkpoint, and removed at the next start.
            self._write(uid, tuple(devices))
        self._reached("cdi-written")
        self._entries[uid] = _Entry(uid, True, [msgspec.to_builtins(answer) for answer in answers])
        try:
            self._save()
        except OSError:
            del self._entries[uid]
            raise
        self._reached("checkpoint-completed")
        return answers

    def unprepare(self, claim: ClaimRef) -> None:
        """Take the devices back."""
        remove_spec(self._cdi, self._file(claim.uid))
        if claim.uid not in self._entries:
            return
        self._reached("cdi-removed")
        del self._entries[claim.uid]
        self._save()
        self._reached("checkpoint-removed")

    def _compute(self, claim: ResourceClaim) -> tuple[list[PreparedDevice], list[CdiDevice]]:
        allocation = claim.status.allocation
        if allocation is None:
            raise PrepareError("claim not yet allocated")
        configs: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), default_config(self._profile.configs))]
        for requests, parameters in configs_for(self._profile.driver, allocation.devices.config):
            if self._profile.any_config:
                continue
            if not self._profile.configs:
                raise PrepareError("configuration not allowed")
            configs.append((requests, decode_config(parameters, self._profile.configs)))
        admin = any(result.admin_access for result in allocation.devices.results)
        answers = []
        devices: dict[str, CdiDevice] = {}
        for result in allocation.devices.results:
            if result.driver != self._profile.driver:
                continue
            if (result.pool, result.device) not in self._devices:
                raise PrepareError(f"requested device is not allocatable: {result.device}")
            chosen = next(
                config
                for requests, config in reversed(configs)
                if not requests or applies_to(requests, result.request)
            )
            name = self._cdi_name(claim.metadata.uid, result)
            values = self._values(claim, result, chosen, admin=admin)
            edits = container_edits(self._profile, self._profile.device_edits, values)
            if edits != ContainerEdits():
                devices[name] = CdiDevice(name, container_edits=edits)
            ids = [_COMMON] if self._has_common else []
            ids += [name] if name in devices else []
            answers.append(
                PreparedDevice(
                    requests=(result.request,),
                    pool=result.pool,
                    device=result.device,
                    cdi_ids=tuple(qualified_name(self._vendor, self._profile.cdi_class, i) for i in ids),
                    share_id=result.share_id,
                )
            )
        return answers, list(devices.values())

    def _cdi_name(self, uid: str, result: DeviceRequestAllocationResult) -> str:
        """Unlike that of the claim's other devices: devices of two pools may have one name."""
        pool = [] if result.pool == self._node else [result.pool.replace("/", "_")]
        share = [result.share_id] if result.share_id else []
        return "-".join([uid, *pool, result.device, *share])

    @property
    def _has_common(self) -> bool:
        return self._profile.common_edits != Edits()

    def _base(self) -> dict[str, Any]:
        return {"node": self._node, "driver": self._profile.driver}

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
            self._base()
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

    def _is_whole(self, entry: _Entry) -> bool:
        """Whether the claim's CDI file, if it has one, is there: a power cut may have taken it."""
        own = [
            id_ for device in entry.devices for id_ in device.get("cdi_ids", ()) if f"={entry.uid}-" in id_
        ]
        if not entry.completed or not own:
            return entry.completed
        try:
            read_spec(self._cdi / f"{self._file(entry.uid)}.yaml")
        except (OSError, SpecError):
            _log.warning("the CDI file of a claim is lost, the claim is prepared again", claim=entry.uid)
            return False
        return True

    def _file(self, name: str) -> str:
        return transient_name(self._vendor, self._profile.cdi_class, name)

    def _write(self, name: str, devices: tuple[CdiDevice, ...]) -> None:
        kind = f"{self._vendor}/{self._profile.cdi_class}"
        try:
            write_spec(self._cdi, self._file(name), Spec(kind, devices), durable=False)
        except (OSError, ValueError) as error:
            raise PrepareError(f"unable to create CDI spec file for claim: {error}") from error

    def _save(self) -> None:
        data = msgspec.json.encode(_File(list(self._entries.values())))
        temporary = self._path.with_name(".checkpoint.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._path)

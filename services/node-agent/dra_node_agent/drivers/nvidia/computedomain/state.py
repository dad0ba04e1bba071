"""Preparation of claims (cmd/compute-domain-kubelet-plugin/device_state.go).

A channel makes its node join the domain, and is ready once the domain's daemon is. Preparing it fails until
then.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dra_driverkit.cdi import CdiDevice, ContainerEdits, qualified_name
from dra_driverkit.claims import ClaimRef, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import PrepareError
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim
from dra_shared.clock import parse_rfc3339, rfc3339

from dra_node_agent.drivers.gojson import claim_status, dumps
from dra_node_agent.drivers.nvidia.checkpoint import (
    ABORTED,
    COMPLETED,
    FILE_NAME,
    STARTED,
    Checkpoint,
    PreparedClaim,
    held_devices,
)
from dra_node_agent.drivers.nvidia.computedomain import DRIVER_NAME, api, devices, edits
from dra_node_agent.drivers.nvidia.computedomain.choices import (
    PermanentError,
    channel_domains,
    choose,
    configs,
    own_results,
)
from dra_node_agent.drivers.nvidia.computedomain.domains import Domains
from dra_node_agent.drivers.nvidia.computedomain.imex import Imex
from dra_node_agent.drivers.nvidia.config import (
    ComputeDomainChannelConfig,
    ComputeDomainDaemonConfig,
    DomainConfig,
)
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.prepared import answer

_DIRECTORY = "domains"
# The settings with which an IMEX daemon of a domain starts. The daemon's container adds the other settings.
_SETTINGS = Path(__file__).parent / "manifests" / "imexd.cfg.tmpl"


@dataclass
class _Group:
    """The devices that one config applies to. ``edits`` is None if containers get nothing."""

    type: str
    config: DomainConfig
    results: list[DeviceRequestAllocationResult]
    edits: ContainerEdits | None = None


class ComputeDomainState:
    """The claims that hold channels and daemon devices on a node.

    Args:
        now: the wall clock.
        imex: the management of IMEX daemons.
    """

    def __init__(
        self,
        library: DeviceLibrary,
        domains: Domains,
        directories: Directories,
        now: Callable[[], datetime],
        imex: Imex,
    ) -> None:
        self._now = now
        self._imex = imex
        self._library = library
        self._domains = domains
        self._cdi = directories.cdi
        self._root = directories.plugin / _DIRECTORY
        kind = f"{edits.VENDOR}/{edits.CLASS}"
        self._checkpoint = Checkpoint(
            directories.plugin / FILE_NAME, directories.cdi, kind, durable=directories.durable
        )

    def open(self) -> None:
        """Load the checkpoint, write the CDI file of all GPUs, and remove the files of unknown claims.

        Raises:
            CheckpointError: the checkpoint is damaged.
            DiscoveryError: NVML failed.
            OSError: a file cannot be written.
        """
        edits.write_base_spec(self._cdi, self._library)
        self._checkpoint.open(self._library.host.nvml.boot_id())
        self._checkpoint.remove_unknown_specs()

    def prepared_claims(self) -> dict[str, PreparedClaim]:
        """Return the checkpoint's claims by UID."""
        return self._checkpoint.claims()

    def forget(self, domain_uid: str) -> None:
        """Remove the files of a deleted domain."""
        shutil.rmtree(self._root / domain_uid, ignore_errors=True)

    async def prepare(self, claim: ResourceClaim) -> list[PreparedDevice]:
        """Prepare the claim's devices.

        Raises:
            PrepareError: it failed, possibly only for now.
            ApiError: the API server rejects a request.
        """
        uid = claim.metadata.uid
        claims = self._checkpoint.claims()
        before = claims.get(uid)
        if before is not None and before.state == COMPLETED:
            return _answers(before)
        if claim.status.allocation is None:
            raise PermanentError("no allocation set in ResourceClaim")
        status = claim_status(claim.status)
        name, namespace = claim.metadata.name, claim.metadata.namespace
        if before is not None and before.state == ABORTED and dumps(before.status) == dumps(status):
            raise PermanentError(
                f"stale prepare for claim {namespace}/{name}:{uid}: claim prepare was already aborted"
            )
        self._check_overlap(claim, claims)
        self._checkpoint.put(uid, PreparedClaim(STARTED, status, [], name, namespace))
        try:
            groups = await self._groups(claim)
        except PrepareError as error:
            raise type(error)(f"prepare devices failed: {error}") from error
        self._write(uid, groups)
        done = PreparedClaim(
            COMPLETED, status, [_encode_group(uid, group) for group in groups], name, namespace
        )
        self._checkpoint.put(uid, done)
        return _answers(done)

    async def unprepare(self, claim: ClaimRef) -> None:
        """Unprepare the devices. A node that loses its channel leaves the domain.

        A claim whose preparation did not finish is kept as aborted for a while, so that a running attempt does
        not finish the preparation.

        Raises:
            PrepareError: the checkpoint is damaged.
            ApiError: the API server rejects a request.
        """
        prepared = self._checkpoint.claims().get(claim.uid)
        if prepared is None or prepared.state == ABORTED:
            return
        if not self._imex.host_managed:
            for domain in channel_domains(prepared):
                await self._domains.leave(domain)
        self._checkpoint.remove_spec(claim.uid)
        if prepared.state == COMPLETED:
            self._checkpoint.drop(claim.uid)
            return
        when = rfc3339(self._now())
        self._checkpoint.put(
            claim.uid,
            PreparedClaim(ABORTED, prepared.status, [], claim.name, claim.namespace, aborted_at=when),
        )

    def unfinished_claims(self) -> list[ClaimRef]:
        """Return the claims whose preparation has not finished, except those whose names are unknown."""
        return [
            ClaimRef(claim.namespace, claim.name, uid)
            for uid, claim in sorted(self._checkpoint.claims().items())
            if claim.state == STARTED and claim.name
        ]

    def forget_aborted(self, older_seconds: float) -> int:
        """Drop the claims that were given up that long ago. Return their number."""
        limit = self._now() - timedelta(seconds=older_seconds)
        expired = [
            uid
            for uid, claim in self._checkpoint.claims().items()
            if claim.state == ABORTED and (not claim.aborted_at or parse_rfc3339(claim.aborted_at) <= limit)
        ]
        if expired:
            self._checkpoint.drop(*expired)
        return len(expired)

    def _check_overlap(self, claim: ResourceClaim, claims: dict[str, PreparedClaim]) -> None:
        uid = claim.metadata.uid
        wanted = {result.device for result in own_results(claim) if not result.admin_access}
        for other_uid, _, held in held_devices(claims, DRIVER_NAME, uid):
            for name in sorted(wanted & held):
                raise PrepareError(
                    f"unable to prepare claim {uid}: requested device {name} is already allocated "
                    f"to different claim {other_uid}"
                )

    async def _groups(self, claim: ResourceClaim) -> list[_Group]:
        groups: dict[int, _Group] = {}
        try:
            every = configs(claim)
            for result in own_results(claim):
                type_ = devices.TYPES.get(result.device)
                if type_ is None:
                    raise PrepareError(f"requested device is not allocatable: {result.device}")
                number = choose(every, result, type_)
                groups.setdefault(number, _Group(type_, every[number][1], [])).results.append(result)
        except PrepareError as error:
            raise type(error)(f"error generating configResultsMap: {error}") from error
        for group in groups.values():
            if not group.config.domain_id:
                raise PrepareError("error validating config: domainID cannot be empty")
            try:
                group.edits = await self._apply(group, claim)
            except (PrepareError, OSError) as error:
                kind = PermanentError if isinstance(error, PermanentError) else PrepareError
                raise kind(f"error applying config: {error}") from error
        return list(groups.values())

    async def _apply(self, group: _Group, claim: ResourceClaim) -> ContainerEdits | None:
        if isinstance(group.config, ComputeDomainChannelConfig):
            return await self._apply_channel(group.config, claim)
        if self._imex.host_managed:
            raise PermanentError("ComputeDomain daemon claims are not supported when imex.mode=hostManaged")
        return self._apply_daemon(group.config)

    async def _apply_channel(
        self, config: ComputeDomainChannelConfig, claim: ResourceClaim
    ) -> ContainerEdits | None:
        uid = config.domain_id
        self._check_channel_free()
        try:
            self._domains.check_namespace(uid, claim.metadata.namespace)
        except PrepareError as error:
            raise PermanentError(f"error asserting ComputeDomain's namespace: {error}") from error
        if self._imex.host_managed:
            return await self._host_channel()
        try:
            await self._domains.join(uid)
        except PrepareError as error:
            raise PrepareError(f"error adding Node label for ComputeDomain: {error}") from error
        try:
            await self._domains.check_ready(uid)
        except PrepareError as error:
            raise PrepareError(f"error asserting ComputeDomain Ready: {error}") from error
        if not self._domains.clique:
            return None
        count = devices.CHANNELS if config.allocation_mode == api.ALL_CHANNELS else 1
        return edits.channel_edits(self._library.host, count)

    async def _host_channel(self) -> ContainerEdits | None:
        """Return channel 0 if the machine's own IMEX daemon is ready, or None on a node without a fabric."""
        if not self._domains.clique:
            return None
        try:
            await asyncio.to_thread(self._library.host.check_imex, self._imex.socket)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PrepareError(f"host nvidia-imex daemon readiness check failed: {error}") from error
        return edits.channel_edits(self._library.host, 1)

    def _check_channel_free(self) -> None:
        """Check that channel 0, the only one that a node has, is not in use."""
        for uid, prepared in sorted(self._checkpoint.claims().items()):
            if prepared.state == COMPLETED and any(entry.get("channel") for entry in prepared.devices()):
                raise PrepareError(
                    f"allocation failed: channel 0 already allocated by claim {uid} (according to checkpoint)"
                )

    def _apply_daemon(self, config: ComputeDomainDaemonConfig) -> ContainerEdits:
        domain = self._domains.find(config.domain_id)
        if domain is None:
            raise PrepareError(
                f"error getting common container edits for ComputeDomain daemon '{config.domain_id}': "
                f"compute domain not found: {config.domain_id}"
            )
        directory = self._root / config.domain_id
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "imexd.cfg.tmpl").write_text(_SETTINGS.read_text())
        found = edits.daemon_edits(domain, self._domains.clique, directory)
        if self._domains.clique:
            found = found.merge(edits.management_edits(self._library.host))
        return found

    def _write(self, uid: str, groups: list[_Group]) -> None:
        found = tuple(
            CdiDevice(_cdi_name(uid, result), container_edits=group.edits)
            for group in groups
            if group.edits is not None
            for result in group.results
        )
        if found:
            self._checkpoint.write_spec(uid, found)


def _cdi_name(uid: str, result: DeviceRequestAllocationResult) -> str:
    return f"{uid}-{result.device}"


def _encode_group(uid: str, group: _Group) -> dict[str, Any]:
    """Return the group in the checkpoint's form, with fields in Go's order."""
    entries = []
    for result in group.results:
        ids = []
        if group.type == devices.DAEMON:
            ids.append(qualified_name(edits.VENDOR, edits.DEVICE_CLASS, edits.ALL_DEVICES))
        if group.edits is not None:
            ids.append(qualified_name(edits.VENDOR, edits.CLASS, _cdi_name(uid, result)))
        device = {
            "Requests": [result.request],
            "PoolName": result.pool,
            "DeviceName": result.device,
            "CDIDeviceIDs": ids,
        }
        entry = {"info": {"id": 0}, "device": device}
        entries.append(
            {kind: entry if kind == group.type else None for kind in (devices.CHANNEL, devices.DAEMON)}
        )
    state = {"Type": group.type, "ComputeDomain": group.config.domain_id}
    return {"devices": entries, "configState": state}


def _answers(prepared: PreparedClaim) -> list[PreparedDevice]:
    return [
        answer((entry.get(devices.CHANNEL) or entry[devices.DAEMON])["device"])
        for entry in prepared.devices()
    ]

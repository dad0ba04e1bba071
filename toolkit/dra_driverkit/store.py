"""The claims that a driver has prepared: its checkpoint, and a CDI file for each of them.

This is the part that drivers keep in ``device_state.go``. Preparing a claim is idempotent, may be interrupted
at any point by the end of the process, and never gives one device to two claims. Two instances of a driver
may share the files, one call at a time.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim
from dra_shared.log import logger

from dra_driverkit.cdi import CdiDevice, ContainerEdits
from dra_driverkit.claims import ClaimRef, DeviceMetadata, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import CheckpointError, PrepareError
from dra_driverkit.preparedclaims import PreparedClaims

_COMMON = "common"
_FILE = "checkpoint.json"

_log = logger(__name__)


@dataclass(frozen=True)
class Ready:
    """A prepared device of a claim.

    Args:
        result: the device as it was allocated.
        edits: the container edits of the device; empty if it needs none.
        metadata: the metadata for containers, if the driver's server writes metadata.
    """

    result: DeviceRequestAllocationResult
    edits: ContainerEdits = ContainerEdits()  # noqa: RUF009 (it is immutable)
    metadata: DeviceMetadata | None = None


# Prepares a claim's devices. Raises PrepareError.
MakeReady = Callable[[ResourceClaim], Iterable[Ready]]
# Undoes the preparation of these devices, none, some or all of which may be prepared. Raises PrepareError.
Undo = Callable[[ClaimRef, Sequence[DeviceRequestAllocationResult]], None]


class _Entry(msgspec.Struct, rename="camel"):
    uid: str
    completed: bool = False
    devices: list[dict[str, Any]] = msgspec.field(default_factory=list)
    name: str = ""
    namespace: str = ""
    results: list[DeviceRequestAllocationResult] = msgspec.field(default_factory=list)


class _File(msgspec.Struct, rename="camel"):
    prepared_claims: list[_Entry] = msgspec.field(default_factory=list)
    checksum: int | None = None


class ClaimStore:
    """The prepared claims of one driver on a node.

    Args:
        kind: the kind of the CDI devices, ``vendor/class``.
        node_name: the name of the node's own pool, which is omitted from the names of CDI devices.
        common: the container edits that all devices share.
        undo: for drivers that change more than CDI files; called when a claim is unprepared, and before a claim is
            prepared again whose preparation failed or was interrupted.
        reached: called at each named point of a preparation; tests let it raise an error.
    """

    def __init__(
        self,
        driver: str,
        directories: Directories,
        kind: str,
        node_name: str = "",
        *,
        common: ContainerEdits = ContainerEdits(),  # noqa: B008 (it is immutable)
        undo: Undo | None = None,
        reached: Callable[[str], None] = lambda point: None,
    ) -> None:
        self._driver = driver
        self._directories = directories
        self._node = node_name
        self._common = common
        self._undo = undo
        self._reached = reached
        self._claims: PreparedClaims[_Entry] = PreparedClaims(
            directories.plugin / _FILE,
            _Format(self._is_whole, keeps=undo is not None),
            directories.cdi,
            kind,
            durable=directories.durable,
            durable_specs=False,
            restores=True,
        )

    def open(self) -> None:
        """Load the state of the previous process, and write the CDI file with the common edits of all devices.

        Raises:
            CheckpointError: the checkpoint is damaged.
            OSError: files cannot be read or written.
        """
        self._directories.make(self._driver)
        if not self._claims.exists:
            self._claims.replace({})
        self._claims.remove_unknown_specs(_COMMON)
        if self._common != ContainerEdits():
            self._claims.write_spec(_COMMON, (CdiDevice(_COMMON, container_edits=self._common),))

    def prepared_claims(self) -> list[str]:
        """Return the UIDs of the prepared claims."""
        return sorted(uid for uid, entry in self._claims.claims().items() if entry.completed)

    # Deprecated: the name in 0.1, kept for one release.
    prepared = prepared_claims

    def prepare(self, claim: ResourceClaim, make_ready: MakeReady) -> list[PreparedDevice]:
        """Prepare the claim's devices. If they are already prepared, return the same answer.

        Raises:
            PrepareError: it failed, or another claim has one of the devices.
            OSError: the checkpoint cannot be written.
        """
        entries = self._claims.claims()
        uid = claim.metadata.uid
        entry = entries.get(uid)
        if entry is not None and entry.completed and self._is_whole(entry):
            return [msgspec.convert(device, PreparedDevice) for device in entry.devices]
        results = own_results(claim, self._driver)
        _check_free(uid, results, entries.values())
        ref = ClaimRef(claim.metadata.namespace, claim.metadata.name, uid)
        if self._undo is not None:
            if entry is not None:
                self._undo(ref, entry.results)
            self._claims.put(uid, _Entry(uid, name=ref.name, namespace=ref.namespace, results=results))
            self._reached("checkpoint-started")
        try:
            ready = list(make_ready(claim))
        except PrepareError as error:
            raise PrepareError(f"prepare failed: {error}") from error
        answers, devices = self._describe(uid, ready)
        if devices:
            # After a crash here, no claim in the checkpoint has this file, so it is removed at the next
            # start.
            self._claims.write_spec(uid, devices)
        self._reached("cdi-written")
        plain = [_plain(answer) for answer in answers]
        self._claims.put(uid, _Entry(uid, True, plain, ref.name, ref.namespace, results))
        self._reached("checkpoint-completed")
        return answers

    def unprepare(self, claim: ClaimRef) -> None:
        """Unprepare the devices. No-op for a claim that was never prepared.

        Raises:
            PrepareError: a device cannot be unprepared.
            OSError: the checkpoint cannot be written.
        """
        entry = self._claims.claims().get(claim.uid)
        if entry is not None and self._undo is not None:
            self._undo(claim, entry.results)
            self._reached("undone")
        self._claims.remove_spec(claim.uid)
        if entry is None:
            return
        self._reached("cdi-removed")
        self._claims.drop(claim.uid)
        self._reached("checkpoint-removed")

    def _describe(
        self, uid: str, ready: Iterable[Ready]
    ) -> tuple[list[PreparedDevice], tuple[CdiDevice, ...]]:
        answers = []
        devices: dict[str, CdiDevice] = {}
        for each in ready:
            result = each.result
            name = self._cdi_name(uid, result)
            if each.edits != ContainerEdits():
                devices[name] = CdiDevice(name, container_edits=each.edits)
            ids = [_COMMON] if self._common != ContainerEdits() else []
            ids += [name] if name in devices else []
            answers.append(
                PreparedDevice(
                    requests=(result.request,),
                    pool=result.pool,
                    device=result.device,
                    cdi_ids=tuple(map(self._claims.cdi_id, ids)),
                    share_id=result.share_id,
                    metadata=each.metadata,
                )
            )
        return answers, tuple(devices.values())

    def _cdi_name(self, uid: str, result: DeviceRequestAllocationResult) -> str:
        """Return a name that is unique within the claim, because devices of two pools may have the same name."""
        pool = [] if result.pool == self._node else [result.pool.replace("/", "_")]
        share = [result.share_id] if result.share_id else []
        return "-".join([uid, *pool, result.device, *share])

    def _is_whole(self, entry: _Entry) -> bool:
        """True if the claim's CDI file exists, or the claim needs none. A power failure may have removed the file."""
        own = [
            id_ for device in entry.devices for id_ in device.get("cdi_ids", ()) if f"={entry.uid}-" in id_
        ]
        if not entry.completed or not own or self._claims.has_spec(entry.uid):
            return True
        _log.warning("the CDI file of a claim is lost, the claim is prepared again", claim=entry.uid)
        return False


class _Format:
    """The form of the checkpoint.

    Args:
        is_whole: returns False if the claim's CDI file is lost, so that the claim counts as unprepared.
        keeps: keep such a claim in the checkpoint, so that its preparation is undone first.
    """

    def __init__(self, is_whole: Callable[[_Entry], bool], *, keeps: bool) -> None:
        self._is_whole = is_whole
        self._keeps = keeps

    def decode(self, data: bytes) -> dict[str, _Entry]:
        try:
            content = msgspec.json.decode(data, type=_File)
        except msgspec.DecodeError as error:
            raise CheckpointError(f"checkpoint is corrupted: {error}") from error
        if content.checksum not in (None, _checksum(content.prepared_claims)):
            raise CheckpointError("checkpoint is corrupted: its checksum is wrong")
        entries = {}
        for entry in content.prepared_claims:
            if self._is_whole(entry):
                entries[entry.uid] = entry
            elif self._keeps:
                entries[entry.uid] = msgspec.structs.replace(entry, completed=False, devices=[])
        return entries

    def encode(self, claims: Mapping[str, _Entry]) -> bytes:
        entries = list(claims.values())
        return msgspec.json.encode(_File(entries, _checksum(entries)))


def _check_free(
    uid: str, results: Sequence[DeviceRequestAllocationResult], entries: Iterable[_Entry]
) -> None:
    """Check that no other claim has these devices, as a last safeguard. Admin access and shares may overlap."""
    wanted = {(r.pool, r.device) for r in results if not r.admin_access and r.share_id is None}
    for other in entries:
        if other.uid == uid or not other.completed:
            continue
        for held in other.results:
            if (held.pool, held.device) in wanted and not held.admin_access and held.share_id is None:
                raise PrepareError(
                    f"requested device {held.device} is already allocated to different claim {other.uid}"
                )


def own_results(claim: ResourceClaim, driver: str) -> list[DeviceRequestAllocationResult]:
    """Return the claim's allocated devices of the driver.

    Raises:
        PrepareError: the claim is not allocated.
    """
    if claim.status.allocation is None:
        raise PrepareError("claim not yet allocated")
    return [result for result in claim.status.allocation.devices.results if result.driver == driver]


def _plain(device: PreparedDevice) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(device)
    if device.metadata is None:
        del plain["metadata"]
    return plain


def _checksum(entries: list[_Entry]) -> int:
    return zlib.crc32(msgspec.json.encode(entries))

"""The claims that a driver has prepared: its checkpoint, and a CDI file for each of them.

This is the part that drivers keep in ``device_state.go``. Preparing is idempotent, survives the end of the
process at any point, and never gives one device to two claims. Two instances of a driver may share the
files, one call at a time.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim
from dra_shared.log import logger

from dra_driverkit.cdi import (
    CdiDevice,
    ContainerEdits,
    Spec,
    SpecError,
    qualified_name,
    read_spec,
    remove_spec,
    remove_unknown_specs,
    transient_name,
    write_spec,
)
from dra_driverkit.claims import ClaimRef, DeviceMetadata, PreparedDevice
from dra_driverkit.directories import Directories
from dra_driverkit.errors import CheckpointError, PrepareError
from dra_driverkit.statefile import StateFile

_COMMON = "common"
_FILE = "checkpoint.json"

_log = logger(__name__)


@dataclass(frozen=True)
class Ready:
    """A prepared device of a claim.

    Args:
        result: the device as it was allocated.
        edits: what a container gets with it; nothing for none.
        metadata: what containers can read of it, if the driver's server writes metadata.
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
        kind: of the CDI devices, ``vendor/class``.
        node_name: the pool of this name is not part of CDI devices' names.
        common: what every container gets with any of the devices.
        undo: for drivers that change more than CDI files; called when a claim is unprepared, and before a claim is
            prepared again whose preparation failed or was cut off.
        reached: called at each named point of a preparation; a test makes it raise.
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
        self._vendor, _, self._class = kind.partition("/")
        self._kind = kind
        self._node = node_name
        self._common = common
        self._undo = undo
        self._reached = reached
        self._file = StateFile(directories.plugin / _FILE, durable=directories.durable)
        self._entries: dict[str, _Entry] = {}

    def open(self) -> None:
        """Load the state of the previous process, and write the CDI file with the common edits of all devices.

        Raises:
            CheckpointError: the checkpoint is damaged.
            OSError: files cannot be read or written.
        """
        self._directories.make(self._driver)
        if self._file.path.exists():
            self._load()
        else:
            self._save()
        known = {*self._entries, _COMMON}
        remove_unknown_specs(self._directories.cdi, self._vendor, self._class, known)
        if self._common != ContainerEdits():
            self._write(_COMMON, (CdiDevice(_COMMON, container_edits=self._common),))

    def prepared(self) -> list[str]:
        """Return the UIDs of the prepared claims."""
        self._load()
        return sorted(uid for uid, entry in self._entries.items() if entry.completed)

    def prepare(self, claim: ResourceClaim, make_ready: MakeReady) -> list[PreparedDevice]:
        """Prepare the claim's devices. If they are already prepared, return the same answer.

        Raises:
            PrepareError: it failed, or another claim has one of the devices.
            OSError: the checkpoint cannot be written.
        """
        self._load()
        uid = claim.metadata.uid
        entry = self._entries.get(uid)
        if entry is not None and entry.completed and self._is_whole(entry):
            return [msgspec.convert(device, PreparedDevice) for device in entry.devices]
        results = own_results(claim, self._driver)
        self._check_free(uid, results)
        ref = ClaimRef(claim.metadata.namespace, claim.metadata.name, uid)
        if self._undo is not None:
            if entry is not None:
                self._undo(ref, entry.results)
            self._put(_Entry(uid, name=ref.name, namespace=ref.namespace, results=results))
            self._reached("checkpoint-started")
        try:
            ready = list(make_ready(claim))
        except PrepareError as error:
            raise PrepareError(f"prepare failed: {error}") from error
        answers, devices = self._describe(uid, ready)
        if devices:
            # After a crash here, no claim in the checkpoint has this file, so it is removed at the next
            # start.
            self._write(uid, devices)
        self._reached("cdi-written")
        plain = [_plain(answer) for answer in answers]
        self._put(_Entry(uid, True, plain, ref.name, ref.namespace, results))
        self._reached("checkpoint-completed")
        return answers

    def unprepare(self, claim: ClaimRef) -> None:
        """Unprepare the devices. No-op for a claim that was never prepared.

        Raises:
            PrepareError: a device cannot be unprepared.
            OSError: the checkpoint cannot be written.
        """
        self._load()
        entry = self._entries.get(claim.uid)
        if entry is not None and self._undo is not None:
            self._undo(claim, entry.results)
            self._reached("undone")
        remove_spec(self._directories.cdi, self._name(claim.uid))
        if entry is None:
            return
        self._reached("cdi-removed")
        del self._entries[claim.uid]
        self._save()
        self._reached("checkpoint-removed")

    def _check_free(self, uid: str, results: Sequence[DeviceRequestAllocationResult]) -> None:
        """Check that no other claim has these devices, as a last safeguard. Admin access and shares may overlap."""
        wanted = {(r.pool, r.device) for r in results if not r.admin_access and r.share_id is None}
        for other in self._entries.values():
            if other.uid == uid or not other.completed:
                continue
            for held in other.results:
                if (held.pool, held.device) in wanted and not held.admin_access and held.share_id is None:
                    raise PrepareError(
                        f"requested device {held.device} is already allocated to different claim {other.uid}"
                    )

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
                    cdi_ids=tuple(qualified_name(self._vendor, self._class, i) for i in ids),
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
        """True if the claim's CDI file, if it needs one, exists. A power failure may have removed it."""
        own = [
            id_ for device in entry.devices for id_ in device.get("cdi_ids", ()) if f"={entry.uid}-" in id_
        ]
        if not entry.completed or not own:
            return True
        try:
            read_spec(self._directories.cdi / f"{self._name(entry.uid)}.yaml")
        except (OSError, SpecError):
            _log.warning("the CDI file of a claim is lost, the claim is prepared again", claim=entry.uid)
            return False
        return True

    def _name(self, uid: str) -> str:
        return transient_name(self._vendor, self._class, uid)

    def _write(self, name: str, devices: tuple[CdiDevice, ...]) -> None:
        try:
            write_spec(self._directories.cdi, self._name(name), Spec(self._kind, devices), durable=False)
        except (OSError, ValueError) as error:
            raise PrepareError(f"unable to create CDI spec file for claim: {error}") from error

    def _put(self, entry: _Entry) -> None:
        before = self._entries.get(entry.uid)
        self._entries[entry.uid] = entry
        try:
            self._save()
        except OSError:
            if before is None:
                del self._entries[entry.uid]
            else:
                self._entries[entry.uid] = before
            raise

    def _load(self) -> None:
        """Read the checkpoint if another instance wrote it, or if it was not read yet."""
        if not self._file.changed():
            return
        try:
            content = msgspec.json.decode(self._file.read(), type=_File)
        except FileNotFoundError:
            # Someone deleted the file. The state of this process is still correct.
            self._save()
            return
        except msgspec.DecodeError as error:
            raise CheckpointError(f"{self._file.path}: checkpoint is corrupted: {error}") from error
        if content.checksum not in (None, _checksum(content.prepared_claims)):
            raise CheckpointError(f"{self._file.path}: checkpoint is corrupted: its checksum is wrong")
        self._entries = {}
        for entry in content.prepared_claims:
            if self._is_whole(entry):
                self._entries[entry.uid] = entry
            elif self._undo is not None:
                self._entries[entry.uid] = msgspec.structs.replace(entry, completed=False, devices=[])

    def _save(self) -> None:
        entries = list(self._entries.values())
        self._file.write(msgspec.json.encode(_File(entries, _checksum(entries))))


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

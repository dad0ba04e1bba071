"""The DRA manager's checkpoint in the kubelet's own format (pkg/kubelet/cm/dra/state).

``{"Data": "<JSON of a DRACheckpoint>", "Checksum": <CRC-32 of Data>}``. Go's zero values are written as in
Go: a nil list is ``null``.
"""

import asyncio
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from dra_driverkit.files import write_atomically
from msgspec import field

STATE_FILE = "dra_manager_state"


class CheckpointError(Exception):
    """The checkpoint cannot be read or written. It is never replaced by an empty one, because devices would leak."""


class CheckpointDevice(msgspec.Struct, frozen=True, rename="pascal"):
    """One prepared device: the driver's answer to NodePrepareResources."""

    pool_name: str = ""
    device_name: str = ""
    share_id: str | None = field(default=None, name="ShareID")
    request_names: tuple[str, ...] | None = None
    cdi_device_ids: tuple[str, ...] | None = field(default=None, name="CDIDeviceIDs")


class DriverState(msgspec.Struct, rename="pascal"):
    """The devices of one driver in a claim, or None until it has prepared them.

    ``skip_node_operations`` are the operations for which the driver is not called (1.37). Without any, the
    file has the older format.
    """

    devices: tuple[CheckpointDevice, ...] | None = None
    skip_node_operations: tuple[str, ...] | msgspec.UnsetType = field(
        default=msgspec.UNSET, name="skipNodeOperations"
    )


class ClaimState(msgspec.Struct, rename="pascal"):
    """A claim that a pod on this node uses, or is about to use."""

    claim_uid: str = field(default="", name="ClaimUID")
    claim_name: str = ""
    namespace: str = ""
    pod_uids: dict[str, dict[str, str]] = field(default_factory=dict, name="PodUIDs")
    driver_state: dict[str, DriverState] | None = None


class _Checkpoint(msgspec.Struct):
    kind: str = "DRACheckpoint"
    api_version: str = field(default="checkpoint.dra.kubelet.k8s.io/v1", name="apiVersion")
    claims: tuple[ClaimState, ...] | None = field(default=None, name="ClaimInfoStateList")


class _File(msgspec.Struct):
    data: str = field(default="", name="Data")
    checksum: int = field(default=0, name="Checksum")


_encoder = msgspec.json.Encoder(order="deterministic")
_checkpoints = msgspec.json.Decoder(_Checkpoint)
_files = msgspec.json.Decoder(_File)
_HTML = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def encode(claims: Sequence[ClaimState] | None) -> bytes:
    """Return the content of a checkpoint file. None stands for Go's nil list."""
    checkpoint = _Checkpoint(claims=None if claims is None else tuple(claims))
    data = _go_json(checkpoint).decode().translate(_HTML)
    return _encoder.encode(_File(data=data, checksum=zlib.crc32(data.encode())))


def decode(content: bytes) -> tuple[ClaimState, ...]:
    """Return the claims in a checkpoint file.

    Raises:
        CheckpointError: it is not JSON, or the checksum is wrong.
    """
    try:
        file = _files.decode(content)
        if zlib.crc32(file.data.encode()) != file.checksum:
            raise CheckpointError("checkpoint is corrupted")
        return _checkpoints.decode(file.data).claims or ()
    except msgspec.DecodeError as error:
        truncated = "truncated" in str(error)
        raise CheckpointError("unexpected end of JSON input" if truncated else str(error)) from error


def _go_json(checkpoint: _Checkpoint) -> bytes:
    # encoding/json keeps the order of struct fields and sorts the keys of maps.
    for claim in checkpoint.claims or ():
        claim.pod_uids = dict(sorted(claim.pod_uids.items()))
        if claim.driver_state is not None:
            claim.driver_state = dict(sorted(claim.driver_state.items()))
    return msgspec.json.encode(checkpoint)


class CheckpointFile:
    """The checkpoint on disk. Concurrent stores share a write, and an older state never replaces a newer one."""

    def __init__(self, directory: Path, name: str = STATE_FILE, *, durable: bool = True) -> None:
        if not name:
            raise CheckpointError("received empty string instead of checkpointName")
        if not directory.is_absolute():
            raise CheckpointError(f"checkpoint directory {str(directory)!r} is no absolute path")
        self._path = str(directory / name)
        self._durable = durable
        self._wanted = 0
        self._written = 0
        self._turn = asyncio.Lock()
        self._disk = threading.Lock()

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self._path)

    def load_or_create(self) -> tuple[ClaimState, ...]:
        """Return the claims of the last store. Create the file if it does not exist.

        Raises:
            CheckpointError: the file is corrupt, or cannot be read or created.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                content = self.path.read_bytes()
            except FileNotFoundError:
                content = b""
            if not content:
                write_atomically(self.path, encode(None), durable=self._durable)
                return ()
            return decode(content)
        except (OSError, CheckpointError) as error:
            raise CheckpointError(f"failed to get checkpoint {self.path.name}: {error}") from error

    async def store(self, state: Callable[[], Sequence[ClaimState]]) -> None:
        """Return once the current state, or a newer one, is on disk.

        Raises:
            CheckpointError: it could not be written.
        """
        self._wanted += 1
        mine = self._wanted
        async with self._turn:
            if self._written >= mine:
                return
            version, content = self._wanted, encode(state())
            try:
                if self._durable:
                    await asyncio.to_thread(self._write, version, content)
                else:
                    self._write(version, content)
            except OSError as error:
                raise CheckpointError(f"could not save checkpoint {self.path.name}: {error}") from error

    def _write(self, version: int, content: bytes) -> None:
        # The thread of a cancelled caller keeps running. The lock and the version keep the order.
        with self._disk:
            if version > self._written:
                write_atomically(self.path, content, durable=self._durable)
                self._written = version

"""The driver's checkpoint: the claims that are prepared, or whose preparation was interrupted.

The file has the format of the NVIDIA driver, with its versions 1 and 2 side by side, so that either driver
can take over from the other.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from dra_driverkit.errors import CheckpointError
from dra_driverkit.statefile import StateFile

from dra_node_agent.drivers.gojson import Checksum, checksum, dumps

STARTED = "PrepareStarted"
COMPLETED = "PrepareCompleted"
# Only for the compute domain driver: the claim was unprepared before it was prepared.
ABORTED = "PrepareAborted"
FILE_NAME = "checkpoint.json"


class PreparedClaim(msgspec.Struct, frozen=True):
    """A claim in the checkpoint.

    Args:
        status: the claim's status when it was prepared, as plain data in Go's field order.
        groups: prepared devices by the config they share, in the file's form.
        aborted_at: when its preparation was given up, as Go writes a time.
    """

    state: str
    status: dict[str, Any]
    groups: list[dict[str, Any]]
    name: str = ""
    namespace: str = ""
    aborted_at: str = ""

    def results(self, driver: str) -> list[dict[str, Any]]:
        """Return the claim's allocation results of ``driver``."""
        allocation = self.status.get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or []
        return [result for result in results if result.get("driver") == driver]

    def devices(self) -> list[dict[str, Any]]:
        """Return the prepared devices, each as ``{"gpu": …}``, ``{"mig": …}`` or ``{"vfio": …}``."""
        return [device for group in self.groups for device in group.get("devices") or []]


class Checkpoint:
    """The file. It is read and written as a whole for every change. With ``durable``, it survives a power failure."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._file = StateFile(path, durable=durable)
        self._claims: dict[str, PreparedClaim] | None = None
        self._boot_id = ""
        self._first_sum, self._second_sum = Checksum(), Checksum()

    def open(self, boot_id: str) -> bool:
        """Load the state of the previous process, or discard it if the machine has rebooted. True if it was kept.

        Raises:
            CheckpointError: the file is damaged.
        """
        if self._file.path.exists():
            claims = self.claims()
            if self._boot_id in ("", boot_id):
                if self._boot_id == "":
                    self._boot_id = boot_id
                    self._write(claims)
                return True
        self._boot_id = boot_id
        self._write({})
        return False

    def claims(self) -> dict[str, PreparedClaim]:
        """Return all claims by UID. Raises CheckpointError."""
        if self._claims is None or self._file.changed():
            self._claims = self._read()
        return dict(self._claims)

    def update(self, change: Callable[[dict[str, PreparedClaim]], None]) -> None:
        """Apply the change to the claims and write the file."""
        claims = self.claims()
        change(claims)
        self._write(claims)

    def _read(self) -> dict[str, PreparedClaim]:
        data = self._file.read()
        try:
            content = msgspec.json.decode(data)
            second, first = content.get("v2"), content.get("v1")
            if checksum(dumps(_first_body(first))) != content["checksum"]:
                raise CheckpointError(f"{self._file.path}: checkpoint is corrupted")
            if second is not None:
                if checksum(dumps({**second, "checksum": 0})) != second["checksum"]:
                    raise CheckpointError(f"{self._file.path}: checkpoint is corrupted")
                self._boot_id = second.get("nodeBootID", "")
            source = second if second is not None else first or {}
            return {
                uid: PreparedClaim(
                    state=claim.get("checkpointState", COMPLETED),
                    status=claim.get("status") or {},
                    groups=claim.get("preparedDevices") or [],
                    name=claim.get("name", ""),
                    namespace=claim.get("namespace", ""),
                    aborted_at=claim.get("abortedAt") or "",
                )
                for uid, claim in (source.get("preparedClaims") or {}).items()
            }
        except (msgspec.DecodeError, KeyError, AttributeError, TypeError) as error:
            raise CheckpointError(f"{self._file.path}: checkpoint is corrupted: {error!r}") from error

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        ordered = sorted(claims.items())
        first = _member([(uid, _first_claim(claim)) for uid, claim in ordered if claim.state == COMPLETED])
        second = _member([(uid, _second_claim(claim)) for uid, claim in ordered])
        if self._boot_id:
            second.append((b"," if second else b"") + b'"nodeBootID":' + dumps(self._boot_id))
        if second:
            second.insert(0, b",")
        sums = (
            self._first_sum.of([b'{"checksum":0,"v1":{', *first, b"}}"]),
            self._second_sum.of([b'{"checksum":0', *second, b"}"]),
        )
        text = b'{"checksum":%d,"v1":{%b},"v2":{"checksum":%d%b}}'
        self._file.write(text % (sums[0], b"".join(first), sums[1], b"".join(second)))
        self._claims = dict(ordered)


def _member(claims: list[tuple[str, dict[str, Any]]]) -> list[bytes]:
    """Return the claims in the form of one version, one part for each. Empty without claims."""
    if not claims:
        return []
    entries = [b"," + dumps(uid) + b":" + dumps(claim) for uid, claim in claims]
    return [b'"preparedClaims":{' + entries[0][1:], *entries[1:], b"}"]


def _first_body(first: dict[str, Any] | None) -> dict[str, Any]:
    return {"checksum": 0} if first is None else {"checksum": 0, "v1": first}


def _first_claim(claim: PreparedClaim) -> dict[str, Any]:
    content: dict[str, Any] = {"status": claim.status}
    if claim.groups:
        content["preparedDevices"] = claim.groups
    return content


def _second_claim(claim: PreparedClaim) -> dict[str, Any]:
    content = {"checkpointState": claim.state, **_first_claim(claim)}
    if claim.name:
        content["name"] = claim.name
    if claim.namespace:
        content["namespace"] = claim.namespace
    if claim.aborted_at:
        content["abortedAt"] = claim.aborted_at
    return content

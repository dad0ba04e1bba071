"""The driver's checkpoint: the claims that are prepared, or whose preparation was interrupted.

The file has the format of the NVIDIA driver, with its versions 1 and 2 side by side, so that either driver
can take over from the other.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from dra_driverkit.errors import CheckpointError
from dra_driverkit.preparedclaims import PreparedClaims

from dra_node_agent.drivers.gojson import Checksum, checksum, dumps

STARTED = "PrepareStarted"
COMPLETED = "PrepareCompleted"
# Only used by the compute domain driver: the claim was unprepared before its preparation finished.
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


class Checkpoint(PreparedClaims[PreparedClaim]):
    """The prepared claims of a driver of NVIDIA."""

    def __init__(self, path: Path, cdi: Path, kind: str, *, durable: bool = True) -> None:
        self._boot = _Format()
        super().__init__(path, self._boot, cdi, kind, durable=durable, durable_specs=durable)

    def open(self, boot_id: str) -> bool:
        """Load the state of the previous process, or discard it if the machine has rebooted. True if it was kept.

        Raises:
            CheckpointError: the file is damaged.
        """
        if self.exists:
            claims = self.claims()
            if self._boot.id in ("", boot_id):
                if self._boot.id == "":
                    self._boot.id = boot_id
                    self.replace(claims)
                return True
        self._boot.id = boot_id
        self.replace({})
        return False

    def replace(self, claims: Mapping[str, PreparedClaim]) -> None:
        """Write these claims, in the order of their UIDs."""
        super().replace(dict(sorted(claims.items())))


class _Format:
    """The form of the file. ``id`` is the boot id of the machine when the file was written; empty in older files."""

    def __init__(self) -> None:
        self.id = ""
        self._first_sum, self._second_sum = Checksum(), Checksum()

    def decode(self, data: bytes) -> dict[str, PreparedClaim]:
        try:
            content = msgspec.json.decode(data)
            second, first = content.get("v2"), content.get("v1")
            if checksum(dumps(_first_body(first))) != content["checksum"]:
                raise CheckpointError("checkpoint is corrupted")
            if second is not None:
                if checksum(dumps({**second, "checksum": 0})) != second["checksum"]:
                    raise CheckpointError("checkpoint is corrupted")
                self.id = second.get("nodeBootID", "")
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
            raise CheckpointError(f"checkpoint is corrupted: {error!r}") from error

    def encode(self, claims: Mapping[str, PreparedClaim]) -> bytes:
        completed = [(uid, claim) for uid, claim in claims.items() if claim.state == COMPLETED]
        first = _member([(uid, _first_claim(claim)) for uid, claim in completed])
        second = _member([(uid, _second_claim(claim)) for uid, claim in claims.items()])
        if self.id:
            second.append((b"," if second else b"") + b'"nodeBootID":' + dumps(self.id))
        if second:
            second.insert(0, b",")
        sums = (
            self._first_sum.of([b'{"checksum":0,"v1":{', *first, b"}}"]),
            self._second_sum.of([b'{"checksum":0', *second, b"}"]),
        )
        text = b'{"checksum":%d,"v1":{%b},"v2":{"checksum":%d%b}}'
        return text % (sums[0], b"".join(first), sums[1], b"".join(second))


def held_devices(
    claims: Mapping[str, PreparedClaim], driver: str, uid: str
) -> Iterator[tuple[str, PreparedClaim, set[str]]]:
    """Yield every prepared claim except ``uid``, with the devices that it holds without admin access."""
    for other_uid, other in sorted(claims.items()):
        if other_uid != uid and other.state == COMPLETED:
            names = {r["device"] for r in other.results(driver) if not r.get("adminAccess")}
            yield other_uid, other, names


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

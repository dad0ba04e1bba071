"""The prepared claims that hold a device. With consumable shares there may be several."""

from collections.abc import Mapping
from typing import Any

from dra_node_agent.drivers.nvidia.checkpoint import COMPLETED, PreparedClaim
from dra_node_agent.drivers.nvidia.devices import MigLive
from dra_node_agent.drivers.nvidia.prepared import mig_live

Claims = Mapping[str, PreparedClaim]


def holds_gpu(claims: Claims, except_for: str, uuid: str) -> bool:
    """True if a prepared claim other than ``except_for`` has the whole GPU."""
    entries = _entries(claims, except_for)
    return any(entry.get("gpu") and entry["gpu"]["info"]["uuid"] == uuid for entry in entries)


def holds_mig(claims: Claims, except_for: str, device: str, live: MigLive) -> bool:
    """True if a prepared claim other than ``except_for`` has the MIG device."""
    for entry in _entries(claims, except_for):
        other = mig_live(entry)
        if other is not None and device == entry["mig"]["device"]["DeviceName"]:
            return True
        if other is not None and other.uuid == live.uuid:
            return True
    return False


def find_created_mig(claims: Claims, device: str) -> MigLive | None:
    """Return the existing MIG device with that name that a prepared claim has, or None."""
    for entry in _entries(claims, ""):
        if entry.get("mig") and entry["mig"]["device"]["DeviceName"] == device:
            return mig_live(entry)
    return None


def _entries(claims: Claims, except_for: str) -> list[dict[str, Any]]:
    return [
        entry
        for uid, claim in claims.items()
        if uid != except_for and claim.state == COMPLETED
        for entry in claim.devices()
    ]

"""The traces of a fault on a node's disk, and their removal by the fault itself or by the next agent.

The next agent removes them if this one is killed. The note about a fault is on the disk before the fault
begins.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE, CheckpointError, decode, encode

_CHECKPOINT, _DEVICES = "fault-checkpoint", "fault-devices"


class Remains:
    """The remains of one node, with its files in ``home`` and its kubelet's in ``root``."""

    def __init__(self, home: Path, root: Path) -> None:
        self._file = root / STATE_FILE
        self._checkpoint = home / _CHECKPOINT
        self._devices = home / _DEVICES

    def note_checkpoint(self) -> None:
        """Save a copy of the kubelet's checkpoint before it is lost or damaged."""
        # Write atomically. Do not use the helper, which simulates a full disk of the node.
        made = self._checkpoint.with_suffix(".tmp")
        made.write_bytes(self._file.read_bytes())
        made.replace(self._checkpoint)

    def restore_checkpoint(self) -> bool:
        """Restore the saved checkpoint, merged with later claims. Return True if there was one."""
        try:
            before = self._checkpoint.read_bytes()
        except FileNotFoundError:
            return False
        self._file.write_bytes(_merge_checkpoints(before, self._file))
        self._checkpoint.unlink()
        return True

    @contextlib.contextmanager
    def devices(self) -> Iterator[None]:
        """Record on the disk, inside the context, that drivers have taints because of a fault of the node's devices."""
        self._devices.touch()
        yield
        self._devices.unlink(missing_ok=True)

    @property
    def has_devices(self) -> bool:
        """True if an agent was killed before its drivers removed the taints of a fault."""
        return self._devices.exists()


def _merge_checkpoints(before: bytes, file: Path) -> bytes:
    """Return a checkpoint with the claims of both. For common claims the file wins, which may be lost or damaged."""
    try:
        later = decode(file.read_bytes())
    except (FileNotFoundError, CheckpointError):
        return before
    known = {claim.claim_uid for claim in later}
    return encode([*later, *(claim for claim in decode(before) if claim.claim_uid not in known)])

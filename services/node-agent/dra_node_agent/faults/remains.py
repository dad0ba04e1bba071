"""What a fault leaves on a node's disk, and its end: the fault's own, or the next agent's where this one is killed.

A note of it is on the disk before the fault begins.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE, CheckpointError, decode, encode

_CHECKPOINT, _DEVICES = "fault-checkpoint", "fault-devices"


class Remains:
    """Those of one node, whose files are in ``home`` and whose kubelet's are in ``root``."""

    def __init__(self, home: Path, root: Path) -> None:
        self._file = root / STATE_FILE
        self._checkpoint = home / _CHECKPOINT
        self._devices = home / _DEVICES

    def note_checkpoint(self) -> None:
        """Keep the kubelet's checkpoint as it is, before it is lost or damaged."""
        # As a whole or not at all; the node's disk may be full on demand, and this is not the node's.
        made = self._checkpoint.with_suffix(".tmp")
        made.write_bytes(self._file.read_bytes())
        made.replace(self._checkpoint)

    def restore_checkpoint(self) -> bool:
        """Put back the checkpoint that was noted, with what a kubelet without it knows since; whether there was one."""
        try:
            before = self._checkpoint.read_bytes()
        except FileNotFoundError:
            return False
        self._file.write_bytes(_merged(before, self._file))
        self._checkpoint.unlink()
        return True

    @contextlib.contextmanager
    def devices(self) -> Iterator[None]:
        """Within it drivers hold something against the node's devices; it ends when they have forgotten that."""
        self._devices.touch()
        yield
        self._devices.unlink(missing_ok=True)

    @property
    def has_devices(self) -> bool:
        """Whether an agent was killed before its drivers had forgotten."""
        return self._devices.exists()


def _merged(before: bytes, file: Path) -> bytes:
    """A checkpoint with the claims of two; those that both have are as in the file, which may be lost or damaged."""
    try:
        later = decode(file.read_bytes())
    except (FileNotFoundError, CheckpointError):
        return before
    known = {claim.claim_uid for claim in later}
    return encode([*later, *(claim for claim in decode(before) if claim.claim_uid not in known)])

"""Files that faults leave on a node's disk."""

from pathlib import Path

import pytest
from dra_node_agent.faults.remains import Remains
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE, ClaimState, decode, encode


def _uids(folder: Path) -> list[str]:
    return [claim.claim_uid for claim in decode((folder / STATE_FILE).read_bytes())]


@pytest.mark.parametrize(
    ("meanwhile", "found"),
    [
        (None, ["a", "b"]),
        (b"{", ["a", "b"]),
        (encode([ClaimState(claim_uid="b"), ClaimState(claim_uid="c")]), ["b", "c", "a"]),
    ],
    ids=["lost", "damaged", "new"],
)
def test_a_checkpoint_that_a_fault_removed_is_restored_once(
    tmp_path: Path, meanwhile: bytes | None, found: list[str]
) -> None:
    file = tmp_path / STATE_FILE
    file.write_bytes(encode([ClaimState(claim_uid="a"), ClaimState(claim_uid="b")]))
    Remains(tmp_path, tmp_path).note_checkpoint()
    if meanwhile is None:
        file.unlink()
    else:
        file.write_bytes(meanwhile)
    # Restore the checkpoint as after a restart: this object did not record the fault itself.
    after = Remains(tmp_path, tmp_path)
    assert after.restore_checkpoint()
    assert _uids(tmp_path) == found
    assert not after.restore_checkpoint()


def test_device_records_are_removed_once_the_restore_succeeded(tmp_path: Path) -> None:
    remains = Remains(tmp_path, tmp_path)
    with pytest.raises(OSError, match="killed"), remains.devices():
        raise OSError("killed")
    assert remains.has_devices
    with Remains(tmp_path, tmp_path).devices():
        pass
    assert not remains.has_devices

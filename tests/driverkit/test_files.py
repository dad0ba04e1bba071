"""Files on a full disk."""

import os
from pathlib import Path

import pytest
from dra_driverkit.files import write_atomically


def test_a_partial_write_to_a_full_disk_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    write_atomically(path, b"old")
    write, room = os.write, [3]

    def nearly_full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        room[0] -= 3
        return write(descriptor, data[:3])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", nearly_full)
        with pytest.raises(OSError, match="No space"):
            write_atomically(path, b"new content")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state"]


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:2]))
    write_atomically(tmp_path / "state", b"content")
    assert (tmp_path / "state").read_bytes() == b"content"

"""Test that only one process at a time uses a directory."""

import os
from pathlib import Path

import pytest
from dra_shared.lockfile import DirectoryInUse, DirectoryLock


def test_a_directory_has_one_holder_at_a_time(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    lock = DirectoryLock(directory, "API server")
    with pytest.raises(DirectoryInUse) as caught:
        DirectoryLock(directory, "API server")
    assert str(caught.value) == f"{directory} is in use by another API server (pid {os.getpid()})"
    lock.release()
    DirectoryLock(directory, "API server").release()


def test_a_directory_under_another_name_has_the_same_lock(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path / "data", "node agent")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    with pytest.raises(DirectoryInUse):
        DirectoryLock(tmp_path / "link", "node agent")
    lock.release()

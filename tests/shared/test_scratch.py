"""Test where folders are created that are deleted with their process."""

import shutil
from pathlib import Path

import pytest
from dra_shared import files


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "_MEMORY", tmp_path)
    return tmp_path


def _free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, size))


def test_scratch_folders_are_in_shared_memory_if_it_has_enough_space(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _free(monkeypatch, 1 << 30)
    assert files.scratch_folder() == memory


def test_scratch_folders_are_not_in_shared_memory_if_it_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    _free(monkeypatch, 64 << 20)
    assert files.scratch_folder() == Path("/tmp")


def test_scratch_folders_are_in_tmp_if_there_is_no_shared_memory(memory: Path) -> None:
    memory.rmdir()
    assert files.scratch_folder() == Path("/tmp")

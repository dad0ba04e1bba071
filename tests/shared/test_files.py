import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_shared.files import private_file, private_folder


@pytest.fixture(autouse=True)
def _careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_created_files_are_private(tmp_path: Path) -> None:
    private_folder(tmp_path / "a" / "b")
    private_file(tmp_path / "a" / "b" / "file")
    assert [_mode(path) for path in sorted((tmp_path / "a").rglob("*"))] == [0o700, 0o600]
    assert _mode(tmp_path / "a") == 0o700


def test_open_files_become_private_and_keep_their_content(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o777)
    (folder / "file").write_text("kept")
    above = _mode(tmp_path)
    private_folder(folder)
    private_file(folder / "file")
    assert (_mode(folder), _mode(folder / "file")) == (0o700, 0o600)
    assert (folder / "file").read_text() == "kept"
    assert _mode(tmp_path) == above

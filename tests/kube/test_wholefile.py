import os
from pathlib import Path

import pytest
from dra_kube.wholefile import whole_file
from dra_shared.errors import UserError


def test_an_unfinished_file_does_not_replace_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("before")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half", "no bytes"])  # type: ignore[list-item]  # wrong on purpose
    assert path.read_text() == "before"
    with whole_file(path) as file:
        file.write(b"whole")
    assert path.read_text() == "whole"
    assert os.listdir(tmp_path) == ["f"]


def test_output_to_a_pipe_is_written_into_the_pipe_instead_of_replacing_it(tmp_path: Path) -> None:
    """Once, `bundle -o /dev/stdout` replaced the device file with an archive."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with whole_file(path) as file:
            file.write(b"x")
        assert os.read(end, 9) == b"x"
    finally:
        os.close(end)
    assert path.is_fifo()


def test_writing_through_a_symbolic_link_keeps_the_link(tmp_path: Path) -> None:
    path, target = tmp_path / "link", tmp_path / "target"
    path.symlink_to(target)
    with whole_file(path) as file:
        file.write(b"x")
    assert path.is_symlink()
    assert target.read_text() == "x"


@pytest.mark.parametrize(
    ("name", "why"),
    [("", "it is a folder"), ("none/f", "No such file or directory"), ("file/f", "Not a directory")],
)
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"^cannot write .*: {why}$"), whole_file(tmp_path / name):
        pytest.fail("nothing is asked for what cannot be written")

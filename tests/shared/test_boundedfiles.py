"""Test reading files that a user names."""

import io
import os
from pathlib import Path

import pytest
from dra_shared import boundedfiles
from dra_shared.boundedfiles import Refused, TooLarge, read_file, read_standard_input, read_text


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_device_files_are_rejected(device: str) -> None:
    with pytest.raises(Refused, match="it is a device, not a file"):
        read_file(device)


def test_a_folder_in_place_of_a_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="it is a folder"):
        read_file(tmp_path)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 2048)
    assert len(read_file(file, 2048)) == 2048
    with pytest.raises(TooLarge, match="it is larger than 1 KiB"):
        read_file(file, 1024)


def test_a_pipe_without_a_writer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundedfiles, "_NO_WRITER_SECONDS", 0)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="no program writes to this pipe"):
        read_file(tmp_path / "pipe")


def test_a_pipe_whose_writer_is_silent_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundedfiles, "_NO_WRITER_SECONDS", 0)
    monkeypatch.setattr(boundedfiles, "_SILENCE_SECONDS", 0)
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(Refused, match="nothing was written to it for 0 seconds"):
            read_file(tmp_path / "pipe")
    finally:
        os.close(writer)


def test_a_pipe_is_read_to_its_end() -> None:
    source, target = os.pipe()
    os.write(target, "hällo".encode())
    os.close(target)
    try:
        assert read_text(f"/dev/fd/{source}") == "hällo"
    finally:
        os.close(source)


def test_standard_input_is_read_from_a_pipe_or_a_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("text"))
    assert read_standard_input() == b"text"
    source, target = os.pipe()
    os.write(target, b"piped")
    os.close(target)
    with os.fdopen(source) as piped:
        monkeypatch.setattr("sys.stdin", piped)
        assert read_standard_input() == b"piped"

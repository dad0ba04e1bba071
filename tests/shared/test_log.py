"""Test that logging never raises, whatever happens to the disk and whatever the values are."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import structlog
from dra_shared import log


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text")


def lines(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_logging_to_a_full_disk_writes_nothing_and_raises_no_exception() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        log.configure("test", descriptor=descriptor)
        log.logger("module").error("lost")
    finally:
        os.close(descriptor)
    log.logger("module").error("the file is closed too")


def test_lost_log_lines_are_counted_and_no_line_is_appended_to_an_incomplete_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    log.configure("test", descriptor=descriptor)
    made = log.logger("module")
    write, room = os.write, [10]

    def nearly_full(target: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        room[0] = 0
        return write(target, data[:10])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", nearly_full)
        made.info("torn")
        made.info("lost")
    made.info("written")
    os.close(descriptor)
    torn, lost, written = path.read_bytes().splitlines()
    assert len(torn) == 10
    assert orjson.loads(lost)["lines"] == 2
    assert orjson.loads(written)["event"] == "written"


def test_every_value_can_be_logged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    log.configure("test", descriptor=descriptor)
    log.logger("module").info("odd", file="\udcff", number=2**70, thing=Unprintable(), keys={1: 2})
    os.close(descriptor)
    (line,) = lines(path)
    assert line["event"] == "odd"
    assert line["number"] == str(2**70)
    assert line["thing"] == "<Unprintable: ValueError>"


def test_captured_logs_include_lines_below_the_log_level(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    log.configure("test", "warning", descriptor, final=False)
    logger = log.logger("test")
    logger.info("left out")
    logger.warning("written")
    with structlog.testing.capture_logs() as captured:
        logger.info("captured")
    os.close(descriptor)
    assert [line["event"] for line in lines(tmp_path / "log")] == ["written"]
    assert [line["event"] for line in captured] == ["captured"]


def test_log_lines_of_libraries_have_the_same_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    log.configure("test", descriptor=descriptor)
    library = logging.getLogger("library")
    # Otherwise, handlers of the process that runs the test would get the lines.
    monkeypatch.setattr(library, "propagate", False)
    library.info("not shown by default")
    library.warning("error ignored terminating %r", "pipeline")
    try:
        raise ValueError("the cause")
    except ValueError:
        library.critical("it ends", exc_info=True)
    os.close(descriptor)
    warning, error = lines(tmp_path / "log")
    assert (warning["module"], warning["level"]) == ("library", "warning")
    assert warning["event"] == "error ignored terminating 'pipeline'"
    assert (error["level"], error["event"]) == ("error", "it ends")
    assert "ValueError: the cause" in str(error["exception"])

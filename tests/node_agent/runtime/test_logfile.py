"""A container's log on a full disk, and after a crash."""

from datetime import UTC, datetime
from pathlib import Path

from dra_node_agent.runtime.base import LogOptions
from dra_node_agent.runtime.logfile import LogFile


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


async def content(log: LogFile) -> bytes:
    return b"".join([piece async for piece in log.read(LogOptions())])


async def test_output_is_dropped_on_a_full_disk(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "c.log", now)
    log.write("stdout", "one\n")
    log.path = Path("/dev/full")
    log.write("stdout", "two\n")
    log.path = tmp_path / "c.log"
    log.write("stdout", "three\n")
    assert await content(log) == b"one\nthree\n"


async def test_a_line_that_was_truncated_by_a_crash_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "c.log"
    path.write_bytes(b"2026-01-01T00:00:00.000000000Z stdout F whole\n2026-01-01T00:0")
    log = LogFile(path, now)
    assert await content(log) == b"whole\n"
    assert log.text_length() == len("whole\n")

"""Read files that a user names, with bounded time and memory.

A path may name a device without end, a pipe without a writer, or a file that is too large for memory. Each of
these raises an OSError whose ``strerror`` says what is wrong.
"""

import errno
import io
import os
import select
import stat
import sys
from pathlib import Path
from typing import IO, Any, cast

MOST = 256 << 20
"""The largest number of bytes that is read into memory."""

_PART = 1 << 20
_NO_WRITER_SECONDS = 10
_SILENCE_SECONDS = 300


class Refused(OSError):
    """dralab refuses to read the file. The reason is in ``strerror``."""

    def __str__(self) -> str:
        return str(self.strerror)


class TooLarge(Refused):
    """The file is larger than the limit."""

    def __init__(self, most: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {size_text(most)}")


def size_text(size: int) -> str:
    """Return a number of bytes in the largest unit that divides it, such as ``256 MiB``."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} bytes"


def open_file(path: str | Path) -> IO[bytes]:
    """Open a regular file or a pipe.

    Raises:
        OSError: the file cannot be opened, or is a device.
    """
    # Without O_NONBLOCK, opening a pipe blocks until it has a writer. Regular files ignore the flag.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return _open_descriptor(descriptor, closes=True)
    except BaseException:
        os.close(descriptor)
        raise


def open_standard_input() -> IO[bytes]:
    """Open standard input, which may also be a terminal.

    Raises:
        OSError: standard input is a device.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):
        # The caller replaced sys.stdin by an object without a descriptor.
        buffer = getattr(sys.stdin, "buffer", None)
        return cast("IO[bytes]", buffer) if buffer is not None else io.BytesIO(sys.stdin.read().encode())
    return _open_descriptor(descriptor, closes=False)


def _open_descriptor(descriptor: int, *, closes: bool) -> IO[bytes]:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise Refused(errno.EISDIR, "it is a folder")
    if stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and os.isatty(descriptor)):
        return os.fdopen(descriptor, "rb", closefd=closes)
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return io.BufferedReader(_Pipe(descriptor, closes), _PART)
    raise Refused(errno.EINVAL, "it is a device, not a file")


class _Pipe(io.RawIOBase):
    """A pipe. Reads fail if no data arrives for a long time."""

    def __init__(self, descriptor: int, closes: bool) -> None:
        super().__init__()
        self._descriptor, self._closes = descriptor, closes
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN | select.POLLHUP)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def readinto(self, buffer: Any) -> int:
        if not self._poll.poll(_NO_WRITER_SECONDS * 1000) and not os.get_blocking(self._descriptor):
            # Neither data nor the end arrived: the writer is slow, or there is none.
            try:
                if not (count := os.readv(self._descriptor, [buffer])):
                    raise Refused(errno.EPIPE, "no program writes to this pipe")
            except BlockingIOError:
                pass
            else:
                return count
        if not self._poll.poll(_SILENCE_SECONDS * 1000):
            raise Refused(errno.ETIMEDOUT, f"nothing was written to it for {_SILENCE_SECONDS} seconds")
        return os.readv(self._descriptor, [buffer])

    def close(self) -> None:
        if not self.closed and self._closes:
            os.close(self._descriptor)
        super().close()


def read_all(file: IO[bytes], most: int = MOST) -> bytes:
    """Read the rest of a file.

    Raises:
        TooLarge: it has more than ``most`` bytes.
    """
    found = bytearray()
    while part := file.read(_PART):
        found += part
        if len(found) > most:
            raise TooLarge(most)
    return bytes(found)


def read_file(path: str | Path, most: int = MOST) -> bytes:
    """Read a file or a pipe. Raises the errors of :func:`open_file` and :func:`read_all`."""
    with open_file(path) as file:
        return read_all(file, most)


def read_text(path: str | Path, most: int = MOST) -> str:
    """Read a UTF-8 text file. Raises the errors of :func:`read_file`, and UnicodeDecodeError."""
    return read_file(path, most).decode()


def read_standard_input(most: int = MOST) -> bytes:
    """Read standard input to its end. Raises the errors of :func:`open_standard_input` and :func:`read_all`."""
    return read_all(open_standard_input(), most)

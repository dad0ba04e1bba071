"""Read compressed files and tar archives as streams of limited size."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Self, cast

# Above ``_ANY_RATIO`` bytes, a file may be at most ``_RATIO`` times as large unpacked as packed. Dumps shrink
# 10 to 50 times when they are packed.
_ANY_RATIO = 256 << 20
_RATIO = 200
_PART = 1 << 20
# Members of these types are read into memory by tarfile.
_TAR_NAMES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_UNPACKERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}

BROKEN = (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""Errors raised by reading a packed file that is broken or cut off."""


class TooMuch(Exception):
    """A file needs more space or work than is allowed."""


class Unpacking:
    """Counts the bytes that are unpacked from one file of a known size."""

    def __init__(self, size: int) -> None:
        self._most = max(_ANY_RATIO, _RATIO * size)
        self._unpacked = 0

    def count(self, count: int) -> None:
        """Count bytes that were unpacked.

        Raises:
            TooMuch: there are far more than a dump of that size can have.
        """
        self._unpacked += count
        if self._unpacked > self._most:
            raise TooMuch(f"unpacked it is more than {_RATIO} times as large, which no dump is")

    def stream(self, file: Any) -> IO[bytes]:
        """Return a file that counts the bytes read from ``file``, which is unpacked during the read."""
        return cast("IO[bytes]", _Counted(file, self))

    def unpack(self, file: IO[bytes]) -> IO[bytes]:
        """Return the content of a compressed file, or the file itself. It is read from the beginning."""
        unpack = _unpacker(file)
        return file if unpack is None else self.stream(unpack(file))

    def tar(self, file: IO[bytes]) -> tarfile.TarFile:
        """Open a tar archive, compressed or not, whose members can be read once, in their order."""
        # Read as a stream, so that each byte is unpacked only once.
        return tarfile.open(fileobj=self.unpack(file), mode="r|", bufsize=_PART, tarinfo=_Member)


def is_tar(file: IO[bytes]) -> bool:
    """True if a seekable file is a tar archive, compressed or not."""
    unpack = _unpacker(file)
    try:
        head = (file if unpack is None else unpack(file)).read(tarfile.BLOCKSIZE)
        tarfile.TarInfo.frombuf(head, tarfile.ENCODING, "surrogateescape")
    except (tarfile.HeaderError, *BROKEN):
        return False
    return True


def check_tar(path: Path) -> None:
    """Unpack an archive without keeping anything of it.

    Raises:
        TooMuch: the archive is a decompression bomb.
        OSError, EOFError, tarfile.TarError, zlib.error: it is broken.
    """
    with path.open("rb") as file, Unpacking(os.fstat(file.fileno()).st_size).tar(file) as archive:
        for _ in archive:
            pass


def _unpacker(file: IO[bytes]) -> Any:
    file.seek(0)
    start = file.read(8)
    file.seek(0)
    return next((unpack for magic, unpack in _UNPACKERS.items() if start.startswith(magic)), None)


class _Counted(io.RawIOBase):
    """A file that is unpacked while it is read."""

    def __init__(self, file: Any, unpacking: Unpacking) -> None:
        super().__init__()
        self._file, self._unpacking = file, unpacking

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read at most that many bytes. Raises the errors of :meth:`Unpacking.count`."""
        # Use read1, not read: at a truncated end, read would raise and lose the bytes before it.
        part: bytes = self._file.read1(min(size, _PART) if size >= 0 else _PART)
        self._unpacking.count(len(part))
        return part


class _Member(tarfile.TarInfo):
    """A member of an archive. A huge name in its header is rejected before it fills the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a member's header.

        Raises:
            ReadError: the member is a name or a list of attributes, and is too long.
        """
        made = super().frombuf(buf, encoding, errors)
        if made.type in _TAR_NAMES and made.size > _PART:
            raise tarfile.ReadError("a member has a name that is too long")
        return made

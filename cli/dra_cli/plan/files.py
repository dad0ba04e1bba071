"""The files that a dump consists of: one file, a folder, a zip or tar archive, compressed or not.

What is broken or ends early is named, and what was read until then is used.
"""

import bz2
import gzip
import io
import lzma
import mmap
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from dra_cli.errors import CommandError

_SUFFIXES = (".json", ".yaml", ".yml")
_PACKED = (".gz", ".bz2", ".xz")
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
# Archives in a dump are read as parts of it, no deeper than this.
_DEPTH = 3
# Larger texts are mapped instead of read; what comes out of an archive lies in a temporary file meanwhile.
_LARGE = 16 << 20
_PART = 1 << 20

_UNPACKERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
_BROKEN = (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)

Text = bytes | mmap.mmap


def texts(source: str, problems: list[str]) -> Iterator[tuple[str, Text]]:
    """Names and contents of what may hold objects; ``-`` is standard input. ``problems`` gets what is broken.

    Raises:
        CommandError: the source cannot be read.
    """
    if source == "-":
        yield from _contents("standard input", _spooled(sys.stdin.buffer), 1, problems)
        return
    path = Path(source)
    if not path.exists():
        raise CommandError(f"cannot read {source}: there is no such file or folder")
    if not path.is_dir():
        try:
            file = path.open("rb")
        except OSError as error:
            raise CommandError(f"cannot read {source}: {error.strerror}") from error
        with file:
            yield from _contents(source, file, 1, problems)
        return
    for part in sorted(path.rglob("*")):
        if part.is_file() and _counts(part.name):
            try:
                with part.open("rb") as file:
                    yield from _contents(str(part), file, 1, problems)
            except OSError as error:
                problems.append(f"{part}: {_reason(error)}")


def _contents(where: str, file: IO[bytes], depth: int, problems: list[str]) -> Iterator[tuple[str, Text]]:
    """What is in a file that can be read from any place: itself, or the parts of an archive."""
    if depth > _DEPTH:
        problems.append(f"{where}: an archive in {depth - 1} others; nothing of it is used")
        return
    try:
        start = file.read(8)
        file.seek(0)
        if start.startswith(b"PK\x03\x04"):
            yield from _zip(where, file, depth, problems)
            return
        archive = tarfile.is_tarfile(file)
        file.seek(0)
        if archive:
            yield from _tar(where, file, depth, problems)
            return
        unpack = next((made for magic, made in _UNPACKERS.items() if start.startswith(magic)), None)
        yield where, _text(where, file if unpack is None else unpack(file), problems)
    except _BROKEN as error:
        problems.append(f"{where}: {_reason(error)}; what comes after it is missing")


def _zip(where: str, file: IO[bytes], depth: int, problems: list[str]) -> Iterator[tuple[str, Text]]:
    with zipfile.ZipFile(file) as archive:
        for name in sorted(filter(_counts, archive.namelist())):
            try:
                with archive.open(name) as part:
                    yield from _part(f"{where}:{name}", part, depth, problems)
            except (*_BROKEN, RuntimeError, NotImplementedError) as error:
                problems.append(f"{where}:{name}: {_reason(error)}")


def _tar(where: str, file: IO[bytes], depth: int, problems: list[str]) -> Iterator[tuple[str, Text]]:
    with tarfile.open(fileobj=file) as archive:
        for member in archive:
            part = archive.extractfile(member) if member.isfile() and _counts(member.name) else None
            if part is not None:
                yield from _part(f"{where}:{member.name}", part, depth, problems)


def _part(where: str, part: IO[bytes], depth: int, problems: list[str]) -> Iterator[tuple[str, Text]]:
    if where.endswith((*_ARCHIVES, *_PACKED)):
        yield from _contents(where, part, depth + 1, problems)
    else:
        yield where, _text(where, part, problems)


def _text(where: str, file: IO[bytes], problems: list[str]) -> Text:
    """What is left of the file, as far as it can be read."""
    if type(file) is io.BufferedReader and os.fstat(file.fileno()).st_size > _LARGE:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with tempfile.SpooledTemporaryFile(_LARGE) as copy:
        try:
            while part := file.read(_PART):
                copy.write(part)
        except _BROKEN as error:
            problems.append(f"{where}: {_reason(error)}; what comes after it is missing")
        if copy.tell() > _LARGE:
            copy.flush()
            return mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)
        copy.seek(0)
        return copy.read()


def _spooled(file: IO[bytes]) -> IO[bytes]:
    """The rest of a file, for reading from any place."""
    copy = tempfile.SpooledTemporaryFile(_LARGE)  # noqa: SIM115  # who reads it lets go of it
    while part := file.read(_PART):
        copy.write(part)
    copy.seek(0)
    return copy


def _counts(name: str) -> bool:
    if name.endswith(_ARCHIVES):
        return True
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return name.endswith(_SUFFIXES)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "it ends early"

"""The files that a dump consists of: one file, a folder, a zip or tar archive, compressed or not.

A broken or truncated file is reported, and the part that was read is used. Memory, disk space and the work of
unpacking are bounded, whatever the source is.
"""

import io
import mmap
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from dra_shared.boundedfiles import TooLarge, open_file, open_standard_input
from dra_shared.errors import UserError

from dra_worlds.unpacking import BROKEN, TooMuch, Unpacking, is_tar

_SUFFIXES = (".json", ".yaml", ".yml")
_PACKED = (".gz", ".bz2", ".xz")
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
# Archives within archives are read up to this depth.
_DEPTH = 3
# Larger texts are memory-mapped. Those from an archive are first copied to a temporary file.
_LARGE = 16 << 20
_MOST = 4 << 30
_PART = 1 << 20

Text = bytes | mmap.mmap


def texts(source: str, problems: list[str]) -> Iterator[tuple[str, Text]]:
    """Yield the names and contents of files that may have objects; ``-`` is standard input.

    Broken files are reported in ``problems``.

    Raises:
        UserError: the source cannot be read.
    """
    path, reader = Path(source), _Reader(problems)
    if source != "-" and not path.exists():
        raise UserError(f"cannot read {source}: there is no such file or folder")
    if source != "-" and path.is_dir():
        for part in sorted(path.rglob("*")):
            if part.is_file() and _counts(part.name):
                try:
                    with open_file(part) as file:
                        yield from reader.contents(str(part), file)
                except OSError as error:
                    problems.append(f"{part}: {_reason(error)}")
        return
    where = "standard input" if source == "-" else source
    try:
        file = open_standard_input() if source == "-" else open_file(path)
        if not file.seekable():
            with file as pipe:
                file = reader.spool(pipe)
    except (OSError, TooMuch) as error:
        raise UserError(f"cannot read {where}: {_reason(error)}") from error
    with file:
        yield from reader.contents(where, file)


class _Reader:
    """Reads the files of one source, and counts what it copies to memory or disk."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._copied = 0
        self._unpacking = Unpacking(0)
        # Leave half of the free disk space to other programs.
        self._room = shutil.disk_usage(tempfile.gettempdir()).free // 2

    def contents(self, where: str, file: IO[bytes]) -> Iterator[tuple[str, Text]]:
        """Yield the names and contents of a seekable file: of the file itself, or of the parts of an archive."""
        file.seek(0, os.SEEK_END)
        self._unpacking = Unpacking(file.tell())
        problem = ""
        try:
            yield from self._contents(where, file, 1)
        except TooMuch as error:
            problem = str(error)
        except MemoryError:
            problem = "it needs more memory than there is"
        if problem:
            self._problems.append(f"{where}: {problem}; everything after it is missing")

    def spool(self, file: IO[bytes]) -> IO[bytes]:
        """Copy the rest of a file to a seekable file.

        Raises:
            TooMuch: it is too large.
        """
        copy = tempfile.SpooledTemporaryFile(_LARGE)  # noqa: SIM115  # who reads it lets go of it
        while part := file.read(_PART):
            self._copy(cast("IO[bytes]", copy), part)
        return cast("IO[bytes]", copy)

    def _copy(self, copy: IO[bytes], part: bytes) -> None:
        self._copied += len(part)
        if self._copied > _MOST:
            raise TooMuch(f"it has more than {_MOST >> 20} MiB")
        # A smaller copy is still in memory and has no file.
        if (size := copy.tell() + len(part)) > max(_LARGE, self._room):
            raise TooMuch(f"a copy of more than {size >> 20} MiB would fill {tempfile.gettempdir()}")
        copy.write(part)

    def _contents(self, where: str, file: IO[bytes], depth: int) -> Iterator[tuple[str, Text]]:
        if depth > _DEPTH:
            self._problems.append(
                f"{where}: it is an archive inside {depth - 1} other archives; it is ignored"
            )
            return
        try:
            file.seek(0)
            if file.read(4) == b"PK\x03\x04":
                yield from self._zip(where, file, depth)
            elif is_tar(file):
                yield from self._tar(where, file, depth)
            else:
                yield where, self._text(where, self._unpacking.unpack(file))
        except BROKEN as error:
            self._problems.append(f"{where}: {_reason(error)}; everything after it is missing")

    def _zip(self, where: str, file: IO[bytes], depth: int) -> Iterator[tuple[str, Text]]:
        with zipfile.ZipFile(file) as archive:
            for name in sorted(filter(_counts, archive.namelist())):
                try:
                    with archive.open(name) as part:
                        yield from self._part(f"{where}:{name}", self._unpacking.stream(part), depth)
                except (*BROKEN, RuntimeError, NotImplementedError) as error:
                    self._problems.append(f"{where}:{name}: {_reason(error)}")

    def _tar(self, where: str, file: IO[bytes], depth: int) -> Iterator[tuple[str, Text]]:
        with self._unpacking.tar(file) as archive:
            for member in archive:
                part = archive.extractfile(member) if member.isfile() and _counts(member.name) else None
                if part is not None:
                    yield from self._part(f"{where}:{member.name}", part, depth)

    def _part(self, where: str, part: IO[bytes], depth: int) -> Iterator[tuple[str, Text]]:
        if where.endswith((*_ARCHIVES, *_PACKED)):
            with self.spool(part) as copy:
                yield from self._contents(where, copy, depth + 1)
        else:
            yield where, self._text(where, part)

    def _text(self, where: str, file: IO[bytes]) -> Text:
        """Return the rest of the file as far as it can be read."""
        if type(file) is io.BufferedReader and (size := os.fstat(file.fileno()).st_size) > _LARGE:
            if size > _MOST:
                raise TooLarge(_MOST)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with tempfile.SpooledTemporaryFile(_LARGE) as copy:
            try:
                while part := file.read(_PART):
                    self._copy(cast("IO[bytes]", copy), part)
            except BROKEN as error:
                self._problems.append(f"{where}: {_reason(error)}; everything after it is missing")
            if copy.tell() > _LARGE:
                copy.flush()
                return mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)
            copy.seek(0)
            return copy.read()


def _counts(name: str) -> bool:
    if name.endswith(_ARCHIVES):
        return True
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return name.endswith(_SUFFIXES)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "it ends early"

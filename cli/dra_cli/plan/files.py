"""The files that a dump consists of: one file, a folder, a zip or tar archive, compressed or not."""

import gzip
import mmap
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from dra_cli.errors import CommandError

_SUFFIXES = (".json", ".yaml", ".yml")
# Archives in a dump are read as parts of it, no deeper than this.
_DEPTH = 3
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


# Larger files are mapped instead of read.
_LARGE = 16 << 20

Text = bytes | mmap.mmap


def texts(source: str) -> Iterator[tuple[str, Text]]:
    """Names and contents of what may hold objects; ``-`` is standard input.

    Raises:
        CommandError: the source cannot be read.
    """
    if source == "-":
        yield "standard input", sys.stdin.buffer.read()
        return
    path = Path(source)
    if not path.exists():
        raise CommandError(f"cannot read {source}: there is no such file or folder")
    try:
        yield from _under(path, named=True)
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CommandError(f"cannot read {source}: {reason}") from error


def _under(path: Path, *, named: bool = False) -> Iterator[tuple[str, Text]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and _counts(file.name):
                yield from _under(file)
    elif zipfile.is_zipfile(path):
        yield from _zip(path)
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            yield from _tar(archive, str(path), 1)
    elif named or path.name.endswith(_SUFFIXES) or path.name.endswith(".gz"):
        with path.open("rb") as content:
            packed = content.read(2) == b"\x1f\x8b"
            if not packed and path.stat().st_size > _LARGE:
                yield str(path), mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)
                return
        data = path.read_bytes()
        yield str(path), gzip.decompress(data) if packed else data


def _zip(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(_SUFFIXES):
                yield f"{path}:{name}", archive.read(name)


def _tar(archive: tarfile.TarFile, where: str, depth: int) -> Iterator[tuple[str, bytes]]:
    for member in archive:
        content = archive.extractfile(member) if member.isfile() and _counts(member.name) else None
        if content is None:
            continue
        name = f"{where}:{member.name}"
        if not member.name.endswith(_ARCHIVES):
            data = content.read()
            yield name, gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        elif depth < _DEPTH and not member.name.endswith(".zip"):
            with tarfile.open(fileobj=content) as inner:
                yield from _tar(inner, name, depth + 1)


def _counts(name: str) -> bool:
    plain = name.removesuffix(".gz")
    return plain.endswith(_SUFFIXES) or name.endswith(_ARCHIVES)

"""Write a file atomically: it appears only when it is complete."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from dra_shared.errors import UserError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write. It gets its name when the block ends without an error.

    A device or a pipe, such as ``/dev/stdout``, is written directly.

    Raises:
        UserError: it cannot be written.
    """
    try:
        with path.open("wb") if _is_special(path) else _open_part(path) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


@contextlib.contextmanager
def _open_part(path: Path) -> Iterator[IO[bytes]]:
    # A symbolic link stays; its target is replaced.
    target = path.resolve()
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()

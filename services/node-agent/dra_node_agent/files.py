"""Files that survive a crash as either their old or their new content."""

import os
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, durable: bool = True, mode: int = 0o600) -> None:
    """Replace the content of ``path``; with ``durable`` it also survives a power cut from then on.

    Raises:
        OSError: it cannot be written; the old content stays.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            left = memoryview(data)
            while left:
                # A disk that is nearly full takes a part.
                left = left[os.write(descriptor, left) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise

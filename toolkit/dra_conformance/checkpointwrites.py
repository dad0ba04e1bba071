"""Files in which the driver records its claims, and whether it overwrites them in place."""

import contextlib
import ctypes
import itertools
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dra_conformance.check import NotShown
from dra_conformance.restarts import checkpoint_files
from dra_conformance.session import Session

_IN_MODIFY = 0x2
_HEADER = struct.Struct("iIII")
_BUFFER = 1 << 20


@dataclass
class Writes:
    """The files that changed when a claim was prepared and unprepared, and those that were overwritten in place."""

    changed: list[str] = field(default_factory=list)
    in_place: list[str] = field(default_factory=list)


async def watch_checkpoint(session: Session) -> Writes:
    """Prepare and unprepare a claim, and observe the writes of the files that change with it.

    Raises:
        NotShown: no file in the plugins' directory changes.
    """
    seen = Writes()
    async with session.claim() as claim:
        states = [checkpoint_files(session)]
        with _watch_modifications(session.kubelet.plugins) as modified:
            await session.prepare_or_skip(claim)
            states.append(checkpoint_files(session))
            await session.unprepare_or_skip(claim)
            states.append(checkpoint_files(session))
    for before, after in itertools.pairwise(states):
        for path, data in after.items():
            if data == before.get(path):
                continue
            seen.changed.append(path.name)
            if path in modified and _is_rewritten_text(before.get(path, b""), data):
                seen.in_place.append(path.name)
    if not seen.changed:
        raise NotShown("the driver keeps no checkpoint in the plugins' directory")
    return seen


def _is_rewritten_text(before: bytes, after: bytes) -> bool:
    """True for a text that was replaced. Databases and journals survive a crash by other means."""
    is_appended = bool(before) and after.startswith(before)
    return b"\0" not in after and not is_appended


@contextlib.contextmanager
def _watch_modifications(root: Path) -> Iterator[set[Path]]:
    """Record in the yielded set, when the block ends, which files below the folder were modified in place.

    The set stays empty if the machine has no inotify.
    """
    modified: set[Path] = set()
    descriptor = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        yield modified
        return
    try:
        folders = {
            _watch(descriptor, folder): folder for folder in [root, *root.rglob("*")] if folder.is_dir()
        }
        yield modified
        with contextlib.suppress(BlockingIOError):
            while data := os.read(descriptor, _BUFFER):
                modified.update(folders[watch] / name for watch, name in _events(data) if watch in folders)
    finally:
        os.close(descriptor)


def _watch(descriptor: int, folder: Path) -> int:
    number: int = ctypes.CDLL(None).inotify_add_watch(descriptor, os.fsencode(folder), _IN_MODIFY)
    return number


def _events(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the watch and the file name of each event."""
    offset = 0
    while offset < len(data):
        watch, _, _, length = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        yield watch, os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
        offset += length

"""The transactions in SQLite's write-ahead log: https://www.sqlite.org/fileformat2.html#walformat

SQLite reads a log up to its first damaged frame and does not report the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
_WORD = 0xFFFFFFFF


class DamagedLog(Exception):
    """The log's header is damaged, so that SQLite would ignore all of it."""


def commits(path: Path) -> list[int]:
    """Return the numbers, from 1, of the frames that end a transaction, damaged or not.

    Raises:
        DamagedLog: the header's checksum is wrong.
    """
    if not path.exists():
        return []
    found = []
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return []
        magic, _, page_size, _, *salt, _, _ = _HEADER.unpack(header)
        if magic | 1 != _MAGIC | 1 or _checksum(header, magic) != header[24:]:
            raise DamagedLog
        number = 0
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            number += 1
            _, pages, *frame_salt, _, _ = _FRAME.unpack(head)
            # Frames with another salt are leftovers from before the log was restarted.
            if pages and frame_salt == salt:
                found.append(number)
            file.seek(page_size, 1)
    return found


def _checksum(header: bytes, magic: int) -> bytes:
    words: Sequence[int] = struct.unpack(">6I" if magic & 1 else "<6I", header[:24])
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return struct.pack(">2I", first, second)

"""The log of a container on disk, in the format of CRI: ``<time> <stream> <F|P> <text>`` a line."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from dra_shared.clock import parse_rfc3339

from dra_node_agent.runtime.base import LogOptions

# The kubelet's containerLogMaxSize.
_MAX_SIZE = 10 << 20
_CHUNK = 1 << 16
_STREAMS = {"Stdout": b"stdout", "Stderr": b"stderr"}


class LogFile:
    """A log that takes what a container prints line by line, and passes it to readers."""

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        self.path = path
        self._now = now
        self._partial = {"stdout": "", "stderr": ""}
        self._changed = asyncio.Event()
        self._size = path.stat().st_size if path.exists() else 0
        self.closed = False

    def text_length(self) -> int:
        """Return how many characters of output are in the log."""
        length = 0
        for path in (self.path.with_suffix(".log.1"), self.path):
            if path.exists():
                with path.open("rb") as file:
                    length += sum(len(text.decode(errors="replace")) for *_, text in _entries(file))
        return length

    def write(self, stream: str, text: str) -> None:
        """Append output. An unfinished line waits for the rest."""
        *lines, rest = (self._partial[stream] + text).split("\n")
        self._partial[stream] = rest
        if lines:
            self._append(stream, lines)

    def close(self) -> None:
        """Write the unfinished lines and end the readers that follow, because the container has exited."""
        for stream, rest in self._partial.items():
            if rest:
                self._append(stream, [rest])
        self._partial = {"stdout": "", "stderr": ""}
        self.closed = True
        self._notify()

    def _append(self, stream: str, lines: list[str]) -> None:
        moment = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        data = "".join(f"{moment} {stream} F {line}\n" for line in lines).encode(errors="replace")
        try:
            if self._size + len(data) > _MAX_SIZE and self._size:
                os.replace(self.path, self.path.with_suffix(".log.1"))
                self._size = 0
            with self.path.open("ab", buffering=0) as file:
                if file.write(data) != len(data):
                    # On a nearly full disk, only a part of a line may be written. Remove it, because it is not
                    # valid in this format.
                    file.truncate(self._size)
                    return
        except OSError:
            # The container keeps running if the disk is full.
            return
        self._size += len(data)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def read(self, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the lines that ``options`` ask for; with ``follow`` until the container has exited."""
        left = options.limit_bytes
        position = 0
        first = True
        while True:
            changed, closed = self._changed, self.closed
            lines, position = self._lines(position, options)
            if first and options.tail_lines is not None:
                lines = lines[-options.tail_lines :] if options.tail_lines else []
            first = False
            data = b"".join(lines)
            if left is not None:
                data = data[:left]
                left -= len(data)
            for start in range(0, len(data), _CHUNK):
                yield data[start : start + _CHUNK]
            if closed or not options.follow or left == 0:
                return
            await changed.wait()

    def _lines(self, position: int, options: LogOptions) -> tuple[list[bytes], int]:
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < position:
                    position = 0
                file.seek(position)
                content = file.read()
        except FileNotFoundError:
            return [], 0
        wanted = _STREAMS.get(options.stream)
        lines = []
        for moment, stream, _, text in _entries(content.splitlines(keepends=True)):
            if wanted is not None and stream != wanted:
                continue
            if options.since is not None and parse_rfc3339(_micros(moment.decode())) < options.since:
                continue
            lines.append(moment + b" " + text if options.timestamps else text)
        return lines, position + len(content)


def _entries(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield time, stream, tag and text of each line, without lines that a crash cut short."""
    for line in lines:
        entry = line.split(b" ", 3)
        if len(entry) == 4:
            yield entry


def _micros(text: str) -> str:
    # Python reads at most six digits of a fraction of a second.
    return text[:26] + "+00:00"

"""Show the progress of long work: one line that changes on a terminal, and a line now and then elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

# No progress is shown for fewer steps, or before this many seconds.
_FEW = 10
_SOON = 1.0
_EVERY = 0.1
# The interval where each line stays, such as in a log.
_EVERY_PLAIN = 10.0
_WIDTH = 24


class Progress:
    """Shows on standard error how many of ``total`` steps are done."""

    def __init__(
        self,
        what: str,
        total: int,
        *,
        stream: TextIO | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self.total = total
        self._stream = stream or sys.stderr
        self._monotonic = monotonic
        self._terminal = self._stream.isatty()
        self._began = self._shown = monotonic()
        self._done = 0
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def is_long(self) -> bool:
        """True if there are enough steps to show."""
        return self.total >= _FEW

    def step(self, done: int | None = None) -> None:
        """Count one more step, or set the number of steps done."""
        self._done = self._done + 1 if done is None else done
        now = self._monotonic()
        waited = _EVERY if self._terminal else _EVERY_PLAIN
        if not self.is_long or now - self._began < _SOON or now - self._shown < waited:
            return
        self._shown = now
        self._write(self._line(now - self._began))

    def print(self, line: str) -> None:
        """Print a line of the command's own output."""
        self.clear()
        print(line, flush=True)  # noqa: T201  # A command that shows progress prints through it.

    def note(self, line: str) -> None:
        """Print a line about the work to the stream that shows the progress."""
        self.clear()
        with contextlib.suppress(OSError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    def _line(self, seconds: float) -> str:
        share = self._done / self.total
        counted = f"{self._what} {self._done}/{self.total}"
        if not self._terminal:
            return f"{counted} after {seconds:.0f} s"
        bar = "#" * int(share * _WIDTH)
        left = seconds / share - seconds if share else 0.0
        return f"{counted} [{bar:{_WIDTH}}] {seconds:.0f} s, about {left:.0f} s to go"

    def _write(self, line: str) -> None:
        # A full disk or a closed pipe must not end the work.
        with contextlib.suppress(OSError):
            self._stream.write(f"\r\033[K{line}" if self._terminal else f"{line}\n")
            self._stream.flush()
        self._drawn = self._terminal

    def clear(self) -> None:
        """Remove the progress line from the terminal."""
        if self._drawn:
            with contextlib.suppress(OSError):
                self._stream.write("\r\033[K")
                self._stream.flush()
            self._drawn = False

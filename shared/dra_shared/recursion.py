"""Raise Python's limit on nested calls while deep values are processed."""

import contextlib
import sys
import threading
from collections.abc import Iterator


class _Rooms:
    """The nesting depths that threads need.

    Python has one limit for all threads: it is set to the highest, and restored at the end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._needed: list[int] = []
        self._before = 0

    def enter(self, calls: int) -> None:
        with self._lock:
            if not self._needed:
                self._before = sys.getrecursionlimit()
            self._needed.append(calls)
            self._set()

    def leave(self, calls: int) -> None:
        with self._lock:
            self._needed.remove(calls)
            self._set()

    def _set(self) -> None:
        sys.setrecursionlimit(max(self._before, *self._needed, 0))


_rooms = _Rooms()


@contextlib.contextmanager
def room(calls: int) -> Iterator[None]:
    """Allow that many nested calls in the context, in any thread."""
    _rooms.enter(calls)
    try:
        yield
    finally:
        _rooms.leave(calls)

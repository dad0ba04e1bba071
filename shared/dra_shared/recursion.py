"""Room on the stack for what is nested deeper than Python's limit on calls allows."""

import contextlib
import sys
import threading
from collections.abc import Iterator


class _Rooms:
    """Python has one limit for all threads: the highest that is needed inside. The last who leaves puts it back."""

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
    """As many calls as that may be under way within, in whatever thread."""
    _rooms.enter(calls)
    try:
        yield
    finally:
        _rooms.leave(calls)

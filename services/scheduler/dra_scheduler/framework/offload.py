"""Offloading: a plugin's long computation runs in a thread, so that the event loop is not blocked."""

from collections.abc import Callable


class Offload(Exception):
    """Raised by a plugin instead of returning a status: run ``work`` in a thread, then call the plugin again.

    ``work`` must not change anything that the event loop reads.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__("the computation has to go on in a thread")
        self.work = work

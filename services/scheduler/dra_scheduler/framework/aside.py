"""Verdicts that take long are worked out in a thread, so that everything else goes on meanwhile."""

from collections.abc import Callable


class Aside(Exception):
    """Raised by a plugin in place of a verdict: call ``work`` in a thread, then ask the plugin again.

    ``work`` touches nothing that others change.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__("the verdict takes long")
        self.work = work

"""What plugins remember between the extension points of one scheduling attempt."""

from typing import Any, TypeVar

from dra_scheduler.allocator import Trace

T = TypeVar("T")


class CycleState:
    """One attempt's memory.

    ``group`` is that of the pod group's attempt which this one is part of, if it is. ``shared`` outlives the attempt:
    attempts for pods of equal signature get the same one, as long as what is in it may still be true. A plugin sets
    ``unshareable`` when a verdict only holds for this very pod. ``stop``, if not empty, says why the attempt is to end.
    ``trace`` has the allocator record what it looks at. ``nominated`` is the node that is to be free for the pod
    soon; empty if none is, None if nothing changes about that. While it is ``patient``, a plugin may answer by raising
    :class:`~dra_scheduler.framework.aside.Aside`.
    """

    def __init__(self, group: "CycleState | None" = None, shared: dict[str, Any] | None = None) -> None:
        self.group = group
        self.shared: dict[str, Any] = {} if shared is None else shared
        self.unshareable = False
        self.stop = ""
        self.trace: Trace | None = None
        self.nominated: str | None = None
        self.patient = False
        self.skip_filter: set[str] = set()
        self._data: dict[str, Any] = {}

    def write(self, plugin: str, data: Any) -> None:
        """Remember ``data`` for the plugin."""
        self._data[plugin] = data

    def read(self, plugin: str, kind: type[T]) -> T | None:
        """What the plugin wrote, if it did."""
        data = self._data.get(plugin)
        return data if isinstance(data, kind) else None

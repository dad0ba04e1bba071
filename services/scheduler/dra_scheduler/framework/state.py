"""CycleState: the data of one scheduling attempt that extension points share.

Mirrors upstream's ``framework.CycleState``. The deadline takes the place of Go's context.
"""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from dra_scheduler.allocator import Trace

T = TypeVar("T")


@dataclass(slots=True)
class Deadline:
    """The point at which plugins have to stop computing.

    ``cancelled`` is the reason to end the attempt, or empty. While ``can_offload`` is set, a plugin may
    raise :class:`~dra_scheduler.framework.offload.Offload` and is called again for the same node. Its time
    limit then starts with its first call.
    """

    cancelled: str = ""
    can_offload: bool = False

    def cancel(self, reason: str) -> None:
        """End the attempt. Only the first reason is kept."""
        self.cancelled = self.cancelled or reason


@dataclass(slots=True)
class Sharing:
    """The data that attempts for pods with equal signatures share.

    ``data`` is keyed by plugin. It is kept after the attempt, and dropped once it may be outdated. A plugin
    sets ``allowed`` to False if its verdict on the node only holds for this pod.
    """

    data: dict[str, Any] = field(default_factory=dict)
    allowed: bool = True


class CycleState:
    """The state of one attempt, with the data that each plugin wrote to it.

    ``group`` is the state of the pod group's attempt, if this attempt is part of one. ``trace``, if set,
    records the allocator's steps. ``skip_filter`` are the plugins whose PreFilter returned Skip.
    """

    def __init__(self, group: "CycleState | None" = None, shared: dict[str, Any] | None = None) -> None:
        self.group = group
        self.deadline = Deadline()
        self.sharing = Sharing() if shared is None else Sharing(shared)
        self.trace: Trace | None = None
        self.skip_filter: set[str] = set()
        self._data: dict[str, Any] = {}

    def write(self, plugin: str, data: Any) -> None:
        """Store ``data`` for the plugin."""
        self._data[plugin] = data

    def read(self, plugin: str, kind: type[T]) -> T | None:
        """Return the data that the plugin wrote, or None."""
        data = self._data.get(plugin)
        return data if isinstance(data, kind) else None

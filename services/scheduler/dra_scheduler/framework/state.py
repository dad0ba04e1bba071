"""CycleState: what one scheduling attempt carries from extension point to extension point.

Mirrors upstream's ``framework.CycleState``; the deadline takes the place of Go's context.
"""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from dra_scheduler.allocator import Trace

T = TypeVar("T")


@dataclass(slots=True)
class Deadline:
    """When plugins have to stop computing.

    ``cancelled`` is why the attempt is to end, or empty. While ``can_offload`` is set, a plugin may raise
    :class:`~dra_scheduler.framework.offload.Offload` and is called again for the same node: its time limit then counts
    from its first call.
    """

    cancelled: str = ""
    can_offload: bool = False

    def cancel(self, reason: str) -> None:
        """End the attempt; the first reason counts."""
        self.cancelled = self.cancelled or reason


@dataclass(slots=True)
class Sharing:
    """What attempts for pods of equal signature share.

    ``data`` is by plugin; it outlives the attempt for as long as it may still be true. A plugin sets ``allowed`` to
    False when its verdict on the node only holds for this pod.
    """

    data: dict[str, Any] = field(default_factory=dict)
    allowed: bool = True


class CycleState:
    """One attempt's state, with what each plugin wrote to it.

    ``group`` is the state of the pod group's attempt that this one is part of, if any. ``trace``, if set, records what
    the allocator looks at. ``skip_filter`` are the plugins whose PreFilter returned Skip.
    """

    def __init__(self, group: "CycleState | None" = None, shared: dict[str, Any] | None = None) -> None:
        self.group = group
        self.deadline = Deadline()
        self.sharing = Sharing() if shared is None else Sharing(shared)
        self.trace: Trace | None = None
        self.skip_filter: set[str] = set()
        self._data: dict[str, Any] = {}

    def write(self, plugin: str, data: Any) -> None:
        """Keep ``data`` for the plugin."""
        self._data[plugin] = data

    def read(self, plugin: str, kind: type[T]) -> T | None:
        """Returns what the plugin wrote, or None."""
        data = self._data.get(plugin)
        return data if isinstance(data, kind) else None

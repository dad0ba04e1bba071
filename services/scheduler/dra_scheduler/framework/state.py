"""What plugins remember between the extension points of one scheduling attempt."""

from typing import Any, TypeVar

T = TypeVar("T")


class CycleState:
    """One attempt's memory. ``group`` is that of the pod group's attempt which this one is part of, if it is."""

    def __init__(self, group: "CycleState | None" = None) -> None:
        self.group = group
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self._data: dict[str, Any] = {}

    def write(self, plugin: str, data: Any) -> None:
        """Remember ``data`` for the plugin."""
        self._data[plugin] = data

    def read(self, plugin: str, kind: type[T]) -> T | None:
        """What the plugin wrote, if it did."""
        data = self._data.get(plugin)
        return data if isinstance(data, kind) else None

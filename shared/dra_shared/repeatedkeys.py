"""JSON objects with repeated keys."""

from typing import Any


class RepeatedKeys(dict[str, Any]):
    """An object whose text has keys more than once. ``keys_in_order`` has all of them."""

    __slots__ = ("keys_in_order",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.keys_in_order = [key for key, _ in pairs]

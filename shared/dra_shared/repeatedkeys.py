"""Objects of a text that has the same key more than once."""

from typing import Any


class RepeatedKeys(dict[str, Any]):
    """An object in which keys occurred more than once; ``keys_in_order`` has them all."""

    __slots__ = ("keys_in_order",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.keys_in_order = [key for key, _ in pairs]

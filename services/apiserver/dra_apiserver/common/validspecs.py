"""Remembers values in which nothing was wrong: most pods and claims are made from templates, and equal."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from dra_shared.jsontext import dumps

from dra_apiserver.errors import FieldError

JsonObject = dict[str, Any]
_MOST = 512
_LONGEST = 8 << 10


class KnownGood:
    """The latest values that had no errors, at most 512 of up to 8 KiB."""

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, bytes], None] = {}

    def check(
        self, value: JsonObject, look: Callable[[], list[FieldError]], under: Hashable = None
    ) -> list[FieldError]:
        """The errors that `look` finds; it is not asked where an equal value had none.

        `look` may depend on nothing but `value` and what `under` stands for.
        """
        key = (under, dumps(value))
        if key in self._known:
            return []
        errors = look()
        if not errors and len(key[1]) <= _LONGEST:
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = None
        return errors

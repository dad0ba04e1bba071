"""Cache valid values, because most pods and claims are created from templates and have equal specs."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import FieldError

_MOST = 512
_LONGEST = 8 << 10


class KnownGood:
    """A cache of the latest values without errors: at most 512 values, each of up to 8 KiB."""

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, bytes], None] = {}

    def check(
        self, value: JsonObject, look: Callable[[], list[FieldError]], under: Hashable = None
    ) -> list[FieldError]:
        """Return the errors that `look` finds. `look` is not called if an equal value had no errors.

        `look` may only depend on `value` and on what `under` identifies.
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

"""Which requests take long: those that bring much, and those whose kind makes much of little."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dra_apiserver.api import Api
    from dra_apiserver.target import Target

# In bytes: what is done with an object of this size takes some ten milliseconds.
MUCH = 64 << 10
# As long take expressions of this size, which are compiled.
_MUCH_TO_COMPILE = 4 << 10


def is_long(api: Api, target: Target, size: int) -> bool:
    """Whether a write takes so long that the event loop should not wait; `size` is the body's or object's, in bytes."""
    kind = target.kind
    if size > _MUCH_TO_COMPILE and (size > MUCH or kind.unstructured or kind.validation.has_expressions):
        return True
    if api.dynamic.loops:
        return True
    return kind.validation.rules_take_long is not None and kind.validation.rules_take_long(target.version)

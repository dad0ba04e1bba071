"""Identify writes that take long: large ones, and those of kinds with costly rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dra_apiserver.api import Api
    from dra_apiserver.target import Target

# In bytes: processing an object of this size takes about ten milliseconds.
MUCH = 64 << 10
# In bytes: compiling expressions of this size takes about ten milliseconds.
_MUCH_TO_COMPILE = 4 << 10


def is_long(api: Api, target: Target, size: int) -> bool:
    """True if a write may block the event loop for too long. `size` is that of the body or object, in bytes."""
    kind = target.kind
    if size > _MUCH_TO_COMPILE and (size > MUCH or kind.unstructured or kind.validation.has_expressions):
        return True
    if api.dynamic.loops:
        return True
    return kind.validation.rules_take_long is not None and kind.validation.rules_take_long(target.version)

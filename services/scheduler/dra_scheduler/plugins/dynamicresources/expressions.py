"""The expressions of claims and their classes, compiled before the allocator needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dra_shared.api.resource import DeviceClass, DeviceSelector, ResourceClaim

from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.programs import CelProgram

# The total length of expressions that takes about ten milliseconds to compile.
_MUCH = 4096


def long_expressions(
    claims: Sequence[ResourceClaim], class_of: Callable[[str], DeviceClass | None]
) -> tuple[str, ...]:
    """Return the expressions that a search for these claims may need. Empty if they are short."""
    found = dict.fromkeys(
        selector.cel.expression for selector in _selectors(claims, class_of) if selector.cel is not None
    )
    return tuple(found) if sum(map(len, found)) > _MUCH else ()


def _selectors(
    claims: Sequence[ResourceClaim], class_of: Callable[[str], DeviceClass | None]
) -> Iterator[DeviceSelector]:
    names: dict[str, None] = {}
    for claim in claims:
        for request in claim.spec.devices.requests:
            for part in (request.exactly, *request.first_available):
                if part is not None:
                    yield from part.selectors
                    names[part.device_class_name] = None
    for name in names:
        device_class = class_of(name)
        if device_class is not None:
            yield from device_class.spec.selectors


def compile_all(expressions: Sequence[str], features: Features) -> None:
    """Compile the expressions. The results, including errors, are cached."""
    for text in expressions:
        CelProgram(text, features)

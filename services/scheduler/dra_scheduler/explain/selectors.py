"""Facts about CEL selectors that need no device: their expressions and the drivers that they name."""

import functools
from collections.abc import Iterable

from dra_shared.api.resource import DeviceClass, DeviceSelector
from dra_shared.cel.parser import ParseFailed, parse
from dra_shared.cel.reads import comparisons


def expressions(selectors: Iterable[DeviceSelector]) -> list[str]:
    """Return the CEL expressions of the selectors."""
    return [each.cel.expression for each in selectors if each.cel is not None]


def class_expressions(device_class: DeviceClass | None) -> list[str]:
    """Return the CEL expressions of the class. Empty if there is no class."""
    return expressions(device_class.spec.selectors) if device_class is not None else []


def named_drivers(device_class: DeviceClass | None) -> frozenset[str]:
    """Return the drivers that the class compares ``device.driver`` with."""
    return frozenset(name for text in class_expressions(device_class) for name in drivers_of(text))


@functools.lru_cache(maxsize=1024)
def drivers_of(expression: str) -> frozenset[str]:
    """Return the drivers that the expression compares ``device.driver`` with."""
    try:
        found = comparisons(parse(expression))
    except ParseFailed:
        return frozenset()
    return frozenset(str(value) for path, values in found if path == ("driver",) for value in values)

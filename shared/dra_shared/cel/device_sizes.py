"""Bounds for the sizes of the values that an expression reads from a device.

Mirrors the sizeEstimator of k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from typing import Final

from dra_shared.cel.ranges import Range

_ATTRIBUTE_SIZE: Final = 64
_MAP_SIZE: Final = 32
_DOMAIN_SIZE: Final = 63
_ID_SIZE: Final = 32

#: The name of a variable, and the selections from it that lead to a value.
Path = tuple[str, ...]


def _attribute(path: Path) -> int | None:
    """Return the largest size of a value below ``device.attributes``.

    ``path`` has the selections that follow ``attributes``.
    """
    match path:
        case ["@items" | "@values", last] if last != "@keys":
            return None if last == "@indices" else _ATTRIBUTE_SIZE
    return _by_domain(path)


def _capacity(path: Path) -> int | None:
    match path:
        case ["@items" | "@values", "@items" | "@values"]:
            return 0
    return _by_domain(path)


def _by_domain(path: Path) -> int | None:
    """Return the largest size of the map of domains, of a map of names, or of a key of either; None for values."""
    match path:
        case []:
            return _MAP_SIZE
        case ["@keys"]:
            return _DOMAIN_SIZE
        case ["@items" | "@values"]:
            return _MAP_SIZE
        case ["@items" | "@values", "@keys"]:
            return _ID_SIZE
    return None


def path_size(path: Path) -> Range | None:
    """Return the known bounds for the size of a value that is reached from the device."""
    size: int | None = None
    match path:
        case ["device"]:
            size = 0
        case ["device", "driver"]:
            size = _DOMAIN_SIZE
        case ["device", "allowMultipleAllocations"]:
            size = 1
        case ["device", "attributes", *rest]:
            size = _attribute(tuple(rest))
        case ["device", "capacity", *rest]:
            size = _capacity(tuple(rest))
    return None if size is None else (0, size)

"""Equal parts of an informer's objects, kept once.

Thousands of nodes have the same labels, and their devices the same attributes but for UUIDs and addresses: these are
most of what services remember. client-go's SetTransform is for the same.
"""

from collections.abc import Callable
from typing import Any

from dra_shared.api.meta import Object
from dra_shared.api.node import Node
from dra_shared.api.resource import ResourceSlice

# What has more values than that, as UUIDs do, is different everywhere.
_VALUES, _NAMES = 64, 1024


class _Parts:
    """The values of maps, by the name that they have there."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Any, Any]] = {}

    def share(self, parts: dict[str, Any]) -> None:
        """Put the known one in place of each equal value."""
        for name, value in parts.items():
            known = self._known.get(name)
            if known is None:
                if len(self._known) >= _NAMES:
                    continue
                known = self._known[name] = {}
            found = known.get(value)
            if found is not None:
                parts[name] = found
            elif len(known) < _VALUES:
                known[value] = value


class _SliceSharing:
    def __init__(self) -> None:
        self._attributes, self._capacities = _Parts(), _Parts()

    def __call__(self, slice_: Any) -> None:
        for device in slice_.spec.devices:
            self._attributes.share(device.attributes)
            self._capacities.share(device.capacity)


class _NodeSharing:
    def __init__(self) -> None:
        self._texts, self._amounts = _Parts(), _Parts()

    def __call__(self, node: Any) -> None:
        self._texts.share(node.metadata.labels)
        self._texts.share(node.metadata.annotations)
        self._amounts.share(node.status.capacity)
        self._amounts.share(node.status.allocatable)


_SHARING: dict[type[Object], Callable[[], Callable[[Any], None]]] = {
    Node: _NodeSharing,
    ResourceSlice: _SliceSharing,
}


def sharing(kind: type[Object]) -> Callable[[Any], None] | None:
    """Replaces parts of an object that was just decoded by equal ones of those before; None for kinds without such."""
    make = _SHARING.get(kind)
    return None if make is None else make()

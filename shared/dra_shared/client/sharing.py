"""Store equal parts of an informer's objects once.

Thousands of nodes have the same labels, and their devices have the same attributes except for UUIDs and
addresses. These are most of the memory of services. client-go's SetTransform serves the same purpose.
"""

from collections.abc import Callable
from sys import intern
from typing import Any, Final, TypeVar

from msgspec.structs import force_setattr

from dra_shared.api.meta import Object
from dra_shared.api.node import Node
from dra_shared.api.resource import Device, ResourceSlice

# Names with more values than that, such as UUIDs, differ everywhere and are not cached.
_VALUES, _NAMES = 64, 1024
# The fields of nodeInfo that all nodes of a version and machine have in common.
_INFO = (
    "architecture",
    "container_runtime_version",
    "kernel_version",
    "kubelet_version",
    "operating_system",
    "os_image",
)
_NOTHING: Final[dict[str, Any]] = {}

T = TypeVar("T")


class _Parts:
    """Cached values of map entries, by the entry's name."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Any, Any]] = {}

    def share(self, parts: dict[str, Any]) -> None:
        """Replace each value by an equal cached one."""
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


class _Equal:
    """Cached values that recur in many objects, such as texts and times. The cache is cleared when it is full."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._maps: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}

    def one(self, value: T) -> T:
        """Return the cached value that equals the value, or the value itself."""
        if len(self._known) >= _NAMES:
            self._known = {}
        known: T = self._known.setdefault(value, value)
        return known

    def map(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the cached map that equals the map, or the map itself."""
        if len(self._maps) >= _NAMES:
            self._maps = {}
        return self._maps.setdefault(tuple(value.items()), value)

    def each(self, values: tuple[T, ...]) -> tuple[T, ...]:
        """Return the cached tuple that equals the tuple, with cached members."""
        return self.one(tuple(self.one(value) for value in values))


class _SliceSharing:
    def __init__(self) -> None:
        self._attributes, self._capacities = _Parts(), _Parts()
        self._equal = _Equal()

    def __call__(self, slice_: ResourceSlice) -> None:
        _share_metadata(slice_)
        force_setattr(slice_.spec, "driver", intern(slice_.spec.driver))
        for device in slice_.spec.devices:
            attributes = {intern(name): value for name, value in device.attributes.items()}
            self._attributes.share(attributes)
            self._capacities.share(device.capacity)
            force_setattr(device, "attributes", attributes)
            force_setattr(device, "capacity", self._equal.map(device.capacity))
            force_setattr(device, "name", intern(device.name))


class WithoutDetails:
    """Trims slices for readers that ignore devices' attributes, capacity and counters.

    Without these fields, the slices of equal nodes have equal devices, which are stored once.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[Device, ...]] = {}

    def __call__(self, slice_: ResourceSlice) -> None:
        """Remove these fields, and store devices with only a name once."""
        spec = slice_.spec
        _share_metadata(slice_)
        force_setattr(spec, "driver", intern(spec.driver))
        for device in spec.devices:
            force_setattr(device, "attributes", _NOTHING)
            force_setattr(device, "capacity", _NOTHING)
            force_setattr(device, "consumes_counters", ())
        names = tuple(device.name for device in spec.devices)
        known = self._known.get(names)
        if known is None:
            known = tuple(Device(name=name) for name in names)
            if len(self._known) < _NAMES:
                self._known[names] = known
        if spec.devices == known:
            force_setattr(spec, "devices", known)


class _NodeSharing:
    def __init__(self) -> None:
        self._texts = _Parts()
        self._equal = _Equal()

    def __call__(self, node: Node) -> None:
        meta, status, equal = node.metadata, node.status, self._equal
        _share_metadata(node)
        labels = {intern(name): value for name, value in meta.labels.items()}
        self._texts.share(labels)
        self._texts.share(meta.annotations)
        force_setattr(meta, "labels", labels)
        force_setattr(meta, "annotations", equal.map(meta.annotations))
        force_setattr(status, "capacity", equal.map(status.capacity))
        force_setattr(status, "allocatable", equal.map(status.allocatable))
        force_setattr(status, "conditions", equal.each(status.conditions))
        force_setattr(status, "addresses", tuple(equal.one(address) for address in status.addresses))
        force_setattr(status, "declared_features", equal.one(status.declared_features))
        force_setattr(status, "daemon_endpoints", equal.one(status.daemon_endpoints))
        for name in _INFO:
            force_setattr(status.node_info, name, intern(getattr(status.node_info, name)))


def _share_metadata(obj: Object) -> None:
    force_setattr(obj, "api_version", intern(obj.api_version))
    force_setattr(obj, "kind", intern(obj.kind))
    for owner in obj.metadata.owner_references:
        force_setattr(owner, "api_version", intern(owner.api_version))
        force_setattr(owner, "kind", intern(owner.kind))


_SHARING: dict[type[Object], Callable[[], Callable[[Any], None]]] = {
    Node: _NodeSharing,
    ResourceSlice: _SliceSharing,
}


def create_sharing(kind: type[Object]) -> Callable[[Any], None] | None:
    """Return a function that replaces parts of a decoded object by equal parts of earlier ones; None if the kind
    has none.
    """
    make = _SHARING.get(kind)
    return None if make is None else make()

"""Equal parts of an informer's objects, kept once.

Thousands of nodes have the same labels, and their devices the same attributes but for UUIDs and addresses: these are
most of what services remember. client-go's SetTransform is for the same.
"""

from collections.abc import Callable
from sys import intern
from typing import Any, Final, TypeVar

from msgspec.structs import force_setattr

from dra_shared.api.meta import Object
from dra_shared.api.node import Node
from dra_shared.api.resource import Device, ResourceSlice

# What has more values than that, as UUIDs do, is different everywhere.
_VALUES, _NAMES = 64, 1024
# What all nodes of a version and machine have in common of their nodeInfo.
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


class _Equal:
    """Values that are the same in many objects, as texts and times are; forgotten when there are too many of them."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._maps: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}

    def one(self, value: T) -> T:
        """The known one that equals the value, or the value itself."""
        if len(self._known) >= _NAMES:
            self._known = {}
        known: T = self._known.setdefault(value, value)
        return known

    def map(self, value: dict[str, Any]) -> dict[str, Any]:
        """The same for a map."""
        if len(self._maps) >= _NAMES:
            self._maps = {}
        return self._maps.setdefault(tuple(value.items()), value)

    def each(self, values: tuple[T, ...]) -> tuple[T, ...]:
        """The same for members, and for all of them together."""
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
    """Slices for who reads nothing of devices' attributes, capacity and counters: those of equal nodes are the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[Device, ...]] = {}

    def __call__(self, slice_: ResourceSlice) -> None:
        """Drop these, and keep devices once that have nothing but a name then."""
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


def sharing(kind: type[Object]) -> Callable[[Any], None] | None:
    """Replaces parts of an object that was just decoded by equal ones of those before; None for kinds without such."""
    make = _SHARING.get(kind)
    return None if make is None else make()

"""Device classes, by name and by the extended resources that they provide.

Mirrors upstream's ``plugins/dynamicresources/extended/extendedresourcecache``.
"""

from collections.abc import Callable

from dra_shared.api.resource import DeviceClass

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"


class ClassResolver:
    """All device classes of the cluster."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._explicit: dict[str, DeviceClass] | None = None
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call the listener after every change of a class."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        self._explicit = None
        for listener in self._listeners:
            listener()

    def set_class(self, device_class: DeviceClass) -> None:
        """Add or replace a class."""
        self._classes[device_class.metadata.name] = device_class
        self._notify()

    def delete_class(self, name: str) -> None:
        """Remove a class."""
        self._classes.pop(name, None)
        self._notify()

    def get(self, name: str) -> DeviceClass | None:
        """Return the device class with that name, or None."""
        return self._classes.get(name)

    def list(self) -> list[DeviceClass]:
        """Return all device classes."""
        return [*self._classes.values()]

    def for_resource(self, resource: str) -> DeviceClass | None:
        """Return the class for the extended resource: the newest one that names it, then the first by name."""
        if resource.startswith(IMPLICIT_PREFIX):
            return self._classes.get(resource.removeprefix(IMPLICIT_PREFIX))
        if self._explicit is None:
            self._explicit = {}
            for device_class in sorted(self._classes.values(), key=lambda c: c.metadata.name, reverse=True):
                name = device_class.spec.extended_resource_name
                if name is not None:
                    rival = self._explicit.get(name)
                    if rival is None or _creation_time(device_class) >= _creation_time(rival):
                        self._explicit[name] = device_class
        return self._explicit.get(resource)


def _creation_time(device_class: DeviceClass) -> str:
    return device_class.metadata.creation_timestamp or ""

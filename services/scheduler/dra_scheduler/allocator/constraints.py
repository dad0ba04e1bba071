"""matchAttribute and distinctAttribute, with upstream's bookkeeping.

Until 1.36, removing a device does not always restore the bookkeeping: an intersection of lists stays narrowed,
and the value of a request's second device replaces the value of its first. Upstream's search continues from
that state, so the search here must do so, too. ``remove`` reports whether the state was restored.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Protocol

from dra_shared.api.resource import DeviceAttribute, DeviceConstraint
from dra_shared.semver import Semver, SemverError

from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.pools import PoolDevice

# The type and the value or, with list attributes, the set of values. None if no value of a known type is set.
Value = tuple[str, object] | None


def lookup_attribute(device: PoolDevice, name: str) -> DeviceAttribute | None:
    """Return the attribute with that fully qualified name. The driver's own attributes may omit their domain."""
    attribute = device.spec.attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, identifier = name.partition("/")
    if not slash or domain != device.id.driver:
        return None
    return device.spec.attributes.get(identifier)


def scalar_value(attribute: DeviceAttribute) -> Value:
    """Return the value of an attribute that is not a list."""
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    if attribute.version is not None:
        return "version", attribute.version
    return None


def value_set(attribute: DeviceAttribute) -> tuple[str, frozenset[object]] | None:
    """Return the set of values of an attribute, whether it is a list or not."""
    if attribute.ints:
        return "int", frozenset(attribute.ints)
    if attribute.bools:
        return "bool", frozenset(attribute.bools)
    if attribute.strings:
        return "string", frozenset(attribute.strings)
    if attribute.versions:
        return "version", frozenset(attribute.versions)
    if attribute.int_ is not None:
        return "int", frozenset((attribute.int_,))
    if attribute.bool_ is not None:
        return "bool", frozenset((attribute.bool_,))
    if attribute.string is not None:
        return "string", frozenset((attribute.string,))
    if attribute.version is not None:
        return "version", frozenset((attribute.version,))
    return None


def _without_builds(value: Value) -> Value:
    """Return a value with its versions without build metadata. None if a version is not valid."""
    if value is None or value[0] != "version":
        return value
    kind, versions = value
    try:
        if isinstance(versions, frozenset):
            return kind, frozenset(_without_build(str(version)) for version in versions)
        return kind, _without_build(str(versions))
    except SemverError:
        return None


def _without_build(text: str) -> str:
    Semver.parse(text)
    return text.partition("+")[0]


class Constraint(Protocol):
    """A constraint of a claim, and the values of the devices picked so far."""

    attribute_name: str

    @property
    def kind(self) -> str:
        """``matchAttribute`` or ``distinctAttribute``."""

    def value(self, attribute: DeviceAttribute | None) -> Value:
        """Return the part of the attribute that is compared. None if there is none, or its type is unknown."""

    def applies(self, request: str, subrequest: str) -> bool:
        """True if the constraint covers the request or subrequest. ``subrequest`` is empty for a plain request."""

    def add(
        self, request: str, subrequest: str, device: PoolDevice, attribute: DeviceAttribute | None
    ) -> bool:
        """Count the device if its attribute satisfies the constraint. Return True if it was counted."""

    def remove(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        """Undo the last ``add``. Return False if that does not restore the state from before the ``add``."""

    def state(self) -> Hashable:
        """Return the state. Constraints with equal states accept the same devices from now on."""

    def compared_values(self) -> tuple[Value, ...]:
        """Return the values that the next device is compared with."""


class _Base:
    def __init__(self, spec: DeviceConstraint, attribute_name: str, features: Features) -> None:
        self.attribute_name = attribute_name
        self._requests = frozenset(spec.requests)
        self._lists = features.list_type_attributes
        self._builds_are_equal = features.builds_are_equal
        self._count = 0

    def applies(self, request: str, subrequest: str) -> bool:
        requests = self._requests
        return (
            not requests
            or request in requests
            or (subrequest != "" and f"{request}/{subrequest}" in requests)
        )

    def value(self, attribute: DeviceAttribute | None) -> Value:
        return None if attribute is None else self._value(attribute)

    def _value(self, attribute: DeviceAttribute) -> Value:
        value = value_set(attribute) if self._lists else scalar_value(attribute)
        return _without_builds(value) if self._builds_are_equal else value


class MatchAttribute(_Base):
    """All devices share a value. With list attributes, all have at least one value in common."""

    kind = "matchAttribute"

    def __init__(self, spec: DeviceConstraint, attribute_name: str, features: Features) -> None:
        super().__init__(spec, attribute_name, features)
        self._common: Value = None
        self._narrowed: list[bool] = []

    def add(
        self, request: str, subrequest: str, device: PoolDevice, attribute: DeviceAttribute | None
    ) -> bool:
        if not self.applies(request, subrequest):
            return True
        if attribute is None:
            return False
        value = self._value(attribute)
        if self._count == 0:
            if self._lists and value is None:
                return False
            self._common = value
            self._narrowed.append(False)
        elif self._lists:
            common = _intersection(self._common, value)
            if not common:
                return False
            self._narrowed.append(common != self._common)
            self._common = common
        else:
            if value is None or value != self._common:
                return False
            self._narrowed.append(False)
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if not self.applies(request, subrequest):
            return True
        self._count -= 1
        return not self._narrowed.pop()

    def state(self) -> Hashable:
        return self._common if self._count else None

    def compared_values(self) -> tuple[Value, ...]:
        return (self._common,) if self._count else ()


class DistinctAttribute(_Base):
    """No two devices share a value.

    Of several devices of one request, only the last one is compared with other devices.
    """

    kind = "distinctAttribute"

    def __init__(self, spec: DeviceConstraint, attribute_name: str, features: Features) -> None:
        super().__init__(spec, attribute_name, features)
        self._devices = features.distinct_are_devices
        self._values: dict[str, Value] = {}
        self._replaced: list[bool] = []

    def add(
        self, request: str, subrequest: str, device: PoolDevice, attribute: DeviceAttribute | None
    ) -> bool:
        if not self.applies(request, subrequest):
            return True
        if attribute is None:
            return False
        value = self._value(attribute)
        if self._devices and value is not None:
            value = (value[0], device.id)
        if self._count and not self._differs(value):
            return False
        self._replaced.append(request in self._values)
        self._values[request] = value
        self._count += 1
        return True

    def _differs(self, value: Value) -> bool:
        if self._lists:
            return value is not None and all(
                known is None or not _intersection(known, value) for known in self._values.values()
            )
        if value is None:
            return not self._values
        return value not in self._values.values()

    def remove(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if not self.applies(request, subrequest):
            return True
        self._values.pop(request, None)
        self._count -= 1
        return not self._replaced.pop()

    def state(self) -> Hashable:
        return self._count > 0, frozenset(self._values.items())

    def compared_values(self) -> tuple[Value, ...]:
        return tuple(self._values.values()) if self._count else ()


def _intersection(left: Value, right: Value) -> Value:
    if left is None or right is None or left[0] != right[0]:
        return None
    both = left[1] & right[1]  # type: ignore[operator]  # equal kinds: both are sets
    return (left[0], both) if both else None


class ExactMatchAttribute(MatchAttribute):
    """matchAttribute since 1.37: removing a device restores the state."""

    def __init__(self, spec: DeviceConstraint, attribute_name: str, features: Features) -> None:
        super().__init__(spec, attribute_name, features)
        self._before: list[Value] = []

    def add(
        self, request: str, subrequest: str, device: PoolDevice, attribute: DeviceAttribute | None
    ) -> bool:
        if not self.applies(request, subrequest):
            return True
        if attribute is None:
            return False
        value = self.value(attribute)
        # Without list attributes the first device always fits, even if nothing can match its value.
        if value is None and (self._lists or self._count):
            return False
        if self._count:
            common = _intersection(self._common, value) if self._lists else value
            if common is None or (not self._lists and value != self._common):
                return False
            value = common
        self._before.append(self._common)
        self._common = value
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if self.applies(request, subrequest):
            self._count -= 1
            self._common = self._before.pop()
        return True


class ExactDistinctAttribute(DistinctAttribute):
    """distinctAttribute since 1.37: each device is compared with every other device."""

    def __init__(self, spec: DeviceConstraint, attribute_name: str, features: Features) -> None:
        super().__init__(spec, attribute_name, features)
        self._all: list[Value] = []

    def add(
        self, request: str, subrequest: str, device: PoolDevice, attribute: DeviceAttribute | None
    ) -> bool:
        if not self.applies(request, subrequest):
            return True
        if attribute is None:
            return False
        value = self.value(attribute)
        if value is None:
            if self._lists or self._all:
                return False
        elif any(_clash(value, other) if self._lists else value == other for other in self._all):
            return False
        self._all.append(value)
        return True

    def remove(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if self.applies(request, subrequest):
            self._all.pop()
        return True

    def state(self) -> Hashable:
        return frozenset(Counter(self._all).items())

    def compared_values(self) -> tuple[Value, ...]:
        return tuple(self._all)


def _clash(left: Value, right: Value) -> bool:
    return _intersection(left, right) is not None


def new_constraint(spec: DeviceConstraint, features: Features) -> Constraint | None:
    """Return the constraint that the spec describes, or None if its type is unknown."""
    exact = features.takes_all_back
    if spec.match_attribute is not None:
        return (ExactMatchAttribute if exact else MatchAttribute)(spec, spec.match_attribute, features)
    if spec.distinct_attribute is not None:
        return (ExactDistinctAttribute if exact else DistinctAttribute)(
            spec, spec.distinct_attribute, features
        )
    return None

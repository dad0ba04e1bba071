"""The device that an expression reads.

Mirrors k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra_shared.api.resource import DeviceAttribute, DeviceCapacity
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.values import DomainMap, InvalidValue
from dra_shared.quantity import Quantity, QuantityError
from dra_shared.semver import Semver, SemverError

_UNSUPPORTED: Final = "unsupported attribute value"
_INVALID: Final = "value is invalid or its type is not supported by this version"


class View:
    """A device as an expression sees it: attributes and capacity by domain and id."""

    __slots__ = ("attributes", "capacity", "driver", "multiple")

    def __init__(self, driver: str, multiple: bool, attributes: DomainMap, capacity: DomainMap) -> None:
        self.driver = driver
        self.multiple = multiple
        self.attributes = attributes
        self.capacity = capacity

    def as_map(self) -> dict[str, Any]:
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.multiple,
            "attributes": self.attributes,
            "capacity": self.capacity,
        }


class CelDevice:
    """A device's values. Names without a domain belong to the driver's domain.

    The first expression that runs converts the values. If an attribute is invalid, every expression reports
    that error. Since 1.38, only expressions that read the attribute do.
    """

    __slots__ = ("_views", "allow_multiple_allocations", "attributes", "capacity", "driver")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute] | None = None,
        capacity: Mapping[str, DeviceCapacity] | None = None,
        allow_multiple_allocations: bool | None = None,
    ) -> None:
        self.driver = driver
        self.attributes = attributes or {}
        self.capacity = capacity or {}
        self.allow_multiple_allocations = bool(allow_multiple_allocations)
        self._views: dict[tuple[bool, bool], View] = {}

    def view(self, lists: bool, lazy: bool = False) -> View:
        """Return the converted values.

        Without ``lists``, an attribute with a list is an error. If ``lazy`` is set, an invalid attribute is
        only an error for expressions that read it, and an attribute that is published both with and without the
        driver's domain has the value of the name with the domain.

        Raises:
            EvaluationError: an attribute is invalid, and ``lazy`` is not set.
        """
        view = self._views.get((lists, lazy))
        if view is None:
            view = self._views[lists, lazy] = self._convert(lists, lazy)
        return view

    def _convert(self, lists: bool, lazy: bool) -> View:
        attributes = DomainMap()
        for name, attribute in self.attributes.items():
            domain, id_ = _qualify(name, self.driver)
            try:
                value = attribute_value(attribute, lists=lists)
            except ValueError as error:
                if not lazy:
                    raise EvaluationError(f"attribute {name}: {error}") from None
                value = InvalidValue(f"attribute {id_}: {_INVALID}")
            if not lazy or name != id_ or f"{domain}/{id_}" not in self.attributes:
                attributes.setdefault(domain, {})[id_] = value
        capacity = DomainMap()
        for name, entry in self.capacity.items():
            domain, id_ = _qualify(name, self.driver)
            try:
                capacity.setdefault(domain, {})[id_] = Quantity.parse(entry.value.strip())
            except QuantityError as error:
                raise EvaluationError(f"capacity {name}: {error}") from None
        return View(self.driver, self.allow_multiple_allocations, attributes, capacity)


def attribute_value(attribute: DeviceAttribute, *, lists: bool) -> Any:
    """Return the CEL value of an attribute. Raises ValueError with upstream's message."""
    if lists:
        for values in (attribute.ints, attribute.bools, attribute.strings):
            if values:
                return values
        if attribute.versions:
            return tuple(_version(text) for text in attribute.versions)
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        return _version(attribute.version)
    raise ValueError(_UNSUPPORTED)


def _version(text: str) -> Semver:
    try:
        return Semver.parse(text)
    except SemverError as error:
        raise ValueError(f"parse semantic version: {error}") from None


def _qualify(name: str, driver: str) -> tuple[str, str]:
    domain, slash, id_ = name.partition("/")
    return (domain, id_) if slash else (driver, name)

"""What can turn a device away from a request. Each is the verdict of the very check that the search made."""

from dataclasses import dataclass

from dra_shared.api.resource import DeviceTaint

from dra_scheduler.allocator.capacity import Shortage
from dra_scheduler.allocator.constraints import Value
from dra_scheduler.allocator.pools import CounterKey


@dataclass(frozen=True, slots=True)
class InUse:
    """Claims hold the device, by key."""

    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Picked:
    """Claims of the same attempt have picked the device, by key."""

    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BindingUnsupported:
    """The device has binding conditions while that feature is off."""


@dataclass(frozen=True, slots=True)
class CountersUnsupported:
    """The device consumes counters while that feature is off."""


@dataclass(frozen=True, slots=True)
class SelectorRejected:
    """A selector is not true for the device or, with ``error``, cannot be evaluated.

    ``attributes`` are the values that it may have read, as the API writes them; all of them where that isn't known.
    """

    of_class: str  # the class's name, or empty for the request's own selectors
    index: int
    expression: str
    error: str
    attributes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OtherNode:
    """The slice selects nodes a device, and this device is not for this node."""


@dataclass(frozen=True, slots=True)
class Tainted:
    """No toleration of the request is for the taint."""

    taint: DeviceTaint


@dataclass(frozen=True, slots=True)
class ConstraintUnmet:
    """The device does not go together with those picked before it.

    ``value`` is what the device has (None: it lacks the attribute), ``others`` what it was compared with.
    """

    index: int
    kind: str  # matchAttribute or distinctAttribute
    attribute: str
    value: Value
    others: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class CounterShort:
    """Not enough is left of a shared counter; amounts in billionths. ``left`` allows for this attempt's other picks."""

    counter: CounterKey
    needed: int
    left: int


@dataclass(frozen=True, slots=True)
class CapacityShort:
    """The device's capacity does not do."""

    shortage: Shortage


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """The device itself would do, but with it what the claims need otherwise could not be found."""


Reason = (
    InUse
    | Picked
    | BindingUnsupported
    | CountersUnsupported
    | SelectorRejected
    | OtherNode
    | Tainted
    | ConstraintUnmet
    | CounterShort
    | CapacityShort
    | DeadEnd
)

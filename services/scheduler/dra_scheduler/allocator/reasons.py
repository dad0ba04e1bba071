"""Reasons why a device was rejected for a request. Each is recorded by the check that rejected it."""

from collections.abc import Iterable
from dataclasses import dataclass

from dra_shared.api.resource import DeviceTaint

from dra_scheduler.allocator.amounts import display
from dra_scheduler.allocator.capacity import Shortage
from dra_scheduler.allocator.constraints import Value
from dra_scheduler.allocator.pools import CounterKey


@dataclass(frozen=True, slots=True)
class InUse:
    """Other claims hold the device. ``claims`` are their keys."""

    claims: tuple[str, ...]

    def __str__(self) -> str:
        return f"in use by {_claims(self.claims)}"


@dataclass(frozen=True, slots=True)
class Picked:
    """Other claims of the same attempt have picked the device. ``claims`` are their keys."""

    claims: tuple[str, ...]

    def __str__(self) -> str:
        return f"already picked for {_claims(self.claims)}"


@dataclass(frozen=True, slots=True)
class BindingUnsupported:
    """The device has binding conditions, and the feature is off."""

    def __str__(self) -> str:
        return "has binding conditions, but the DRADeviceBindingConditions feature is disabled"


@dataclass(frozen=True, slots=True)
class CountersUnsupported:
    """The device consumes counters, and the feature for partitionable devices is off."""

    def __str__(self) -> str:
        return "consumes counters, but the DRAPartitionableDevices feature is disabled"


@dataclass(frozen=True, slots=True)
class OperationsNotSkipped:
    """The slice allows skipping node operations, but the feature is ``disabled`` or the node does not support it."""

    disabled: bool

    def __str__(self) -> str:
        text = "node operations are to be skipped, but "
        if self.disabled:
            return f"{text}the DRAOptionalNodeOperations feature is disabled"
        return f"{text}the node does not declare DRAOptionalNodeOperations"


@dataclass(frozen=True, slots=True)
class GroupsClash:
    """The other devices on the counter set have no group in common with the device, or have none at all."""

    counter_set: str
    groups: tuple[str, ...]
    others: tuple[str, ...]

    def __str__(self) -> str:
        def format_names(names: tuple[str, ...]) -> str:
            return f"[{', '.join(names)}]" if names else "none"

        return (
            f"counter set {self.counter_set}: compatibility groups are {format_names(self.groups)}, "
            f"those of the devices in use {format_names(self.others)}"
        )


@dataclass(frozen=True, slots=True)
class SelectorRejected:
    """A selector is false for the device or, with ``error``, cannot be evaluated.

    ``attributes`` are the names and values that the selector may have read, or all of them if that is
    unknown. ``lacks`` are attributes that it may have read and that the device does not have.
    """

    of_class: str  # The name of the class. Empty for the request's own selectors.
    index: int
    expression: str
    error: str
    attributes: tuple[tuple[str, str], ...]
    lacks: tuple[str, ...] = ()

    @property
    def values_text(self) -> str:
        """The values that the selector read, as text."""
        values = [f"{name}={value}" for name, value in self.attributes]
        return ", ".join([*values, *(f"no attribute {name}" for name in self.lacks if not self.error)])

    def __str__(self) -> str:
        of = f"class {self.of_class}" if self.of_class else "the request"
        saw = self.values_text
        text = self.error or f"not true: {self.expression}"
        return f"selector #{self.index} of {of}: {text}" + (f" (saw {saw})" if saw else "")


@dataclass(frozen=True, slots=True)
class OtherNode:
    """The slice selects nodes for each device, and this device is not for this node."""

    def __str__(self) -> str:
        return "not reachable from this node"


@dataclass(frozen=True, slots=True)
class Tainted:
    """No toleration of the request matches the taint."""

    taint: DeviceTaint

    @property
    def text(self) -> str:
        """The taint in kubectl's notation."""
        value = f"={self.taint.value}" if self.taint.value else ""
        return f"{self.taint.key}{value}:{self.taint.effect}"

    def __str__(self) -> str:
        return f"taint {self.text} is not tolerated"


@dataclass(frozen=True, slots=True)
class ConstraintUnmet:
    """The device conflicts with the devices that were picked before it.

    ``value`` is the device's value (None if there is nothing to compare), ``others`` the values that it was
    compared with.
    """

    index: int
    kind: str  # matchAttribute or distinctAttribute
    attribute: str
    value: Value
    others: tuple[Value, ...]
    # True if the device has the attribute, but its value is not comparable, such as a list while that feature
    # is off.
    present: bool = False

    @property
    def texts(self) -> tuple[str, tuple[str, ...]]:
        """The device's value and the others as text. Types are added if they differ: 1 and "1" look the same."""
        kinds = {value[0] for value in (self.value, *self.others) if value is not None}
        value, *others = (
            f"{value_text(each)} ({each[0]})" if len(kinds) > 1 and each is not None else value_text(each)
            for each in (self.value, *self.others)
        )
        return value, tuple(others)

    def __str__(self) -> str:
        if self.value is None and self.present:
            why = "a list, which constraints compare only with the feature DRAListTypeAttributes"
            return f"constraint #{self.index}: the attribute {self.attribute} is {why}"
        if self.value is None:
            return f"constraint #{self.index}: lacks the attribute {self.attribute}"
        value, others = self.texts
        return f"constraint #{self.index}: {self.kind} {self.attribute} is {value}, others have {', '.join(others)}"


@dataclass(frozen=True, slots=True)
class CounterShort:
    """A shared counter has too little left. Amounts are in billionths. ``left`` includes the attempt's picks."""

    counter: CounterKey
    needed: int
    left: int

    def __str__(self) -> str:
        missing = display(self.needed - self.left)
        return f"counter {'/'.join(self.counter)}: needs {display(self.needed)}, lacks {missing}"


@dataclass(frozen=True, slots=True)
class CapacityShort:
    """The device has too little capacity left."""

    shortage: Shortage

    def __str__(self) -> str:
        short = self.shortage
        if short.problem == "undefined":
            return f"has no capacity {short.name}"
        if short.problem == "policy":
            return f"capacity {short.name}: its request policy does not allow {display(short.needed)}"
        missing = display(short.needed - short.left)
        return f"capacity {short.name}: needs {display(short.needed)}, lacks {missing}"


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """The device itself is acceptable, but picking it leaves no solution for the rest of the claims."""

    def __str__(self) -> str:
        return "fits, but then the rest of the claims cannot be satisfied"


Reason = (
    InUse
    | Picked
    | BindingUnsupported
    | CountersUnsupported
    | OperationsNotSkipped
    | GroupsClash
    | SelectorRejected
    | OtherNode
    | Tainted
    | ConstraintUnmet
    | CounterShort
    | CapacityShort
    | DeadEnd
)


def _claims(keys: Iterable[str]) -> str:
    return ", ".join(f"claim {key}" for key in keys)


def value_text(value: Value) -> str:
    """Format an attribute's value for people."""
    if value is None:
        return "of no known kind"
    if isinstance(value[1], frozenset):
        return f"[{', '.join(sorted(_plain(item) for item in value[1]))}]"
    return _plain(value[1])


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

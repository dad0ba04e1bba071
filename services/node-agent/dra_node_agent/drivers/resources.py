"""What a driver wants published: pools of slices, before they are API objects."""

from dataclasses import dataclass, field

from dra_shared.api.resource import CounterSet, Device


@dataclass(frozen=True)
class PoolSlice:
    """The content of one ResourceSlice."""

    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


@dataclass(frozen=True)
class DriverResources:
    """All that a driver publishes for its node, by pool name."""

    pools: dict[str, tuple[PoolSlice, ...]] = field(default_factory=dict)

"""The resources that a driver wants to publish: pools of slices, before they are API objects.

``DriverResources``, ``Pool`` and ``Slice`` of k8s.io/dynamic-resource-allocation/resourceslice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_shared.api.node import NodeSelector
from dra_shared.api.resource import CounterSet, Device, ResourceSliceSpec


@dataclass(frozen=True)
class PoolSlice:
    """The content of one ResourceSlice.

    Args:
        partition_type_attribute: the attribute with the type of a partition (Kubernetes 1.37).
        skip_node_operations: the calls that the kubelet need not make for these devices (Kubernetes 1.37).
    """

    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: ResourceSliceSpec) -> "PoolSlice":
        """Return the content of a slice."""
        return cls(
            spec.devices, spec.shared_counters, spec.partition_type_attribute, spec.skip_node_operations
        )


@dataclass(frozen=True)
class Pool:
    """The devices of one pool.

    Args:
        node_selector: the nodes that can use the devices; without it and without ``all_nodes``, only the driver's
            node can.
        all_nodes: True if all nodes can use them.
        generation: the minimum of the pool's generation; the publisher increases it.
    """

    slices: tuple[PoolSlice, ...]
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    generation: int = 0

    @property
    def of_one_node(self) -> bool:
        """True if only the driver's node can use the devices."""
        return self.node_selector is None and not self.all_nodes


@dataclass(frozen=True)
class DriverResources:
    """All resources that a driver publishes, by pool name."""

    pools: Mapping[str, Pool] = field(default_factory=dict)


class PoolError(ValueError):
    """The resources that a driver wants to publish are inconsistent."""


def validate(resources: DriverResources, driver: str = "") -> None:
    """Find errors that the API server cannot detect in a single slice (validateDriverResources of the same package).

    Args:
        driver: the domain that names of attributes and capacities must not have, because names without domain have
            it (https://github.com/kubernetes/kubernetes/pull/142218). If empty, it is not checked.

    Raises:
        PoolError: a name occurs twice in a pool, the pool lacks counters that its devices consume, or a name has that
            domain.
    """
    for name, pool in resources.pools.items():
        _validate_pool(name, pool)
        for device in (one for slice_ in pool.slices for one in slice_.devices) if driver else ():
            _validate_names(name, device, driver)


def _validate_names(pool: str, device: Device, driver: str) -> None:
    for what, names in (("attribute", device.attributes), ("capacity", device.capacity)):
        for name in names:
            domain, _, short = name.rpartition("/")
            if domain == driver:
                both = f', and "{short}" means the same' if short in names else ""
                raise PoolError(
                    f'{what} "{name}" of device "{device.name}" in pool "{pool}" has the driver\'s own domain{both}:'
                    f' publish it as "{short}"'
                )


def _validate_pool(name: str, pool: Pool) -> None:
    counter_sets: dict[str, CounterSet] = {}
    for slice_ in pool.slices:
        for counter_set in slice_.shared_counters:
            if counter_set.name in counter_sets:
                raise PoolError(f'found duplicate counter set "{counter_set.name}" in pool "{name}"')
            counter_sets[counter_set.name] = counter_set
    devices: set[str] = set()
    for slice_ in pool.slices:
        for device in slice_.devices:
            if device.name in devices:
                raise PoolError(f'found duplicate device "{device.name}" in pool "{name}"')
            devices.add(device.name)
            _validate_device(device, counter_sets)


def _validate_device(device: Device, counter_sets: Mapping[str, CounterSet]) -> None:
    for consumption in device.consumes_counters:
        name = consumption.counter_set
        if name not in counter_sets:
            raise PoolError(f'counter set "{name}" referenced by device "{device.name}" not found')
        for counter in consumption.counters:
            if counter not in counter_sets[name].counters:
                raise PoolError(
                    f'counter "{counter}" referenced by device "{device.name}" not found in counter set "{name}"'
                )

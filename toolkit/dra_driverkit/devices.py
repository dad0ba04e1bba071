"""Devices of a pool as slices that the API accepts (the limits of k8s.io/api/resource/v1)."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from dra_shared.api.node import NodeSelector
from dra_shared.api.resource import CapacityRequestPolicy, CounterSet, Device, DeviceAttribute, DeviceCapacity

from dra_driverkit.resources import DriverResources, Pool, PoolSlice

_DEVICES_PER_SLICE = 128
# The limit if a device has taints or consumes counters.
_DEVICES_PER_HEAVY_SLICE = 64
_COUNTER_SETS_PER_SLICE = 8

T = TypeVar("T")


def pool(
    devices: Sequence[Device],
    counters: Sequence[CounterSet] = (),
    *,
    node_selector: NodeSelector | None = None,
    all_nodes: bool = False,
    generation: int = 0,
) -> Pool:
    """Return a pool with these devices in as few slices as possible.

    Counters are in separate slices, which come first.
    """
    heavy = any(device.consumes_counters or device.taints for device in devices)
    slices = [PoolSlice(shared_counters=part) for part in _parts(counters, _COUNTER_SETS_PER_SLICE)]
    size = _DEVICES_PER_HEAVY_SLICE if heavy else _DEVICES_PER_SLICE
    slices += [PoolSlice(devices=part) for part in _parts(devices, size)]
    return Pool(tuple(slices), node_selector, all_nodes, generation)


def node_pool(
    node_name: str, devices: Sequence[Device], counters: Sequence[CounterSet] = ()
) -> DriverResources:
    """Return the resources that most drivers publish: one pool with the node's name."""
    return DriverResources({node_name: pool(devices, counters)})


def attribute(value: str | bool | int) -> DeviceAttribute:
    """Return an attribute of the value's type. A version needs ``DeviceAttribute(version=…)``."""
    if isinstance(value, bool):
        return DeviceAttribute(bool_=value)
    if isinstance(value, int):
        return DeviceAttribute(int_=value)
    return DeviceAttribute(string=value)


def capacity(value: int | str, policy: CapacityRequestPolicy | None = None) -> DeviceCapacity:
    """Return a capacity from a number, or from a quantity such as ``16Gi``.

    Args:
        policy: the amounts that a claim may request if several claims share the device.
    """
    return DeviceCapacity(value=str(value), request_policy=policy)


def _parts(things: Sequence[T], size: int) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(things), size):
        yield tuple(things[start : start + size])

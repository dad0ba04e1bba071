"""Compare a slice with the content that the driver wants, independent of the API server's notation."""

from collections.abc import Mapping

import msgspec
from dra_shared.api.resource import (
    CapacityRequestPolicy,
    Counter,
    CounterSet,
    Device,
    DeviceCapacity,
    NodeAllocatableResource,
    NodeAllocatableResourceMapping,
)
from dra_shared.quantity import amount_text

from dra_driverkit.resources import PoolSlice


def same_content(wanted: PoolSlice, stored: PoolSlice) -> bool:
    """True if the contents are equal. Quantities are compared by value, and fields set by the server are ignored."""
    if wanted == stored:
        return True
    if (wanted.partition_type_attribute, wanted.skip_node_operations) != (
        stored.partition_type_attribute,
        stored.skip_node_operations,
    ):
        return False
    return [_set(group) for group in wanted.shared_counters] == [
        _set(group) for group in stored.shared_counters
    ] and [_device(device) for device in wanted.devices] == [_device(device) for device in stored.devices]


def _set(group: CounterSet) -> CounterSet:
    return msgspec.structs.replace(group, counters=_counters(group.counters))


def _device(device: Device) -> Device:
    return msgspec.structs.replace(
        device,
        capacity={name: _capacity(capacity) for name, capacity in device.capacity.items()},
        consumes_counters=tuple(
            msgspec.structs.replace(part, counters=_counters(part.counters))
            for part in device.consumes_counters
        ),
        taints=tuple(msgspec.structs.replace(taint, time_added=None) for taint in device.taints),
        node_allocatable_resource_mappings={
            name: _mapping(mapping) for name, mapping in device.node_allocatable_resource_mappings.items()
        },
        node_allocatable_resources={
            name: _resource(entry) for name, entry in device.node_allocatable_resources.items()
        },
    )


def _counters(counters: Mapping[str, Counter]) -> dict[str, Counter]:
    return {name: Counter(value=amount_text(counter.value)) for name, counter in counters.items()}


def _capacity(capacity: DeviceCapacity) -> DeviceCapacity:
    policy = capacity.request_policy
    return DeviceCapacity(
        value=amount_text(capacity.value), request_policy=None if policy is None else _policy(policy)
    )


def _policy(policy: CapacityRequestPolicy) -> CapacityRequestPolicy:
    bounds = policy.valid_range
    if bounds is not None:
        bounds = msgspec.structs.replace(
            bounds, min=_optional(bounds.min), max=_optional(bounds.max), step=_optional(bounds.step)
        )
    return msgspec.structs.replace(
        policy,
        default=_optional(policy.default),
        valid_range=bounds,
        valid_values=tuple(map(amount_text, policy.valid_values)),
    )


def _mapping(mapping: NodeAllocatableResourceMapping) -> NodeAllocatableResourceMapping:
    return msgspec.structs.replace(
        mapping, allocation_multiplier=amount_text(mapping.allocation_multiplier or "1")
    )


def _resource(entry: NodeAllocatableResource) -> NodeAllocatableResource:
    mapping, overhead = entry.mapping, entry.overhead
    if mapping is not None:
        mapping = msgspec.structs.replace(
            mapping,
            capacity_multiplier=_optional(mapping.capacity_multiplier),
            device_multiplier=_optional(mapping.device_multiplier),
        )
    if overhead is not None:
        overhead = msgspec.structs.replace(
            overhead, per_pod=_optional(overhead.per_pod), per_container=_optional(overhead.per_container)
        )
    return NodeAllocatableResource(mapping=mapping, overhead=overhead)


def _optional(text: str | None) -> str | None:
    return None if text is None else amount_text(text)

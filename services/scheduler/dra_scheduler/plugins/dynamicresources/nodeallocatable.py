"""Devices that consume CPU, memory or similar resources of the node (DRANodeAllocatableResources, alpha since 1.36).

Mirrors upstream's ``pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go``.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from dra_shared.api.pod import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from dra_shared.api.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
    ResourceClaim,
    ResourceSlice,
)
from dra_shared.quantity import Quantity

from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Amounts,
    amounts,
    container_overhead,
    pod_limits,
    pod_requests,
)
from dra_scheduler.framework.status import Status, unresolvable, unschedulable
from dra_scheduler.plugins.noderesources import shortfalls

_NANO = 9
_HUGE_PAGES = "hugepages-"
_OWN = frozenset((CPU, MEMORY, EPHEMERAL_STORAGE))


class NeedsUnknown(Exception):
    """The node resources that an allocated device consumes are unknown."""


def find_device(slices: Iterable[ResourceSlice], result: DeviceRequestAllocationResult) -> Device | None:
    """Return the device that was allocated, or None."""
    for piece in slices:
        if piece.spec.pool.name == result.pool and result.driver in ("", piece.spec.driver):
            for device in piece.spec.devices:
                if device.name == result.device:
                    return device
    return None


class Takers:
    """Tracks which slices have devices that consume node resources. Registered as a listener of the slices."""

    def __init__(self, *, since_1_37: bool) -> None:
        self._since_1_37 = since_1_37
        self._names: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._names)

    def track(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Track a slice that was added, changed or deleted."""
        if old is not None:
            self._names.discard(old.metadata.name)
        if new is not None and any(takes_from_node(d, since_1_37=self._since_1_37) for d in new.spec.devices):
            self._names.add(new.metadata.name)


def takes_from_node(device: Device, *, since_1_37: bool) -> bool:
    """True if the device consumes resources of its node. The field that is read depends on the version."""
    return bool(
        device.node_allocatable_resources if since_1_37 else device.node_allocatable_resource_mappings
    )


def is_mapped(device: Device) -> bool:
    """True if the device represents resources of the node, instead of only adding overhead to its users."""
    mapped = any(entry.mapping is not None for entry in device.node_allocatable_resources.values())
    return mapped or bool(device.node_allocatable_resource_mappings)


def claim_statuses(
    pod: Pod,
    allocations: Sequence[tuple[ResourceClaim, AllocationResult, str]],
    slices: Sequence[ResourceSlice],
    *,
    since_1_37: bool,
    qualified: bool = False,
) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return the node resources that each claim consumes, for the pod's status, sorted by claim.

    ``allocations`` are the claims with their allocations and the names by which the pod's containers refer
    to them. ``since_1_37`` selects that version's messages. If ``qualified`` is set, as since 1.38, a capacity name
    without a domain has the driver's.

    Raises:
        NeedsUnknown: a device is in none of the slices, or lacks a consumed capacity that is needed.
    """
    statuses = []
    for claim, allocation, pod_claim in allocations:
        taken = _Taken(since_1_37, qualified)
        for result in allocation.devices.results:
            taken.add(claim, result, slices)
        if taken.resources or taken.mapped or taken.overhead:
            statuses.append(
                NodeAllocatableResourceClaimStatus(
                    resource_claim_name=claim.metadata.name,
                    containers=tuple(
                        container.name
                        for container in (*pod.spec.init_containers, *pod.spec.containers)
                        if any(use.name == pod_claim for use in container.resources.claims)
                    ),
                    resources={name: str(quantity) for name, quantity in taken.resources.items()},
                    mapping=tuple(
                        NodeAllocatableMappedResources(name=name, quantity=str(quantity))
                        for name, quantity in sorted(taken.mapped.items())
                    ),
                    overhead=tuple(taken.overhead[name] for name in sorted(taken.overhead)),
                )
            )
    return tuple(sorted(statuses, key=lambda status: status.resource_claim_name))


class _Taken:
    """The resources that the devices of one claim consume: in the form of 1.36, and as mapping and overhead (1.37)."""

    def __init__(self, since_1_37: bool, qualified: bool) -> None:
        self._since_1_37 = since_1_37
        self._qualified = qualified
        self.resources: dict[str, Quantity] = {}
        self.mapped: dict[str, Quantity] = {}
        self.overhead: dict[str, NodeAllocatableOverheadResources] = {}

    def add(
        self, claim: ResourceClaim, result: DeviceRequestAllocationResult, slices: Sequence[ResourceSlice]
    ) -> None:
        where = f"claim {claim.metadata.namespace}/{claim.metadata.name}, device {result.device}"
        device = find_device(slices, result)
        if device is None:
            missing = f"device {result.device} not found in pool {result.pool}"
            if self._since_1_37:
                raise NeedsUnknown(f"{where}, driver {result.driver}: {missing} for driver {result.driver}")
            raise NeedsUnknown(f"{where}: {missing}")
        if not takes_from_node(device, since_1_37=self._since_1_37):
            return
        if self._qualified:
            result = msgspec.structs.replace(
                result, consumed_capacity=_qualify(result.consumed_capacity, result.driver)
            )
        for resource, mapping in sorted(device.node_allocatable_resource_mappings.items()):
            about = f"NodeAllocatableResourceMappings for resource {resource}"
            key, factor = mapping.capacity_key, mapping.allocation_multiplier
            consumed = _consumed_capacity(result, key, where, about) if key else None
            if not key:
                _sum(self.resources, resource, None if factor is None else Quantity.parse(factor))
            elif consumed is not None:
                product = consumed if factor is None else multiply(consumed, Quantity.parse(factor))
                _sum(self.resources, resource, product)
        for resource, entry in sorted(device.node_allocatable_resources.items()):
            if entry.mapping is not None:
                about = f"NodeAllocatableResources for resource {resource}"
                named = self._qualify(entry.mapping, result.driver)
                _sum(self.mapped, resource, _mapped_amount(result, named, where, about))
            if entry.overhead is not None:
                known = self.overhead.get(resource, NodeAllocatableOverheadResources(name=resource))
                self.overhead[resource] = NodeAllocatableOverheadResources(
                    name=resource,
                    per_pod=_plus(known.per_pod, entry.overhead.per_pod),
                    per_container=_plus(known.per_container, entry.overhead.per_container),
                )

    def _qualify(self, mapping: NodeAllocatableMapping, driver: str) -> NodeAllocatableMapping:
        """Return the mapping with the domain of its capacity, as the consumption has it then."""
        key = mapping.capacity_key
        if not self._qualified or not key or "/" in key:
            return mapping
        return msgspec.structs.replace(mapping, capacity_key=f"{driver}/{key}")


def _qualify(consumed: Mapping[str, str], driver: str) -> dict[str, str]:
    """Return the consumed capacities by names with domains. A name that already has the domain takes precedence."""
    full = {f"{driver}/{name}": amount for name, amount in consumed.items() if "/" not in name}
    return full | {name: amount for name, amount in consumed.items() if "/" in name}


def _consumed_capacity(
    result: DeviceRequestAllocationResult, key: str, where: str, about: str
) -> Quantity | None:
    """Return the consumption of the capacity ``key``, or None if the allocation does not list it."""
    if not result.consumed_capacity:
        raise NeedsUnknown(f"{where}: ConsumedCapacity is nil, but Capacity key '{key}' is set in {about}")
    consumed = result.consumed_capacity.get(key)
    return None if consumed is None else Quantity.parse(consumed)


def _mapped_amount(
    result: DeviceRequestAllocationResult, mapping: NodeAllocatableMapping, where: str, about: str
) -> Quantity | None:
    """Return the exact amount that a device represents since 1.37, in the format of its capacity."""
    if not mapping.capacity_key:
        return None if mapping.device_multiplier is None else Quantity.parse(mapping.device_multiplier)
    consumed = _consumed_capacity(result, mapping.capacity_key, where, about)
    if consumed is None or mapping.capacity_multiplier is None:
        return consumed
    factor = Quantity.parse(mapping.capacity_multiplier)
    if factor == Quantity(1):
        return consumed
    number, exponent = consumed.number * factor.number, consumed.exponent + factor.exponent
    return Quantity(number, exponent, consumed.format, decimal=True)


def _sum(totals: dict[str, Quantity], resource: str, more: Quantity | None) -> None:
    if more is not None:
        totals[resource] = totals[resource].add(more) if resource in totals else more


def _plus(known: str | None, more: str | None) -> str | None:
    if known is None or more is None:
        return more if known is None else known
    return str(Quantity.parse(known).add(Quantity.parse(more)))


def multiply(quantity: Quantity, factor: Quantity) -> Quantity:
    """Return the product, exact to a billionth."""
    whole = factor.as_int64()
    if whole is not None:
        return quantity.mul(whole)
    nanos = quantity.scaled_value(-_NANO) * factor.scaled_value(-_NANO)
    return Quantity.parse(f"{-(-nanos // 10**_NANO)}n")


def needs_with(pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]) -> tuple[Pod, Amounts]:
    """Return the pod with those statuses, and the node resources that it then needs."""
    status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=tuple(statuses))
    pod = msgspec.structs.replace(pod, status=status)
    return pod, pod_requests(pod)


def check_pod_level(pod: Pod) -> Status | None:
    """Check that the pod-level requests and limits, if any, cover its containers and claims together."""
    if pod.spec.resources is None:
        return None
    bare = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, overhead={}))
    together = pod_requests(bare, pod_level=False)
    for name, value in sorted(amounts(pod.spec.resources.requests).items(), reverse=True):
        if together.get(name, 0) > value:
            return unresolvable(
                f"pod level request for {name} is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests"
            )
    if any(status.resources for status in pod.status.node_allocatable_resource_claim_statuses):
        # 1.36 does not check limits.
        return None
    return _check_limits(bare, amounts(pod.spec.resources.limits))


def _check_limits(pod: Pod, most: Amounts) -> Status | None:
    together = pod_limits(pod)
    for name in sorted(most):
        if name.startswith(_HUGE_PAGES) and together.get(name, 0) > most[name]:
            return unresolvable(
                f"pod level limit for {name} is insufficient to cover the aggregated container and "
                "node-allocatable DRA limits"
            )
    for container in pod.spec.containers:
        overhead = container_overhead(pod, container.name)
        for name, value in sorted(amounts(container.resources.limits).items()):
            if (
                name in most
                and not name.startswith(_HUGE_PAGES)
                and value + overhead.get(name, 0) > most[name]
            ):
                return unresolvable(
                    f"pod level limit for {name} is insufficient to cover the limit and DRA overhead for "
                    f"container {container.name}"
                )
    return None


def check_fit(node: NodeInfo, needs: Amounts) -> Status | None:
    """Check that the node has the resources left that devices consume. NodeResourcesFit checks the others."""
    own = {name: value for name, value in needs.items() if name in _OWN or name.startswith(_HUGE_PAGES)}
    missing = shortfalls(own, node)
    if not missing:
        return None
    reasons = (reason for reason, _ in missing)
    return unresolvable(*reasons) if any(never for _, never in missing) else unschedulable(*reasons)

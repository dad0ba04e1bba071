"""Devices that consume the node's own CPU, memory and the like (DRANodeAllocatableResources, alpha since 1.36).

Mirrors upstream's ``pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go``.
"""

from collections.abc import Iterable, Sequence

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
    """What an allocated device takes from the node is unknown."""


def find_device(slices: Iterable[ResourceSlice], result: DeviceRequestAllocationResult) -> Device | None:
    """The device that was allocated."""
    for piece in slices:
        if piece.spec.pool.name == result.pool and result.driver in ("", piece.spec.driver):
            for device in piece.spec.devices:
                if device.name == result.device:
                    return device
    return None


class Takers:
    """The slices with devices that take anything from their nodes, as a listener of the slices."""

    def __init__(self, *, since_1_37: bool) -> None:
        self._since_1_37 = since_1_37
        self._names: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._names)

    def changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """A slice came, changed or went."""
        if old is not None:
            self._names.discard(old.metadata.name)
        if new is not None and any(takes_from_node(d, since_1_37=self._since_1_37) for d in new.spec.devices):
            self._names.add(new.metadata.name)


def takes_from_node(device: Device, *, since_1_37: bool) -> bool:
    """Whether an allocated device takes anything from its node. Each scheduler reads what its version has."""
    return bool(
        device.node_allocatable_resources if since_1_37 else device.node_allocatable_resource_mappings
    )


def is_mapped(device: Device) -> bool:
    """Whether the device stands for resources of the node, and not only adds to what its users take."""
    mapped = any(entry.mapping is not None for entry in device.node_allocatable_resources.values())
    return mapped or bool(device.node_allocatable_resource_mappings)


def claim_statuses(
    pod: Pod,
    allocations: Sequence[tuple[ResourceClaim, AllocationResult, str]],
    slices: Sequence[ResourceSlice],
    *,
    since_1_37: bool,
) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """What each claim takes from the node, for the pod's status; sorted by claim.

    ``allocations``: the claims, what is allocated for them, and what the pod's containers call them. ``since_1_37``:
    whether errors have that version's words.

    Raises:
        NeedsUnknown: a device is in none of the slices, or has no consumed capacity where that counts.
    """
    statuses = []
    for claim, allocation, pod_claim in allocations:
        taken = _Taken(since_1_37)
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
    """What the devices of one claim take, by resource: as 1.36 has it, and what they stand for and add since 1.37."""

    def __init__(self, since_1_37: bool) -> None:
        self._since_1_37 = since_1_37
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
        for resource, mapping in sorted(device.node_allocatable_resource_mappings.items()):
            about = f"NodeAllocatableResourceMappings for resource {resource}"
            key, factor = mapping.capacity_key, mapping.allocation_multiplier
            consumed = _consumed(result, key, where, about) if key else None
            if not key:
                _sum(self.resources, resource, None if factor is None else Quantity.parse(factor))
            elif consumed is not None:
                product = consumed if factor is None else multiply(consumed, Quantity.parse(factor))
                _sum(self.resources, resource, product)
        for resource, entry in sorted(device.node_allocatable_resources.items()):
            if entry.mapping is not None:
                about = f"NodeAllocatableResources for resource {resource}"
                _sum(self.mapped, resource, _mapped(result, entry.mapping, where, about))
            if entry.overhead is not None:
                known = self.overhead.get(resource, NodeAllocatableOverheadResources(name=resource))
                self.overhead[resource] = NodeAllocatableOverheadResources(
                    name=resource,
                    per_pod=_plus(known.per_pod, entry.overhead.per_pod),
                    per_container=_plus(known.per_container, entry.overhead.per_container),
                )


def _consumed(result: DeviceRequestAllocationResult, key: str, where: str, about: str) -> Quantity | None:
    """Return how much of the capacity ``key`` is consumed, or None if none of that very name is."""
    if not result.consumed_capacity:
        raise NeedsUnknown(f"{where}: ConsumedCapacity is nil, but Capacity key '{key}' is set in {about}")
    consumed = result.consumed_capacity.get(key)
    return None if consumed is None else Quantity.parse(consumed)


def _mapped(
    result: DeviceRequestAllocationResult, mapping: NodeAllocatableMapping, where: str, about: str
) -> Quantity | None:
    """What a device stands for since 1.37: exactly, in the format of its capacity."""
    if not mapping.capacity_key:
        return None if mapping.device_multiplier is None else Quantity.parse(mapping.device_multiplier)
    consumed = _consumed(result, mapping.capacity_key, where, about)
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
    """The product, exact to a billionth."""
    whole = factor.as_int64()
    if whole is not None:
        return quantity.mul(whole)
    nanos = quantity.scaled_value(-_NANO) * factor.scaled_value(-_NANO)
    return Quantity.parse(f"{-(-nanos // 10**_NANO)}n")


def needs_with(pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]) -> tuple[Pod, Amounts]:
    """The pod with those statuses, and what it then needs of the node."""
    status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=tuple(statuses))
    pod = msgspec.structs.replace(pod, status=status)
    return pod, pod_requests(pod)


def check_pod_level(pod: Pod) -> Status | None:
    """Whether requests and limits of the pod as a whole, where there are any, cover containers and claims together."""
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
        # In 1.36 limits are not looked at.
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
    """Whether the node has the resources left that devices can take of it; NodeResourcesFit looks at the others."""
    own = {name: value for name, value in needs.items() if name in _OWN or name.startswith(_HUGE_PAGES)}
    missing = shortfalls(own, node)
    if not missing:
        return None
    reasons = (reason for reason, _ in missing)
    return unresolvable(*reasons) if any(never for _, never in missing) else unschedulable(*reasons)

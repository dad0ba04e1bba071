"""Devices that consume the node's own CPU, memory and the like (DRANodeAllocatableResources, alpha in 1.36).

Mirrors upstream's ``pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go``.
"""

from collections.abc import Iterable, Sequence

import msgspec
from dra_shared.api.pod import NodeAllocatableResourceClaimStatus, Pod
from dra_shared.api.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from dra_shared.quantity import Quantity

from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.resources import Amounts, amounts, pod_requests
from dra_scheduler.framework.status import Status, unresolvable, unschedulable
from dra_scheduler.plugins.noderesources import shortfalls

_NANO = 9


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


def claim_statuses(
    pod: Pod,
    allocations: Sequence[tuple[ResourceClaim, AllocationResult, str]],
    slices: Sequence[ResourceSlice],
) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """What each claim takes from the node, for the pod's status; sorted by claim.

    ``allocations``: the claims, what is allocated for them, and what the pod's containers call them.

    Raises:
        NeedsUnknown: a device is in none of the slices, or has no consumed capacity where that counts.
    """
    statuses = []
    for claim, allocation, pod_claim in allocations:
        taken = _taken(claim, allocation, slices)
        if taken:
            statuses.append(
                NodeAllocatableResourceClaimStatus(
                    resource_claim_name=claim.metadata.name,
                    containers=tuple(
                        container.name
                        for container in (*pod.spec.init_containers, *pod.spec.containers)
                        if any(use.name == pod_claim for use in container.resources.claims)
                    ),
                    resources={name: str(quantity) for name, quantity in taken.items()},
                )
            )
    return tuple(sorted(statuses, key=lambda status: status.resource_claim_name))


def _taken(
    claim: ResourceClaim, allocation: AllocationResult, slices: Sequence[ResourceSlice]
) -> dict[str, Quantity]:
    taken: dict[str, Quantity] = {}
    for result in allocation.devices.results:
        where = f"claim {claim.metadata.namespace}/{claim.metadata.name}, device {result.device}"
        device = find_device(slices, result)
        if device is None:
            raise NeedsUnknown(f"{where}: device {result.device} not found in pool {result.pool}")
        for resource, mapping in sorted(device.node_allocatable_resource_mappings.items()):
            factor = (
                Quantity.parse(mapping.allocation_multiplier)
                if mapping.allocation_multiplier is not None
                else None
            )
            if mapping.capacity_key:
                if not result.consumed_capacity:
                    raise NeedsUnknown(
                        f"{where}: ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' is set in "
                        f"NodeAllocatableResourceMappings for resource {resource}"
                    )
                consumed = result.consumed_capacity.get(mapping.capacity_key)
                if consumed is None:
                    continue
                quantity = Quantity.parse(consumed)
                if factor is not None:
                    quantity = multiply(quantity, factor)
            elif factor is not None:
                quantity = factor
            else:
                continue
            taken[resource] = taken[resource].add(quantity) if resource in taken else quantity
    return taken


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
    """Whether pod-level requests, where there are any, cover containers and claims together."""
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
    return None


def check_fit(node: NodeInfo, needs: Amounts) -> Status | None:
    """Whether the node has the resources left."""
    missing = shortfalls(needs, node)
    if not missing:
        return None
    reasons = (reason for reason, _ in missing)
    return unresolvable(*reasons) if any(never for _, never in missing) else unschedulable(*reasons)

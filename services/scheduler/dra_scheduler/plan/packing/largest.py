"""The largest shape of each class that a claim could still get from a node, as the allocator offers it."""

from collections.abc import Iterator

from dra_shared.api.node import Node

from dra_scheduler.allocator import AllocationError
from dra_scheduler.allocator.amounts import amount, display
from dra_scheduler.allocator.offers import Offer
from dra_scheduler.allocator.pools import PoolDevice
from dra_scheduler.allocator.reasons import CapacityShort
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.free import shape_of
from dra_scheduler.plan.packing.answer import Largest

# The capacity by which devices are compared, if they have it.
_MAIN = "memory"


def largest(manager: DRAManager, node: Node) -> Iterator[Largest]:
    """Return for each class the free shape with the largest capacity, and the number of such devices."""
    for device_class in sorted(each.metadata.name for each in manager.classes.list()):
        left: dict[str, list[dict[str, int]]] = {}
        try:
            for offer in manager.allocator.offers(node, device_class, shape_of):
                amounts = _remaining_capacity(manager, offer.device)
                if offer.refusal is None or _has_share(offer, amounts):
                    left.setdefault(shape_of(offer.device), []).append(amounts)
        except AllocationError:
            continue
        if left:
            shape, devices = max(left.items(), key=lambda each: (max(map(_rank, each[1])), len(each[1])))
            best = max(devices, key=_rank)
            yield Largest(
                device_class=device_class,
                shape=shape,
                count=len(devices),
                capacity={name: display(value) for name, value in sorted(best.items())},
            )


def _remaining_capacity(manager: DRAManager, device: PoolDevice) -> dict[str, int]:
    used = manager.claims.state.consumed.get(device.id, {})
    return {name: amount(each.value) - used.get(name, 0) for name, each in device.spec.capacity.items()}


def _has_share(offer: Offer, left: dict[str, int]) -> bool:
    """True if a claim that requests small enough amounts could get a share, although one without amounts could not."""
    return isinstance(offer.refusal, CapacityShort) and all(value > 0 for value in left.values())


def _rank(capacity: dict[str, int]) -> int:
    return capacity.get(_MAIN, max(capacity.values(), default=0))

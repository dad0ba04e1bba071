"""A trace of an allocation: which devices the search looked at and why it rejected them; recorded on request."""

from dataclasses import dataclass, field

from dra_shared.api.node import Node
from dra_shared.api.resource import AllocationResult, ResourceClaim

from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.reasons import BindingUnsupported, Reason, SelectorRejected
from dra_scheduler.allocator.requests import Attempt, Request
from dra_scheduler.allocator.state import DeviceID

# A device can fail in as many ways as there are combinations of others; at most so many are recorded.
_MAX_REASONS = 8


@dataclass(slots=True)
class RequestTrace:
    """One request or subrequest of a claim: each device that was rejected, and why.

    A device that different branches of the search rejected for different reasons has several. A device that the search
    did not reach has the reason why the request could not have it by itself.
    ``suitable`` are the devices that the request could have by itself. ``reached`` is false if the search never tried
    the request: an earlier alternative was taken, or an earlier request could not be satisfied.
    """

    claim: str
    request: str
    device_class: str
    # How many devices are asked for; 0: all.
    count: int = 0
    devices: dict[DeviceID, list[Reason]] = field(default_factory=dict)
    suitable: list[DeviceID] = field(default_factory=list)
    reached: bool = False


@dataclass(slots=True)
class PoolTrace:
    """One pool that the node sees."""

    driver: str
    pool: str
    generation: int
    devices: int
    # Only where devices are not taken from the pool: it lacks slices, or contradicts itself.
    slices_known: int = 0
    slices_wanted: int = 0
    incomplete: bool = False
    invalid: str = ""


class Trace:
    """Hand one to ``Allocator.allocate`` and read it afterwards; a trace is for one call.

    ``alone``: it also gets the verdict on every device for every request by itself, which takes longer.
    """

    def __init__(self, *, alone: bool = True) -> None:
        self.alone = alone
        self.node = ""
        self.claims: tuple[ResourceClaim, ...] = ()
        self.pools: list[PoolTrace] = []
        self.requests: list[RequestTrace] = []
        self.results: tuple[AllocationResult, ...] | None = None
        self.error = ""
        self._pools_done: set[tuple[int, Pool]] = set()

    def begin(self, node: Node, pools: tuple[Pool, ...], attempt: Attempt) -> None:
        """The search is about to start with these pools and claims."""
        self.node = node.metadata.name
        self.claims = attempt.claims
        for pool in pools:
            driver, name = pool.id
            self.pools.append(
                PoolTrace(
                    driver,
                    name,
                    pool.generation,
                    len(pool.devices),
                    pool.slices_known,
                    pool.slices_wanted,
                    pool.incomplete,
                    pool.invalid_reason or "",
                )
            )
        for request in attempt.requests:
            self.requests.append(
                RequestTrace(
                    request.claim.key,
                    request.full_name,
                    request.device_class.metadata.name,
                    0 if request.all_devices else request.count,
                )
            )

    def end(self, results: tuple[AllocationResult, ...]) -> None:
        """The search has found a solution."""
        self.results = results

    def fail(self, error: str) -> None:
        """The search has met an error."""
        self.error = error

    def started(self, request: Request) -> None:
        """The search begins to look for the request's devices."""
        self.requests[request.number].reached = True

    def suits(self, request: Request, device: PoolDevice) -> None:
        """The request could have the device by itself."""
        self.requests[request.number].suitable.append(device.id)

    def not_reached(self, request: Request, device: PoolDevice, reason: Reason) -> None:
        """The request could not have the device by itself; recorded unless the search has rejected the device."""
        self.requests[request.number].devices.setdefault(device.id, [reason])

    def turned_away(self, request: Request, pool: Pool, device: PoolDevice, reason: Reason) -> None:
        """The device was looked at for the request, and not taken."""
        reasons = self.requests[request.number].devices.setdefault(device.id, [])
        if len(reasons) < _MAX_REASONS and reason not in reasons:
            reasons.append(reason)

    def selectors_applied(self, request: Request, pool: Pool) -> None:
        """The pool's devices are being narrowed down to those that the selectors accept."""
        if (request.number, pool) in self._pools_done:
            return
        self._pools_done.add((request.number, pool))
        selection = request.selection
        for device in pool.devices:
            if not selection.bindable(device):
                self.turned_away(request, pool, device, BindingUnsupported())
                continue
            rejection = selection.rejection(device)
            if rejection is not None:
                self.turned_away(
                    request,
                    pool,
                    device,
                    SelectorRejected(
                        request.device_class.metadata.name if rejection.of_class else "",
                        rejection.index,
                        rejection.expression,
                        rejection.error,
                        selection.values_seen(rejection, device),
                        selection.attributes_lacked(rejection, device),
                    ),
                )

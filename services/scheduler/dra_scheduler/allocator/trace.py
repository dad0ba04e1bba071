"""A trace of an allocation: the devices that the search considered, and the reasons against them."""

from dataclasses import dataclass, field

from dra_shared.api.node import Node
from dra_shared.api.resource import AllocationResult, ResourceClaim

from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.reasons import BindingUnsupported, Reason, SelectorRejected
from dra_scheduler.allocator.requests import Attempt, Request
from dra_scheduler.allocator.state import DeviceID

# A device can be rejected once for each combination of other devices. At most this many reasons are recorded.
_MAX_REASONS = 8


@dataclass(slots=True)
class RequestTrace:
    """The rejected devices of a request or subrequest, with the reasons.

    A device has several reasons if branches of the search rejected it for different reasons. For a device that
    the search did not reach, the reason is why the request could not get it even if it were the only request.
    ``suitable`` are the devices that the request could get if it were the only one. ``reached`` is false if the
    search never tried the request, because an earlier alternative was taken or an earlier request could not be
    satisfied.
    """

    claim: str
    request: str
    device_class: str
    # The number of requested devices. 0: all.
    count: int = 0
    devices: dict[DeviceID, list[Reason]] = field(default_factory=dict)
    suitable: list[DeviceID] = field(default_factory=list)
    reached: bool = False


@dataclass(slots=True)
class PoolTrace:
    """A pool that the node can see."""

    driver: str
    pool: str
    generation: int
    devices: int
    # The reason why the pool's devices cannot be allocated: it is incomplete or inconsistent. Otherwise empty.
    slices_known: int = 0
    slices_wanted: int = 0
    incomplete: bool = False
    invalid: str = ""


class Trace:
    """Records an allocation.

    Pass a trace to ``Allocator.allocate`` and read it afterwards. Use a new one for each call. With ``alone``,
    it also gets a verdict on every device for every request considered alone, which takes longer.
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
        """Record that the search starts with these pools and claims."""
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
        """Record the solution."""
        self.results = results

    def fail(self, error: str) -> None:
        """Record the error that ended the search."""
        self.error = error

    def start_request(self, request: Request) -> None:
        """Record that the search for the request's devices begins."""
        self.requests[request.number].reached = True

    def suits(self, request: Request, device: PoolDevice) -> None:
        """Record that the request could get the device if it were the only request."""
        self.requests[request.number].suitable.append(device.id)

    def not_reached(self, request: Request, device: PoolDevice, reason: Reason) -> None:
        """Record why the request alone could not get the device, unless the search has already rejected it."""
        self.requests[request.number].devices.setdefault(device.id, [reason])

    def turned_away(self, request: Request, pool: Pool, device: PoolDevice, reason: Reason) -> None:
        """Record that the search considered the device for the request and rejected it."""
        reasons = self.requests[request.number].devices.setdefault(device.id, [])
        if len(reasons) < _MAX_REASONS and reason not in reasons:
            reasons.append(reason)

    def selectors_applied(self, request: Request, pool: Pool) -> None:
        """Record the devices of the pool that the selectors reject."""
        if (request.number, pool) in self._pools_done:
            return
        self._pools_done.add((request.number, pool))
        selection = request.selection
        for device in pool.devices:
            if not selection.is_bindable(device):
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

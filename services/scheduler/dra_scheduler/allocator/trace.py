"""A trace of an allocation: which devices the search looked at and why it rejected them; recorded on request."""

from dataclasses import dataclass, field

from dra_shared.api.node import Node
from dra_shared.api.resource import AllocationResult

from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.reasons import BindingUnsupported, Reason, SelectorRejected
from dra_scheduler.allocator.requests import Attempt, Request
from dra_scheduler.allocator.state import DeviceID

# A device can fail in as many ways as there are combinations of others; at most so many are recorded.
_MAX_REASONS = 8


@dataclass(slots=True)
class RequestTrace:
    """One request or subrequest of a claim: each device looked at and why it wasn't taken, in order of the search.

    A device that different branches of the search turned away for different reasons has several. A request without
    any device was not reached: what comes before it could not be satisfied.
    """

    claim: str
    request: str
    device_class: str
    # How many devices are asked for; 0: all.
    count: int = 0
    devices: dict[DeviceID, list[Reason]] = field(default_factory=dict)


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
    """Hand one to ``Allocator.allocate`` and read it afterwards; a trace is for one call."""

    def __init__(self) -> None:
        self.node = ""
        self.pools: list[PoolTrace] = []
        self.requests: list[RequestTrace] = []
        self.results: tuple[AllocationResult, ...] | None = None
        self.error = ""
        self._pools_done: set[tuple[int, Pool]] = set()

    def begin(self, node: Node, pools: tuple[Pool, ...], attempt: Attempt) -> None:
        """The search is about to start with these pools and claims."""
        self.node = node.metadata.name
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
                    ),
                )

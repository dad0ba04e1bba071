"""Verdicts on each device for each request considered alone, for explanations.

A search ends with its first solution, so it gives no verdict on later devices and alternatives.
"""

from collections.abc import Callable, Iterable, Sequence

from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.picks import Picks, Recorder
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.reasons import Reason
from dra_scheduler.allocator.requests import Request
from dra_scheduler.allocator.selectors import Candidate
from dra_scheduler.allocator.trace import Trace


class _FirstReason:
    """Stores the first reason why a device was rejected."""

    def __init__(self) -> None:
        self.reason: Reason | None = None

    def take(self) -> Reason | None:
        """Return the reason and reset it."""
        reason, self.reason = self.reason, None
        return reason

    def turned_away(self, request: Request, pool: Pool, device: PoolDevice, reason: Reason) -> None:
        """Keep the reason if it is the first."""
        self.reason = self.reason or reason


def judge(
    trace: Trace,
    requests: Iterable[Request],
    candidates: Callable[[Request], Sequence[Candidate]],
    new_picks: Callable[[Recorder], Picks],
) -> None:
    """Record the devices that each request could get if it were the only one, and why the others are rejected."""
    for request in requests:
        recorder = _FirstReason()
        picks = new_picks(recorder)
        for device, pool, failing in candidates(request):
            if failing is not None:
                continue
            leaks = picks.leaks
            if _could_have(picks, request, pool, device):
                trace.suits(request, device)
            reason = recorder.take()
            if reason is not None:
                trace.not_reached(request, device, reason)
            if picks.leaks != leaks:
                # Use new picks for each device: state that upstream leaks must not count against the next
                # device.
                picks = new_picks(recorder)


def _could_have(picks: Picks, request: Request, pool: Pool, device: PoolDevice) -> bool:
    try:
        if not (
            picks.free(request, pool, device)
            and picks.fits_capacity(request, pool, device)
            and picks.take(request, pool, device, 0)
        ):
            return False
    except AllocationError:
        return False
    picks.give_back(request.claim_index)
    return True

"""The search for devices, in upstream's order and with its first solution.

Branches equivalent to failed ones are skipped. Upstream recurses for each device. Here each open decision is a
frame on a list, so the number of devices and claims is not limited by the interpreter's recursion limit.

Until 1.36 upstream does not always restore its state when it removes a device (see ``constraints``; counters
also stay reserved if a taint or constraint rejects the device or the device can be shared). Upstream continues
from that state, and so does this search. It counts such cases in ``Picks.leaks``. If a failed branch leaked
nothing, the same branch with an equivalent device, or from an equal position, would fail as well and is
skipped. Otherwise it is searched.
"""

import enum
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Protocol

from dra_scheduler.allocator.equivalence import DeviceEquivalence
from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.picks import Picks, Recorder
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.programs import hint
from dra_scheduler.allocator.reasons import DeadEnd
from dra_scheduler.allocator.requests import MAX_RESULTS, Attempt, Request
from dra_scheduler.allocator.selectors import Candidate, Rejection

_CHECK_EVERY: Final = 64
# Dead positions are remembered only after this many dead ends. A short search does not need the memory.
_REMEMBER_AFTER: Final = 64
# The number of dead ends after which the search checks whether there can be a solution.
_CHECK_FEASIBILITY_AFTER: Final = 128


class SearchRecorder(Recorder, Protocol):
    """Records the steps of a search. Implemented by Trace."""

    def start_request(self, request: Request) -> None:
        """Record that the search for the request's devices begins."""


class Outcome(enum.Enum):
    """The end of a branch: all devices allocated, some not, or a claim exceeds the maximum number of results."""

    DONE = enum.auto()
    FAILED = enum.auto()
    EXCEEDED = enum.auto()


class _Frame:
    """An open decision.

    If ``contains`` is set, exceeding the result limit ends only this branch and not its parents.
    """

    __slots__ = ("contains", "leaks", "position", "remember")

    def __init__(self, position: int, contains: bool) -> None:
        self.position = position
        self.contains = contains
        self.remember: Hashable = None
        self.leaks = 0


class _Slot(_Frame):
    """One device of a request.

    The candidate at index ``at - 1`` is picked. The candidates from ``at`` on are tried next.
    """

    __slots__ = ("at", "branch_leaks", "candidates", "dead", "dead_leaks", "index", "request")

    def __init__(
        self,
        position: int,
        contains: bool,
        request: Request,
        index: int,
        candidates: Sequence[Candidate],
        at: int,
    ) -> None:
        super().__init__(position, contains)
        self.request = request
        self.index = index
        self.candidates = candidates
        self.at = at
        self.branch_leaks = 0
        # Keys of candidates that failed. An equivalent device is not tried again unless more has leaked
        # since.
        self.dead: set[Hashable] = set()
        self.dead_leaks = 0


class _Everything(_Frame):
    """One device of a request with allocation mode All. There is only one candidate."""

    __slots__ = ("index", "request", "tried")

    def __init__(self, position: int, contains: bool, request: Request, index: int) -> None:
        super().__init__(position, contains)
        self.request = request
        self.index = index
        self.tried = False


class _Choice(_Frame):
    """The alternatives of a request. The one at index ``next - 1`` is being tried."""

    __slots__ = ("all_exceeded", "next")

    def __init__(self, position: int, contains: bool) -> None:
        super().__init__(position, contains)
        self.next = 0
        self.all_exceeded = True


class Search:
    """A search on one node."""

    def __init__(
        self,
        features: Features,
        attempt: Attempt,
        picks: Picks,
        candidates: Callable[[Request], Sequence[Candidate]],
        all_devices: dict[int, list[tuple[PoolDevice, Pool]]],
        equivalence: Callable[[], DeviceEquivalence],
        infeasible: Callable[[], bool],
        check: Callable[[], None] | None,
        recorder: SearchRecorder | None,
    ) -> None:
        self._features = features
        self._entries = attempt.entries
        self._picks = picks
        self._candidates = candidates
        self._all_devices = all_devices
        self._make_equivalence = equivalence
        self._equivalence: DeviceEquivalence | None = None
        self._infeasible = infeasible
        self._check = check
        self._recorder = recorder
        self._stack: list[_Frame] = []
        self._dead_positions: set[Hashable] = set()
        self.steps = 0
        self._dead_ends = 0
        self._check_at: float = _CHECK_FEASIBILITY_AFTER

    @property
    def equivalence(self) -> DeviceEquivalence:
        if self._equivalence is None:
            self._equivalence = self._make_equivalence()
        return self._equivalence

    def run(self) -> Outcome:
        """Run the search. On success, the solution is the current set of picks.

        Raises:
            AllocationError: a selector cannot be evaluated for a device that the search reached, or
                ``check`` raised.
        """
        # Invariant: the picks are those of the frames on the stack, in the stack's order. A frame picks its device
        # before the next decision is opened, and gives it back when the branch fails.
        # ``outcome`` is None while a decision is open. The frame on top then tries its next candidate. Any other
        # outcome is the end of a branch: the frame on top removes its device, and either goes on with its next
        # candidate (None) or closes, which ends the branch of the frame below. This is upstream's recursion,
        # in the same order: a return value there is an outcome here.
        outcome = self._open(0, False)
        while outcome is not Outcome.DONE:
            if outcome is None:
                outcome = self._continue(self._stack[-1])
                if self._dead_ends >= self._check_at:
                    self._check_at = math.inf
                    if self._infeasible():
                        return Outcome.FAILED
            elif self._stack:
                outcome = self._fail_branch(self._stack[-1], outcome)
            else:
                return outcome
        return outcome

    def selected_alternatives(self) -> dict[int, int]:
        """Return the index of the chosen alternative for each position with alternatives. Call it after success."""
        return {frame.position: frame.next - 1 for frame in self._stack if isinstance(frame, _Choice)}

    def _count_step(self) -> None:
        self.steps += 1
        if self._check is not None and self.steps % _CHECK_EVERY == 0:
            self._check()

    def _open(self, position: int, contains: bool) -> Outcome | None:
        """Start the next request. Return None if a frame was opened for it."""
        if position == len(self._entries):
            return Outcome.DONE
        entry = self._entries[position]
        contains = contains or entry.starts_claim
        remember: Hashable = None
        # Look the position up before opening it. The key has to be computed now, with the picks of the decisions
        # before it: after the branch has failed they are the same again only if nothing leaked.
        if self._dead_ends > _REMEMBER_AFTER and not self._features.checks_capacity_of_neighbour:
            remember = self._situation(position)
            if remember in self._dead_positions:
                return Outcome.FAILED
        if entry.prioritized:
            self._count_step()
            self._stack.append(_Choice(position, contains))
        else:
            outcome = self._start(position, entry.alternatives[0], contains)
            if outcome is not None:
                return Outcome.FAILED if contains and outcome is Outcome.EXCEEDED else outcome
        frame = self._stack[-1]
        frame.remember = remember
        frame.leaks = self._picks.leaks
        return None

    def _start(self, position: int, request: Request, contains: bool) -> Outcome | None:
        self._count_step()
        if self._recorder is not None:
            self._recorder.start_request(request)
        wanted = request.count
        if request.all_devices:
            wanted = len(self._all_devices[request.number])
            if not wanted:
                return Outcome.FAILED
        if wanted <= 0:
            return self._open(position + 1, contains)
        if len(self._picks.of_claim[request.claim_index]) + wanted > MAX_RESULTS:
            return Outcome.EXCEEDED
        if request.all_devices:
            self._stack.append(_Everything(position, contains, request, 0))
        else:
            self._stack.append(_Slot(position, contains, request, 0, self._candidates(request), 0))
        return None

    def _continue(self, frame: _Frame) -> Outcome | None:
        if isinstance(frame, _Slot):
            return self._next_candidate(frame)
        if isinstance(frame, _Everything):
            return self._only_candidate(frame)
        assert isinstance(frame, _Choice)
        return self._next_alternative(frame)

    def _fail_branch(self, frame: _Frame, outcome: Outcome) -> Outcome | None:
        """Handle a failed branch of the frame. Return None if the frame may have other candidates."""
        if isinstance(frame, _Choice):
            if outcome is Outcome.FAILED:
                frame.all_exceeded = False
            return None
        if isinstance(frame, _Slot):
            if not self._branch_failed(frame, outcome):
                return self._close(frame, outcome)
            return None
        assert isinstance(frame, _Everything)
        self._picks.give_back(frame.request.claim_index)
        return self._close(frame, outcome)

    def _close(self, frame: _Frame, outcome: Outcome) -> Outcome:
        self._stack.pop()
        if outcome is Outcome.EXCEEDED:
            return Outcome.FAILED if frame.contains else outcome
        # The position is dead only if its search left the state as it was. After a leak, a later visit starts
        # from another state and may succeed. An exceeded limit has returned above: a remembered position is
        # reported as failed, which would lose the difference.
        if frame.remember is not None and frame.leaks == self._picks.leaks:
            self._dead_positions.add(frame.remember)
        return outcome

    def _next_alternative(self, frame: _Choice) -> Outcome | None:
        alternatives = self._entries[frame.position].alternatives
        while frame.next < len(alternatives):
            request = alternatives[frame.next]
            frame.next += 1
            outcome = self._start(frame.position, request, False)
            if outcome is None or outcome is Outcome.DONE:
                return outcome
            if outcome is Outcome.FAILED:
                frame.all_exceeded = False
        return self._close(frame, Outcome.EXCEEDED if frame.all_exceeded else Outcome.FAILED)

    def _only_candidate(self, frame: _Everything) -> Outcome | None:
        if frame.tried:
            return self._close(frame, Outcome.FAILED)
        frame.tried = True
        request, picks = frame.request, self._picks
        device, pool = self._all_devices[request.number][frame.index]
        if not picks.free(request, pool, device) or not picks.take(request, pool, device, frame.index):
            return self._close(frame, Outcome.FAILED)
        outcome = self._after_one_of_all(frame)
        if outcome is None or outcome is Outcome.DONE:
            return outcome
        picks.give_back(request.claim_index)
        return self._close(frame, outcome)

    def _after_one_of_all(self, frame: _Everything) -> Outcome | None:
        """Continue with the next device of a request with allocation mode All, or with the next request."""
        request, index = frame.request, frame.index + 1
        if self._features.alternatives_end_as_the_first:
            # Upstream loses the index of the alternative here.
            request = self._entries[frame.position].alternatives[0]
        wanted = request.count
        if request.all_devices:
            wanted = len(self._all_devices[request.number])
            if not wanted:
                return Outcome.FAILED
        if index >= wanted:
            return self._open(frame.position + 1, False)
        if len(self._picks.of_claim[request.claim_index]) + wanted - index > MAX_RESULTS:
            return Outcome.EXCEEDED
        self._count_step()
        if request.all_devices:
            self._stack.append(_Everything(frame.position, False, request, index))
        else:
            self._stack.append(_Slot(frame.position, False, request, index, self._candidates(request), 0))
        return None

    def _next_candidate(self, frame: _Slot) -> Outcome | None:
        request, picks, candidates = frame.request, self._picks, frame.candidates
        # The order of the checks is upstream's, and it is visible. A device that is not free is skipped before its
        # selectors matter, so their errors are not reported. An error of a free device ends the search even if
        # the device lacks capacity. The check for dead candidates comes after both, because it must not hide
        # an error, and before take(), because that changes the state.
        while frame.at < len(candidates):
            device, pool, failing = candidates[frame.at]
            frame.at += 1
            if not picks.free(request, pool, device):
                continue
            if failing is not None:
                raise AllocationError(selector_error(request, device, failing, self._features))
            if not picks.fits_capacity(request, pool, device):
                continue
            if (
                frame.dead
                and frame.dead_leaks == picks.leaks
                and self.equivalence.current_key(device, pool) in frame.dead
            ):
                self._record_dead_end(frame)
                continue
            if not picks.take(request, pool, device, frame.index):
                continue
            frame.branch_leaks = picks.leaks
            if frame.index + 1 < request.count:
                self._count_step()
                self._stack.append(
                    _Slot(frame.position, False, request, frame.index + 1, candidates, self._next(frame))
                )
                return None
            outcome = self._open(frame.position + 1, False)
            if outcome is None or outcome is Outcome.DONE:
                return outcome
            if not self._branch_failed(frame, outcome):
                return self._close(frame, outcome)
        return self._close(frame, Outcome.FAILED)

    def _next(self, frame: _Slot) -> int:
        """Return the candidate index at which the search for the next device of the same request begins."""
        return 0 if self._features.starts_over else frame.at

    def _branch_failed(self, frame: _Slot, outcome: Outcome) -> bool:
        """Remove the frame's device. Return True if the next candidate is worth trying."""
        picks = self._picks
        self._dead_ends += 1
        # Give the device back first, in every case: the frames below must find their own state again.
        picks.give_back(frame.request.claim_index)
        if outcome is Outcome.EXCEEDED:
            return False
        self._record_dead_end(frame)
        # A candidate is dead only if its branch leaked nothing. All dead candidates of a frame were tried with the
        # same leaks. Since the first new leak they may succeed, so they are dropped.
        if picks.leaks == frame.branch_leaks and not self._features.checks_capacity_of_neighbour:
            if frame.dead_leaks != picks.leaks:
                frame.dead.clear()
                frame.dead_leaks = picks.leaks
            device, pool, _ = frame.candidates[frame.at - 1]
            frame.dead.add(self.equivalence.current_key(device, pool))
        return True

    def _record_dead_end(self, frame: _Slot) -> None:
        if self._recorder is not None:
            device, pool, _ = frame.candidates[frame.at - 1]
            self._recorder.turned_away(frame.request, pool, device, DeadEnd())

    def _situation(self, position: int) -> Hashable:
        """Return everything that decides whether the requests from this position on can be satisfied."""
        picks, claim_index = self._picks, self._entries[position].claim_index
        devices = Counter(
            (self.equivalence.lasting_key(device, pool), condition)
            for device, pool, condition in picks.touched_devices()
        )
        return (
            position,
            picks.leaks,
            len(picks.of_claim[claim_index]),
            frozenset(devices.items()),
            picks.constraint_states(claim_index),
            picks.counters.state(),
            picks.groups.state(),
        )


def selector_error(request: Request, device: PoolDevice, failing: Rejection, features: Features) -> str:
    """Return upstream's error text for a selector that cannot be compiled or evaluated."""
    if failing.index < 0:
        return failing.error
    of = f"class {request.device_class.metadata.name}" if failing.of_class else f"claim {request.claim.key}"
    if not features.errors_name_the_device or not failing.error.startswith("CEL runtime error"):
        return f"{of}: selector #{failing.index}: {failing.error}"
    return f"{of}: selector #{failing.index} on device {device.id}: {failing.error}{hint(failing.error)}"

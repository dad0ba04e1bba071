"""What-if: find the single change that would make a pod fit. Changes derived from the trace are tried one by one."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec
from dra_shared.api.node import Node
from dra_shared.api.resource import (
    CapacityRequirements,
    DeviceClass,
    DeviceRequest,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from dra_shared.plurals import count

from dra_scheduler.allocator import AllocatedState, AllocationError, Allocator, Trace
from dra_scheduler.allocator.amounts import display
from dra_scheduler.allocator.capacity import Shortage
from dra_scheduler.allocator.reasons import (
    CapacityShort,
    ConstraintUnmet,
    CounterShort,
    InUse,
    Reason,
    SelectorRejected,
    Tainted,
)
from dra_scheduler.allocator.trace import PoolTrace, RequestTrace
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.report import Change
from dra_scheduler.explain.text import is_for_extended_resources

_MOST_TRIES = 40

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """The input of an allocation, with one change applied."""

    claims: tuple[ResourceClaim, ...]
    state: AllocatedState
    classes: Callable[[str], DeviceClass | None]
    slices: tuple[ResourceSlice, ...] | None = None  # None: the published slices

    def allocator(self, manager: DRAManager) -> Allocator:
        """Return an allocator for that world."""
        slices = manager.snapshot if self.slices is None else self.slices
        return Allocator(manager.features, self.state, self.classes, slices)


class _Candidate(NamedTuple):
    """A change. ``world`` returns the changed world, and ``claims`` are those that lose their devices."""

    kind: str
    text: str
    world: Callable[[], World]
    claims: tuple[str, ...] = ()


class WhatIf:
    """Tries changes on copies. The originals are not modified.

    ``keep`` are the keys of claims that must not lose their devices: the claims of the other pods of a gang.
    """

    def __init__(self, manager: DRAManager, check: Callable[[], None], keep: Iterable[str] = ()) -> None:
        self._manager = manager
        self._check = check
        self._keep = frozenset(keep)

    def single_change(self, node: Node, trace: Trace) -> Change | None:
        """Return the first change that makes the claims of the trace fit on its node."""
        base = self._base(trace.claims)
        tried: set[tuple[str, str]] = set()
        for found in self._candidates(base, trace):
            if (found.kind, found.text) in tried:
                continue
            tried.add((found.kind, found.text))
            if self._fits(node, found.world()):
                name = node.metadata.name
                return Change(node=name, kind=found.kind, text=found.text, claims=found.claims)
            if len(tried) >= _MOST_TRIES:
                return None
        return None

    def without_reason(self, claims: Sequence[ResourceClaim], request: RequestTrace, reason: Reason) -> World:
        """Return a world in which the reason does not apply.

        Raises:
            ValueError: no single change removes the reason.
        """
        candidate = _candidate(self._base(claims), request, reason)
        if candidate is None:
            raise ValueError(f"nothing to change about: {reason}")
        return candidate.world()

    def _base(self, claims: Sequence[ResourceClaim]) -> World:
        return World(tuple(claims), self._manager.claims.state, self._manager.classes.get)

    def _fits(self, node: Node, world: World) -> bool:
        try:
            return world.allocator(self._manager).allocate(node, world.claims, check=self._check) is not None
        except AllocationError:
            return False

    def _candidates(self, base: World, trace: Trace) -> Iterator[_Candidate]:
        # Try devices with a single reason first, because they are the most likely to succeed.
        looked_at = [
            (len(reasons), request, reason)
            for request in trace.requests
            for reasons in request.devices.values()
            for reason in reasons
            if not (isinstance(reason, InUse) and self._keep.intersection(reason.claims))
        ]
        looked_at.sort(key=lambda entry: entry[0])
        pairs = [entry[1:] for entry in looked_at]
        # Selectors express the purpose of the pod, so try all other changes first.
        yield from _each(base, (pair for pair in pairs if not isinstance(pair[1], SelectorRejected)))
        # Other claims may hold the part of the capacity that is missing.
        holders = [
            _with_freed_claims(base, (key,))
            for pool in trace.pools
            for key in base.state.holders((pool.driver, pool.pool))
            if key not in self._keep
        ]
        is_short = any(isinstance(reason, CounterShort | CapacityShort) for _, reason in pairs)
        yield from holders if is_short else ()
        yield from _each(base, (pair for pair in pairs if not _of_class(pair[1])))
        yield from holders
        for pool in trace.pools:
            if pool.incomplete:
                yield self._with_complete_pool(base, trace.node, pool)
        for request in trace.requests:
            for number in range(request.count - 1, 0, -1):
                yield _fewer(base, request, number)
        # Do not suggest a change to a class that selects at least one device of the cluster.
        names = dict.fromkeys(request.device_class for request in trace.requests)
        bad = {name for name in names if not self._manager.allocator.devices_of(name)}
        yield from _each(base, (p for p in pairs if _of_class(p[1]) and p[0].device_class in bad))

    def _with_complete_pool(self, base: World, node_name: str, pool: PoolTrace) -> _Candidate:
        def world() -> World:
            seen = self._manager.snapshot.slices_for(node_name)
            slices = tuple(_as_complete(piece, pool) for piece in seen)
            return World(base.claims, base.state, base.classes, slices)

        missing = f"{pool.slices_wanted - pool.slices_known} of {count(pool.slices_wanted, 'slice')}"
        text = f"if pool {pool.driver}/{pool.pool} did not wait for {missing} of generation {pool.generation}"
        return _Candidate("pool", text, world)


def _as_complete(piece: ResourceSlice, pool: PoolTrace) -> ResourceSlice:
    spec = piece.spec
    if (spec.driver, spec.pool.name, spec.pool.generation) != (pool.driver, pool.pool, pool.generation):
        return piece
    smaller = _field(spec.pool, "resource_slice_count", pool.slices_known)
    return _field(piece, "spec", _field(spec, "pool", smaller))


def _of_class(reason: Reason) -> bool:
    return isinstance(reason, SelectorRejected) and bool(reason.of_class)


def _each(base: World, looked_at: Iterable[tuple[RequestTrace, Reason]]) -> Iterator[_Candidate]:
    for request, reason in looked_at:
        if isinstance(reason, CapacityShort) and reason.shortage.left > 0:
            yield _smaller(base, request, reason.shortage)
        candidate = _candidate(base, request, reason)
        if candidate is not None:
            yield candidate


def _with_freed_claims(base: World, keys: tuple[str, ...]) -> _Candidate:
    claims = tuple(map(claim_key, keys))
    text = f"if claim {', '.join(claims)} gave its devices back"
    return _Candidate("free", text, functools.partial(_without, base, keys), claims)


def _fewer(base: World, request: RequestTrace, count: int) -> _Candidate:
    text = f"if {_where(request)} asked for {count} instead of {request.count}"
    edit = functools.partial(_field, name="count", value=count)
    return _Candidate(
        "count", text, functools.partial(_with_edited_request, base, request.claim, request.request, edit)
    )


def _smaller(base: World, request: RequestTrace, short: Shortage) -> _Candidate:
    """Return the candidate that reduces the requested capacity to the capacity that is left."""
    left, needed = display(short.left), display(short.needed)
    text = f"if {_where(request)} asked for {left} of capacity {short.name} instead of {needed}"

    def edit(part: Any) -> Any:
        requests = part.capacity.requests if part.capacity is not None else {}
        return _field(part, "capacity", CapacityRequirements(requests={**requests, short.name: left}))

    return _Candidate(
        "capacity",
        text,
        functools.partial(_with_edited_request, base, request.claim, request.request, edit),
    )


def _where(request: RequestTrace) -> str:
    if is_for_extended_resources(request.claim):
        return f"the pod's request for extended resources of class {request.device_class}"
    return f"request {request.request} of claim {request.claim}"


def _candidate(base: World, request: RequestTrace, reason: Reason) -> _Candidate | None:
    """Return the candidate that would remove the reason."""
    where = _where(request)
    edit = functools.partial(_with_edited_request, base, request.claim, request.request)
    if isinstance(reason, InUse):
        return _with_freed_claims(base, reason.claims)
    if isinstance(reason, Tainted) and not is_for_extended_resources(request.claim):
        taint = reason.taint
        toleration = DeviceToleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
        text = f"if {where} tolerated taint {reason.text}"
        return _Candidate("tolerate", text, functools.partial(edit, functools.partial(_tolerate, toleration)))
    if isinstance(reason, SelectorRejected) and reason.of_class:
        text = f"if device class {reason.of_class} had no selector #{reason.index}: {reason.expression}"
        return _Candidate(
            "classSelector", text, functools.partial(_looser_class, base, reason.of_class, reason.index)
        )
    if isinstance(reason, SelectorRejected):
        text = f"if {where} had no selector #{reason.index}: {reason.expression}"
        return _Candidate(
            "selector", text, functools.partial(edit, functools.partial(_drop_selector, reason.index))
        )
    if isinstance(reason, ConstraintUnmet):
        text = f"if claim {request.claim} had no constraint #{reason.index}: {reason.kind} {reason.attribute}"
        return _Candidate(
            "constraint", text, functools.partial(_without_constraint, base, request.claim, reason.index)
        )
    if isinstance(reason, CapacityShort):
        text = f"if {where} asked for no particular capacity"
        return _Candidate(
            "capacity",
            text,
            functools.partial(edit, functools.partial(_field, name="capacity", value=None)),
        )
    return None


def _tolerate(toleration: DeviceToleration, request: Any) -> Any:
    return _field(request, "tolerations", (*request.tolerations, toleration))


def _drop_selector(index: int, request: Any) -> Any:
    return _field(request, "selectors", _drop(request.selectors, index))


def claim_key(key: str) -> str:
    """Return ``namespace/name`` of the claim that holds devices under that key."""
    return key.partition(" ")[0]


def _without(base: World, keys: Sequence[str]) -> World:
    state = base.state.copy()
    for key in keys:
        state.hold(key, None)
    return World(base.claims, state, base.classes)


def _looser_class(base: World, name: str, index: int) -> World:
    def lookup(wanted: str) -> DeviceClass | None:
        found = base.classes(wanted)
        if found is None or wanted != name:
            return found
        spec = msgspec.structs.replace(found.spec, selectors=_drop(found.spec.selectors, index))
        return msgspec.structs.replace(found, spec=spec)

    return World(base.claims, base.state, lookup)


def _without_constraint(base: World, key: str, index: int) -> World:
    def edit(claim: ResourceClaim) -> ResourceClaim:
        devices = claim.spec.devices
        devices = msgspec.structs.replace(devices, constraints=_drop(devices.constraints, index))
        return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))

    claims = tuple(edit(claim) if claim.key == key else claim for claim in base.claims)
    return World(claims, base.state, base.classes)


def _with_edited_request(base: World, key: str, name: str, edit: Callable[[Any], Any]) -> World:
    """Return the world with the request or subrequest of that name edited."""
    parent, _, child = name.partition("/")

    def edit_request(request: DeviceRequest) -> DeviceRequest:
        if request.name != parent:
            return request
        if request.exactly is not None:
            return _field(request, "exactly", edit(request.exactly))
        subs = tuple(edit(sub) if sub.name == child else sub for sub in request.first_available)
        return _field(request, "first_available", subs)

    def edit_claim(claim: ResourceClaim) -> ResourceClaim:
        devices = claim.spec.devices
        requests = tuple(edit_request(request) for request in devices.requests)
        devices = msgspec.structs.replace(devices, requests=requests)
        return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))

    claims = tuple(edit_claim(claim) if claim.key == key else claim for claim in base.claims)
    return World(claims, base.state, base.classes)


def _field(struct: S, name: str, value: object) -> S:
    return msgspec.structs.replace(struct, **{name: value})


def _drop(values: tuple[T, ...], index: int) -> tuple[T, ...]:
    return values[:index] + values[index + 1 :]

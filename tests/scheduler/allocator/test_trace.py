"""The trace does not change the search, and each of its reasons is true: without its cause the device is accepted."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from dra_scheduler.allocator import AllocationError, Trace, reasons
from dra_scheduler.allocator.amounts import amount
from dra_scheduler.allocator.reasons import Reason
from dra_scheduler.allocator.state import DeviceID
from dra_shared.api.resource import (
    CapacityRequestPolicy,
    Device,
    DeviceCapacity,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from dra_shared.api.resource import (
    Counter as SharedCounter,
)

from tests.scheduler.allocator.worlds import (
    World,
    claim_of,
    device_class,
    exactly,
    random_world,
    selector,
    slice_of,
)
from tests.support.sampling import sample

_WORLDS = 400
_PLENTY = 1000 * 10**9
replace = msgspec.structs.replace


class _TooLongError(Exception):
    pass


def _allocate_with_trace(world: World) -> tuple[object, Trace]:
    calls, trace = 0, Trace()

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 10:
            raise _TooLongError

    try:
        return world.allocator().allocate(world.node, world.claims, check=check, trace=trace), trace
    except AllocationError as error:
        return str(error), trace


def _rejections(trace: Trace) -> Iterator[tuple[int, DeviceID, Reason]]:
    for number, request in enumerate(trace.requests):
        for device, why in request.devices.items():
            for reason in why:
                yield number, device, reason


def _device(world: World, device_id: DeviceID) -> Device:
    return next(
        device
        for piece in world.slices
        for device in piece.spec.devices
        if DeviceID(piece.spec.driver, piece.spec.pool.name, device.name) == device_id
    )


def _with_device(world: World, device_id: DeviceID, **changes: Any) -> World:
    def change(piece: ResourceSlice) -> ResourceSlice:
        if (piece.spec.driver, piece.spec.pool.name) != device_id[:2]:
            return piece
        devices = tuple(
            replace(device, **changes) if device.name == device_id.device else device
            for device in piece.spec.devices
        )
        return replace(piece, spec=replace(piece.spec, devices=devices))

    return _copy(world, slices=[change(piece) for piece in world.slices])


def _copy(world: World, **changes: Any) -> World:
    fields = {
        name: getattr(world, name) for name in ("features", "node", "classes", "slices", "claims", "state")
    }
    return World(**{**fields, **changes})


def _with_features(world: World, **on: Any) -> World:
    return _copy(world, features=dataclasses.replace(world.features, **on))


def _more_of_counter(world: World, pool: tuple[str, str], key: tuple[str, str], missing: int) -> World:
    def change(piece: ResourceSlice) -> ResourceSlice:
        if piece.spec.pool.name != pool[1]:
            return piece
        sets = []
        for counter_set in piece.spec.shared_counters:
            counters = dict(counter_set.counters)
            if counter_set.name == key[0] and key[1] in counters:
                value = amount(counters[key[1]].value) + missing
                counters[key[1]] = SharedCounter(value=f"{value}n")
            sets.append(replace(counter_set, counters=counters))
        return replace(piece, spec=replace(piece.spec, shared_counters=tuple(sets)))

    return _copy(world, slices=[change(piece) for piece in world.slices])


def _without_constraints(claim: ResourceClaim, like: reasons.ConstraintUnmet) -> ResourceClaim:
    rest = tuple(
        constraint
        for constraint in claim.spec.devices.constraints
        if like.attribute not in (constraint.match_attribute, constraint.distinct_attribute)
    )
    return replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, constraints=rest)))


def _with_capacity(world: World, device_id: DeviceID, name: str, more: int) -> World:
    capacity = dict(_device(world, device_id).capacity)
    capacity[name] = replace(capacity[name], value=f"{amount(capacity[name].value) + more}n")
    return _with_device(world, device_id, capacity=capacity)


def _true_selectors(world: World, expression: str) -> World:
    """Return value with ``true`` in place of the expression everywhere."""
    text = msgspec.json.encode(world.claims).decode().replace(f'"{expression}"', '"true"')
    claims = msgspec.json.decode(text, type=list[ResourceClaim])
    return _copy(world, claims=claims)


def _check_truth(world: World, device_id: DeviceID, reason: Reason) -> World | None:
    """Assert that the reason is true. Return the world without its cause, or None if there is no such world."""
    device = _device(world, device_id)
    match reason:
        case reasons.InUse(claims=claims):
            assert claims
            assert world.state.owner(device_id) == claims
            state = world.state.copy()
            for key in claims:
                state.hold(key, None)
            return _copy(world, state=state)
        case reasons.Picked(claims=claims):
            assert set(claims) <= {claim.key for claim in world.claims}
            return None
        case reasons.BindingUnsupported():
            assert device.binding_conditions
            assert not world.features.device_binding
            return _with_features(world, device_binding=True)
        case reasons.CountersUnsupported():
            assert device.consumes_counters
            assert not world.features.partitionable_devices
            return _with_features(world, partitionable_devices=True)
        case reasons.SelectorRejected(expression=expression, error=error, attributes=attributes):
            wanted = expression.partition("=")[2]
            seen = dict(attributes)
            assert ("kind" not in seen) if error else seen["kind"] != wanted
            return _true_selectors(world, expression)
        case reasons.Tainted(taint=taint):
            assert taint in device.taints
            return _with_device(world, device_id, taints=tuple(t for t in device.taints if t != taint))
        case reasons.ConstraintUnmet(index=index, value=value, others=others, kind=kind) as unmet:
            assert any(len(claim.spec.devices.constraints) > index for claim in world.claims)
            if value is not None:
                assert others
                assert _overlap(value, others) == (kind == "distinctAttribute")
            return _copy(world, claims=[_without_constraints(claim, unmet) for claim in world.claims])
        case reasons.CounterShort(counter=counter, needed=needed, left=left):
            assert left < needed
            return _more_of_counter(world, device_id[:2], counter, _PLENTY)
        case reasons.CapacityShort(shortage=short):
            if short.problem == "undefined":
                assert short.name not in device.capacity
                added = {
                    short.name: DeviceCapacity(value="100", request_policy=CapacityRequestPolicy(default="1"))
                }
                return _with_device(world, device_id, capacity={**device.capacity, **added})
            assert short.problem == "capacity"
            assert short.left < short.needed
            return _with_capacity(world, device_id, short.name, _PLENTY)
    return None


def _overlap(value: tuple[str, Any], others: tuple[Any, ...]) -> bool:
    return any(
        kind == value[0] and (bool(mine & value[1]) if isinstance(mine, frozenset) else mine == value[1])
        for kind, mine in others
    )


@pytest.mark.slow
@pytest.mark.parametrize("start", sample(range(0, _WORLDS, 50), 1))
def test_every_reason_is_true_and_disappears_with_its_cause(start: int) -> None:
    for seed in range(start, start + 50):
        world = random_world(seed)
        try:
            answer, trace = _allocate_with_trace(world)
            plain = _allocate_without_trace(world)
        except _TooLongError:
            continue
        assert answer == plain
        for number, device, reason in list(_rejections(trace))[:25]:
            changed = _check_truth(world, device, reason)
            if changed is None:
                continue
            try:
                _, again = _allocate_with_trace(changed)
            except _TooLongError:
                continue
            assert reason not in again.requests[number].devices.get(device, []), f"world {seed}: {reason}"


def _alone(world: World, number: int) -> World | None:
    """Return the world with only the request of that number, for one device, and the existing allocations."""
    at = 0
    for claim in world.claims:
        for item in claim.spec.devices.requests:
            for part in item.first_available or (item.exactly,):
                if at == number:
                    assert part is not None
                    fields = {
                        name: getattr(part, name)
                        for name in ExactDeviceRequest.__struct_fields__
                        if hasattr(part, name)
                    }
                    exact = ExactDeviceRequest(**{**fields, "allocation_mode": "ExactCount", "count": 1})
                    only = DeviceClaim(requests=(DeviceRequest(name="only", exactly=exact),))
                    return _copy(world, claims=[replace(claim, spec=replace(claim.spec, devices=only))])
                at += 1
    return None


def test_a_device_fits_if_the_shortage_in_the_trace_is_added_to_its_capacity() -> None:
    checked: Counter[str] = Counter()
    for seed in range(_WORLDS):
        try:
            _, trace = _allocate_with_trace(random_world(seed))
        except _TooLongError:
            continue
        for number in range(len(trace.requests)):
            world = _alone(random_world(seed), number)
            assert world is not None
            _, trace = _allocate_with_trace(world)
            for _, device, reason in list(_rejections(trace)):
                if isinstance(reason, reasons.CounterShort):
                    missing = reason.needed - reason.left
                    enough = _more_of_counter(world, device[:2], reason.counter, missing)
                    short = _more_of_counter(world, device[:2], reason.counter, missing - 1)
                elif isinstance(reason, reasons.CapacityShort) and reason.shortage.problem == "capacity":
                    missing = reason.shortage.needed - reason.shortage.left
                    enough = _with_capacity(world, device, reason.shortage.name, missing)
                    short = _with_capacity(world, device, reason.shortage.name, missing - 1)
                else:
                    continue
                if _is_picked(short, device) is None or _is_picked(enough, device) is None:
                    continue
                checked[type(reason).__name__] += 1
                assert type(reason) in _kinds(short, device)
                assert type(reason) not in _kinds(enough, device)

    assert checked["CounterShort"] > 10
    assert checked["CapacityShort"] > 20


def _is_picked(world: World, device: DeviceID) -> bool | None:
    """True if this device is allocated. None if another one is, or if the selector fails for another one."""
    try:
        results = world.allocator().allocate(world.node, world.claims)
    except AllocationError:
        return None
    if results is None:
        return False
    (picked,) = results[0].devices.results
    return True if (picked.driver, picked.pool, picked.device) == device else None


def _kinds(world: World, device: DeviceID) -> set[type]:
    return {
        type(reason) for _, other, reason in _rejections(_allocate_with_trace(world)[1]) if other == device
    }


def _allocate_without_trace(world: World) -> object:
    try:
        return world.allocator().allocate(world.node, world.claims)
    except AllocationError as error:
        return str(error)


def test_the_random_worlds_have_all_kinds_of_reasons() -> None:
    seen: Counter[str] = Counter()
    for seed in range(_WORLDS):
        try:
            seen.update(
                type(reason).__name__
                for _, _, reason in _rejections(_allocate_with_trace(random_world(seed))[1])
            )
        except _TooLongError:
            continue

    assert set(seen) == {
        "BindingUnsupported",
        "CapacityShort",
        "ConstraintUnmet",
        "CounterShort",
        "CountersUnsupported",
        "DeadEnd",
        "InUse",
        "Picked",
        "SelectorRejected",
        "Tainted",
    }


def _plain(trace: Trace) -> dict[str, Any]:
    """Return the whole trace in plain JSON types."""
    return {
        "node": trace.node,
        "allocated": trace.results is not None,
        "error": trace.error,
        "pools": [dataclasses.asdict(pool) for pool in trace.pools],
        "requests": [
            {
                "claim": request.claim,
                "request": request.request,
                "deviceClass": request.device_class,
                "count": request.count,
                "devices": {
                    str(device): [
                        {"reason": type(reason).__name__, "text": str(reason)} for reason in reasons
                    ]
                    for device, reasons in request.devices.items()
                },
            }
            for request in trace.requests
        ],
    }


# Long: a whole trace, as it is shown.
def test_trace_records_the_reason_for_each_rejected_device() -> None:
    devices: list[dict[str, Any]] = [
        {"name": "d0", "attributes": {"kind": {"string": "x"}}},
        {
            "name": "d1",
            "attributes": {"kind": {"string": "y"}},
            "taints": [{"key": "sick", "effect": "NoExecute"}],
        },
        {"name": "d2", "attributes": {"kind": {"string": "y"}}},
    ]
    world = World(
        slices=[
            slice_of("s0", devices),
            slice_of("s1", [], pool={"name": "q", "generation": 7, "resourceSliceCount": 3}),
        ],
        classes={"any": device_class(selector="kind=y")},
        claims=[claim_of([exactly()])],
    )
    world.state.hold_devices("default/other", [(DeviceID("a.example.com", "p", "d2"), None, {})])

    answer, trace = _allocate_with_trace(world)

    assert answer is None
    assert _plain(trace) == {
        "node": "n0",
        "allocated": False,
        "error": "",
        "pools": [
            {
                "driver": "a.example.com",
                "pool": "p",
                "generation": 1,
                "devices": 3,
                "slices_known": 0,
                "slices_wanted": 0,
                "incomplete": False,
                "invalid": "",
            },
            {
                "driver": "a.example.com",
                "pool": "q",
                "generation": 7,
                "devices": 0,
                "slices_known": 1,
                "slices_wanted": 3,
                "incomplete": True,
                "invalid": "",
            },
        ],
        "requests": [
            {
                "claim": "default/c0",
                "request": "r0",
                "deviceClass": "any",
                "count": 1,
                "devices": {
                    "a.example.com/p/d0": [
                        {
                            "reason": "SelectorRejected",
                            "text": "selector #0 of class any: not true: kind=y (saw kind=x)",
                        }
                    ],
                    "a.example.com/p/d1": [
                        {"reason": "Tainted", "text": "taint sick:NoExecute is not tolerated"}
                    ],
                    "a.example.com/p/d2": [{"reason": "InUse", "text": "in use by claim default/other"}],
                },
            }
        ],
    }


def test_shortages_are_reported_in_numbers() -> None:
    uses = [{"counterSet": "set0", "counters": {"memory": {"value": "40Gi"}}}]
    sets = [{"name": "set0", "counters": {"memory": {"value": "64Gi"}}}]
    devices = [{"name": f"d{i}", "consumesCounters": uses} for i in range(2)]
    world = World(
        slices=[
            slice_of("s0", [], sharedCounters=sets, pool={"resourceSliceCount": 2}),
            slice_of("s1", devices, pool={"resourceSliceCount": 2}),
        ],
        claims=[claim_of([exactly(selectors=selector("true")), exactly("r1")])],
    )

    _, trace = _allocate_with_trace(world)

    reported = trace.requests[1].devices
    assert [str(reason) for reason in reported[DeviceID("a.example.com", "p", "d0")]] == [
        "already picked for claim default/c0"
    ]
    assert [str(reason) for reason in reported[DeviceID("a.example.com", "p", "d1")]] == [
        "counter set0/memory: needs 40Gi, lacks 16Gi"
    ]


def test_the_trace_contains_the_error_that_ended_the_search() -> None:
    world = World(
        slices=[slice_of("s0", [{"name": "d"}])], claims=[claim_of([exactly(selectors=selector("kind=x"))])]
    )

    answer, trace = _allocate_with_trace(world)

    assert answer == trace.error
    assert answer == (
        "claim default/c0: selector #0 on device a.example.com/p/d: CEL runtime error: no such key: kind. "
        "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
        "fields"
    )

"""The verdict on one device for one request equals the allocator's result if nothing else is requested."""

import contextlib
from collections import Counter

import msgspec
from dra_scheduler.allocator import AllocationError, Trace
from dra_scheduler.allocator.state import DeviceID
from dra_shared.api.resource import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim

from tests.scheduler.allocator.worlds import World, random_world

replace = msgspec.structs.replace


class _TooLongError(Exception):
    pass


def _trace(world: World) -> Trace:
    trace, calls = Trace(), 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 10:
            raise _TooLongError

    with contextlib.suppress(AllocationError, _TooLongError):
        world.allocator().allocate(world.node, world.claims, check=check, trace=trace)
    return trace


def _parts(world: World) -> list[tuple[ResourceClaim, ExactDeviceRequest]]:
    """Return each (sub)request in order, as a plain request for one device."""
    found = []
    for claim in world.claims:
        for item in claim.spec.devices.requests:
            for part in item.first_available or (item.exactly,):
                assert part is not None
                names = [name for name in ExactDeviceRequest.__struct_fields__ if hasattr(part, name)]
                fields = {name: getattr(part, name) for name in names}
                found.append(
                    (claim, ExactDeviceRequest(**{**fields, "allocation_mode": "ExactCount", "count": 1}))
                )
    return found


def _only(world: World, claim: ResourceClaim, part: ExactDeviceRequest, device: DeviceID) -> World:
    """Return the world with this request alone, and this device as the only one that is free."""
    devices = DeviceClaim(requests=(DeviceRequest(name="only", exactly=part),))
    slices = []
    for piece in world.slices:
        pool = piece.spec.driver, piece.spec.pool.name
        left = tuple(
            each
            for each in piece.spec.devices
            if DeviceID(*pool, each.name) == device or world.state.in_use(DeviceID(*pool, each.name))
        )
        slices.append(replace(piece, spec=replace(piece.spec, devices=left)))
    names = ("features", "node", "classes", "state")
    fields = {name: getattr(world, name) for name in names}
    return World(**fields, slices=slices, claims=[replace(claim, spec=replace(claim.spec, devices=devices))])


def _could_have(world: World, device: DeviceID) -> bool | None:
    """True if the device is allocated.

    None if a share of another device is allocated, or if a selector fails for another device.
    """
    try:
        results = world.allocator().allocate(world.node, world.claims)
    except AllocationError:
        return None
    if results is None:
        return False
    [picked] = results[0].devices.results
    return True if DeviceID(picked.driver, picked.pool, picked.device) == device else None


def test_a_device_suits_a_request_if_it_can_be_allocated_to_the_request_alone() -> None:
    seen: Counter[bool] = Counter()
    for seed in range(120):
        world = random_world(seed)
        trace = _trace(world)
        for request, (claim, part) in zip(trace.requests, _parts(world), strict=False):
            if claim.spec.devices.constraints:
                continue
            for piece in world.slices:
                for spec in piece.spec.devices:
                    device = DeviceID(piece.spec.driver, piece.spec.pool.name, spec.name)
                    expected = _could_have(_only(world, claim, part, device), device)
                    if expected is None:
                        continue
                    assert (device in request.suitable) == expected, (seed, request.request, str(device))
                    seen[expected] += 1
                    # A device that does not match has a reason, unless the node cannot see it.
                    if not expected and any(
                        p.devices for p in trace.pools if (p.driver, p.pool) == device[:2]
                    ):
                        assert request.devices.get(device), (seed, request.request, str(device))
    assert min(seen[True], seen[False]) > 100

"""Start the driver with thousands of devices, once for all checks that need it.

``{devices}`` in the command stands for the number of devices, as in ``--num-devices`` of test drivers.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_shared.jsontypes import JsonObject

from dra_conformance.check import NotOffered, Unmet
from dra_conformance.claims import Claim, Device, Result, devices_of
from dra_conformance.session import Session, incomplete_pools


@dataclass
class Many:
    """Observations of a driver with thousands of devices.

    Args:
        problem: why the devices are not all published; the other fields are empty then.
        slices: the number of slices that have devices.
        writes: the number of writes after all devices were published, while nothing changed.
        prepared: the error of preparing the last device.
        generations: for each pool whose number of slices grew, its generation before and after.
        shrunk: what is wrong with the slices once the driver has few devices again.
        lost: the error of unpreparing a claim whose device is gone.
    """

    problem: str = ""
    slices: int = 0
    writes: int = 0
    prepared: str = ""
    generations: dict[str, tuple[int, int]] = field(default_factory=dict)
    shrunk: str = ""
    lost: str = ""


async def observe_many(session: Session) -> Many:
    """Start the driver with thousands of devices, observe it, and restore its number of devices.

    Raises:
        NotOffered: the command does not say how many devices the driver has.
        Unmet: the driver does not even publish a few.
    """
    session.need_restarts()
    if not session.driver.scales:
        raise NotOffered("the command has no {devices}, which says how many devices the driver has")
    if session.publish_problem:
        raise Unmet(session.publish_problem)
    usual, known = session.driver.devices, len(session.devices)
    few = session.slices
    began = len(session.world.requests.answered)
    session.driver.devices = session.pace.devices
    seen = Many()
    try:
        await session.restart(kill=False)
        seen.problem = await _await_devices(session, session.pace.devices)
        if seen.problem:
            return seen
        seen.generations = _generations(few, session.slices)
        await _observe(session, seen)
        async with session.claim([Result(_one_more(few, session.devices))]) as claim:
            answer = await session.try_prepare(claim)
            seen.prepared = answer if isinstance(answer, str) else ""
            session.driver.devices = usual
            if not seen.prepared:
                seen.lost = await _without_its_device(session, claim)
    except Unmet as problem:
        seen.problem = str(problem)
    finally:
        await _restore(session, seen, usual, known)
        session.of_large_node.extend(session.world.requests.answered[began:])
    return seen


async def _observe(session: Session, seen: Many) -> None:
    # Counters are in slices of their own.
    seen.slices = sum(1 for one in session.slices if one["spec"].get("devices"))
    writes = session.writes()
    await asyncio.sleep(session.pace.quiet)
    seen.writes = session.writes() - writes


async def _without_its_device(session: Session, claim: Claim) -> str:
    """Restart the driver without the claim's device, unprepare the claim, and return the error or ""."""
    few = session.driver.devices
    try:
        await session.restart(kill=False)
    except Unmet as problem:
        # The driver does not start without the device. Start it with the device, so that the claim can be unprepared.
        session.driver.devices = session.pace.devices
        await session.start_again()
        await session.try_unprepare(claim)
        session.driver.devices = few
        return str(problem)
    left = await session.try_unprepare(claim)
    if left:
        session.driver.devices = session.pace.devices
        await session.restart(kill=False)
        await session.try_unprepare(claim)
        session.driver.devices = few
    return left


async def _restore(session: Session, seen: Many, usual: int, known: int) -> None:
    """Restart the driver with its usual number of devices, if needed, and wait for its slices."""
    if session.driver.devices != usual or seen.problem or seen.prepared or seen.lost:
        session.driver.devices = usual
        await session.restart(kill=False)
    seen.shrunk = await _await_devices(session, known)
    if not seen.shrunk and (old := _outdated_slices(session.slices)):
        within = session.pace.start
        seen.shrunk = f"{len(old)} slices of an older generation are still there after {within:g} s"


def _one_more(few: Sequence[JsonObject], devices: Sequence[Device]) -> Device:
    """Return the last device that exists only on the large node."""
    known = {device.key for device in devices_of(few)}
    usable = [device for device in devices if not device.spec.get("consumesCounters")]
    more = [device for device in usable if device.key not in known]
    return (more or usable or devices)[-1]


def _outdated_slices(slices: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the slices whose generation is older than the newest one of their pool."""
    newest: dict[str, int] = {}
    for pool in (one["spec"]["pool"] for one in slices):
        newest[pool["name"]] = max(newest.get(pool["name"], 0), pool.get("generation", 0))
    return [
        one
        for one in slices
        if one["spec"]["pool"].get("generation", 0) < newest[one["spec"]["pool"]["name"]]
    ]


def _generations(few: Sequence[JsonObject], many: Sequence[JsonObject]) -> dict[str, tuple[int, int]]:
    """Return the old and the new generation of each pool whose number of slices grew."""
    found = {}
    for name in {one["spec"]["pool"]["name"] for one in few}:
        old, new = (
            [one["spec"]["pool"] for one in slices if one["spec"]["pool"]["name"] == name]
            for slices in (few, many)
        )
        if len(new) > len(old):
            found[name] = (
                max(pool.get("generation", 0) for pool in old),
                max(pool.get("generation", 0) for pool in new),
            )
    return found


async def _await_devices(session: Session, count: int) -> str:
    """Wait until ``count`` devices are published, adopt them for the session, and return what is wrong or "".

    On a large node more devices than ``count`` are fine. A driver deletes outdated slices one by one after it has
    published the new ones, so this waits for their deletion, too.
    """
    within = session.pace.start
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        slices = await session.read_slices()
        devices = devices_of(slices)
        enough = len(devices) >= count and (len(devices) == count or count == session.pace.devices)
        complete, late = enough and not incomplete_pools(slices), loop.time() > end
        if complete and (late or not _outdated_slices(slices)):
            session.slices, session.devices = slices, devices
            return ""
        if late:
            pools = (
                f"; incomplete pools: {', '.join(incomplete_pools(slices))}"
                if incomplete_pools(slices)
                else ""
            )
            return f"{len(devices)} of {count} devices after {within:g} s{pools}"
        await asyncio.sleep(session.pace.poll * 5)

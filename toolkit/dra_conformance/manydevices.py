"""The driver started with thousands of devices, observed once for all checks that look at it.

Where the command has ``{devices}`` it is how many the driver shall have, as the flag ``--num-devices`` of test drivers.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_shared.jsontypes import JsonObject

from dra_conformance.check import NotOffered, Unmet
from dra_conformance.claims import Claim, Device, Result, devices_of
from dra_conformance.session import Session, incomplete


@dataclass
class Many:
    """What became of thousands of devices.

    Args:
        problem: why they are not all published; the rest is empty then.
        slices: how many slices they are in.
        writes: how many writes there were once all were published, and nothing happened.
        prepared: what went wrong when the last one was prepared.
        generations: the generation of each pool before, and with thousands of devices, where its slices changed.
        shrunk: what is wrong with the slices once the driver has few devices again.
        lost: what went wrong with a claim whose device is not there any more.
    """

    problem: str = ""
    slices: int = 0
    writes: int = 0
    prepared: str = ""
    generations: dict[str, tuple[int, int]] = field(default_factory=dict)
    shrunk: str = ""
    lost: str = ""


async def many(session: Session) -> Many:
    """Start the driver with thousands of devices, and again as it was.

    Raises:
        NotOffered: its command does not say how many devices it has.
        Unmet: it does not even publish a few.
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
        seen.problem = await _published(session, session.pace.devices)
        if seen.problem:
            return seen
        seen.generations = _generations(few, session.slices)
        await _observe(session, seen)
        async with session.claim([Result(_one_more(few, session.devices))]) as claim:
            answer = await session.attempt(claim)
            seen.prepared = answer if isinstance(answer, str) else ""
            session.driver.devices = usual
            if not seen.prepared:
                seen.lost = await _without_its_device(session, claim)
    except Unmet as problem:
        seen.problem = str(problem)
    finally:
        await _as_before(session, seen, usual, known)
        session.of_large_node.extend(session.world.requests.answered[began:])
    return seen


async def _observe(session: Session, seen: Many) -> None:
    seen.slices = len(session.slices)
    writes = session.writes()
    await asyncio.sleep(session.pace.quiet)
    seen.writes = session.writes() - writes


async def _without_its_device(session: Session, claim: Claim) -> str:
    """Start the driver without the claim's device, and unprepare the claim; gives what goes wrong."""
    few = session.driver.devices
    try:
        await session.restart(kill=False)
    except Unmet as problem:
        # With the device the claim can be undone, and the driver goes on without it.
        session.driver.devices = session.pace.devices
        await session.back()
        await session.undo(claim)
        session.driver.devices = few
        return str(problem)
    left = await session.undo(claim)
    if left:
        session.driver.devices = session.pace.devices
        await session.restart(kill=False)
        await session.undo(claim)
        session.driver.devices = few
    return left


async def _as_before(session: Session, seen: Many, usual: int, known: int) -> None:
    """Have the driver run with its few devices, as before."""
    if session.driver.devices != usual or seen.problem or seen.prepared or seen.lost:
        session.driver.devices = usual
        await session.restart(kill=False)
    seen.shrunk = await _published(session, known)
    if not seen.shrunk and (old := _outdated(session.slices)):
        within = session.pace.start
        seen.shrunk = f"{len(old)} slices of an older generation are still there after {within:g} s"


def _one_more(few: Sequence[JsonObject], devices: Sequence[Device]) -> Device:
    """The last device that there are only thousands of."""
    known = {device.key for device in devices_of(few)}
    usable = [device for device in devices if not device.spec.get("consumesCounters")]
    more = [device for device in usable if device.key not in known]
    return (more or usable or devices)[-1]


def _outdated(slices: Sequence[JsonObject]) -> list[JsonObject]:
    newest: dict[str, int] = {}
    for pool in (one["spec"]["pool"] for one in slices):
        newest[pool["name"]] = max(newest.get(pool["name"], 0), pool.get("generation", 0))
    return [
        one
        for one in slices
        if one["spec"]["pool"].get("generation", 0) < newest[one["spec"]["pool"]["name"]]
    ]


def _generations(few: Sequence[JsonObject], many: Sequence[JsonObject]) -> dict[str, tuple[int, int]]:
    """The generations of pools that are of more slices now."""
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


async def _published(session: Session, count: int) -> str:
    """Wait until so many devices are there, more only on a large node, and take them; gives what is wrong.

    A driver deletes the slices of before once the new ones are there, one after the other: waits for that, too.
    """
    within = session.pace.start
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        slices = await session.look()
        devices = devices_of(slices)
        enough = len(devices) >= count and (len(devices) == count or count == session.pace.devices)
        complete, late = enough and not incomplete(slices), loop.time() > end
        if complete and (late or not _outdated(slices)):
            session.slices, session.devices = slices, devices
            return ""
        if late:
            pools = f"; incomplete pools: {', '.join(incomplete(slices))}" if incomplete(slices) else ""
            return f"{len(devices)} of {count} devices after {within:g} s{pools}"
        await asyncio.sleep(session.pace.poll * 5)

"""The driver started with thousands of devices, observed once for all checks that look at it.

Where the command has ``{devices}`` it is how many the driver shall have, as the flag ``--num-devices`` of test drivers.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from dralab.conformance.check import NotOffered, Unmet
from dralab.conformance.claims import Result, devices_of
from dralab.conformance.session import Session, incomplete

Json = dict[str, Any]


@dataclass
class Many:
    """What became of thousands of devices.

    Args:
        problem: why they are not all published; the rest is empty then.
        slices: how many slices they are in.
        writes: how many writes there were once all were published, and nothing happened.
        prepared: what went wrong when the last one was prepared.
    """

    problem: str = ""
    slices: int = 0
    writes: int = 0
    prepared: str = ""


async def many(session: Session) -> Many:
    """Start the driver with thousands of devices, and again as it was.

    Raises:
        NotOffered: its command does not say how many devices it has.
    """
    session.need_restarts()
    if not session.driver.scales:
        raise NotOffered("the command has no {devices}, which says how many devices the driver has")
    usual, known = session.driver.devices, len(session.devices)
    session.driver.devices = session.pace.devices
    try:
        await session.restart(kill=False)
        return await _observed(session)
    except Unmet as problem:
        return Many(problem=str(problem))
    finally:
        session.driver.devices = usual
        await session.restart(kill=False)
        await _published(session, known)


async def _observed(session: Session) -> Many:
    if problem := await _published(session, session.pace.devices):
        return Many(problem=problem)
    found = Many(slices=len(session.slices))
    writes = session.writes()
    await asyncio.sleep(session.pace.quiet)
    found.writes = session.writes() - writes
    usable = [device for device in session.devices if not device.spec.get("consumesCounters")]
    async with session.claim([Result((usable or session.devices)[-1])]) as claim:
        answer = await session.attempt(claim)
        found.prepared = answer if isinstance(answer, str) else ""
    return found


async def _published(session: Session, count: int) -> str:
    """Wait until so many devices are there, more only on a large node, and take them; gives what is wrong."""
    within = session.pace.start
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        slices = await session.look()
        devices = devices_of(slices)
        enough = len(devices) >= count and (len(devices) == count or count == session.pace.devices)
        if enough and not incomplete(slices):
            session.slices, session.devices = slices, devices
            return ""
        if loop.time() > end:
            pools = f"; incomplete pools: {', '.join(incomplete(slices))}" if incomplete(slices) else ""
            return f"{len(devices)} of {count} devices after {within:g} s{pools}"
        await asyncio.sleep(session.pace.poll * 5)

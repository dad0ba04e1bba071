"""Kill the driver while several claims are prepared, and start it again: with its API server, and without."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from dra_node_agent.kubelet.dra.connection import DriverError
from dra_shared.jsontypes import JsonObject

from dra_conformance.check import Unmet
from dra_conformance.claims import Claim, Device, Result, allocatable_together, config
from dra_conformance.edits import edits_of
from dra_conformance.session import Session, cdi_ids, plain
from dra_conformance.traffic import is_about

_MOST = 3
_CROWD = 8
#: Reads of claims are held for this many polls, until those of all claims have arrived.
_GATHERING = 10


@dataclass
class Claimed:
    """A prepared claim: the driver's answer, and the container edits."""

    claim: Claim
    device: Device
    answer: list[tuple[Any, ...]]
    ids: list[str]
    edits: bytes


@dataclass
class Kept:
    """Observations of a start with several prepared claims.

    Args:
        hung: why the driver did not register although it ran, or "".
        exclusive: True if the driver refused another claim for a device in use before the restart.
        repeatable: True if preparing the claims again before the restart did not change what containers get.
        freed: devices of prepared claims that another claim got after the start.
        missing: CDI ids of the claims that no file defined after the start.
        answers: claims whose answer had changed, by their device, with the answer or the error.
        shares: like ``answers``, for claims with a share of a device; None if no device can be shared.
        orphaned: the error of unpreparing, after the start, a claim that was deleted from the API server.
        edits: devices whose container edits differ from those before the restart.
    """

    hung: str = ""
    exclusive: bool = False
    repeatable: bool = True
    freed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    shares: dict[str, Any] | None = None
    orphaned: str = ""
    edits: list[str] = field(default_factory=list)


async def restart_with_claims(session: Session) -> Kept:
    """Kill the driver and start it again, with several claims prepared: one with parameters, and one for a share."""
    return await _observe(session, _start)


async def start_in_outage(session: Session) -> Kept:
    """Kill the driver, and start it while all its requests are answered with 503."""
    return await _observe(session, _start_without_api)


@dataclass
class Crowd:
    """Observations of a start after several claims were prepared concurrently.

    Args:
        missing: CDI ids of the claims that no file defined after the start.
        answers: claims whose answer had changed, by their device, with the answer or the error.
    """

    missing: list[str] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)


async def restart_after_concurrent_claims(session: Session) -> Crowd:
    """Prepare several claims at the same time, kill the driver and start it again.

    Raises:
        NotShown: the driver has only one device that can be prepared.
        Unmet: not all claims are prepared.
    """
    session.need_restarts()
    await session.restart_if_stuck("claims that are prepared concurrently")
    session.pick(2)
    devices = allocatable_together([one for one in session.devices if not one.is_shared], session.counters())
    seen = Crowd()
    async with contextlib.AsyncExitStack() as stack:
        results = [[Result(device)] for device in devices[:_CROWD]]
        claims = [await stack.enter_async_context(session.claim(one)) for one in results]
        answers = await _prepare_at_once(session, claims)
        if refused := [one for one in answers if isinstance(one, str)]:
            raise Unmet(f"of several claims at the same time one is not prepared: {refused[0]}")
        await session.driver.kill()
        await session.start_again()
        seen.missing = session.cdi.undefined_names(name for answer in answers for name in cdi_ids(answer))
        for claim, device, before in zip(claims, devices, answers, strict=False):
            again = await session.try_prepare(claim)
            answer = again if isinstance(again, str) else plain(again)
            if answer != plain(before):
                seen.answers[device.name] = answer
    return seen


async def _prepare_at_once(session: Session, claims: Sequence[Claim]) -> list[Any]:
    """Prepare the claims concurrently. Their reads are answered together, so that the rest of the work coincides."""
    with session.world.requests.hold(lambda visit: is_about(visit, "resourceclaims")) as hold:
        calls = [asyncio.create_task(session.try_prepare(claim)) for claim in claims]
        waiting = asyncio.create_task(hold.reached.wait())
        await asyncio.wait([*calls, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.sleep(_GATHERING * session.pace.poll)
    return await asyncio.gather(*calls)


async def _observe(session: Session, start: Any) -> Kept:
    session.need_restarts()
    await session.restart_if_stuck("a restart with several claims")
    session.pick()
    seen = Kept()
    devices = [one for one in session.devices if not one.is_shared]
    whole = allocatable_together(devices, session.counters())[:_MOST]
    shared = allocatable_together([one for one in session.devices if one.is_shared], session.counters())[:1]
    async with contextlib.AsyncExitStack() as stack:
        claimed = []
        for place, device in enumerate([*whole, *shared]):
            given = await _accepted_config(session, device) if place == 0 else []
            claim = await stack.enter_async_context(session.claim([Result(device)], given))
            answer = await session.prepare_or_skip(claim)
            claimed.append(Claimed(claim, device, plain(answer), cdi_ids(answer), _edits(session, answer)))
        for one in claimed:
            again = await session.prepare_or_skip(one.claim)
            seen.repeatable &= _edits(session, again) == one.edits
        seen.exclusive = bool(whole) and not await _is_free(session, whole[0])
        await session.driver.kill()
        seen.hung = await start(session)
        await _compare(session, claimed, seen)
        if claimed:
            await session.claims.delete(claimed[-1].claim)
            seen.orphaned = await session.try_unprepare(claimed[-1].claim)
    return seen


async def _accepted_config(session: Session, device: Device) -> list[JsonObject]:
    """Return the user's parameters as a claim's configuration, unless the driver refuses them for the device."""
    if session.parameters is None:
        return []
    given = [config(session.name, session.parameters)]
    async with session.claim([Result(device)], given) as claim:
        return [] if isinstance(await session.try_prepare(claim), str) else given


async def _compare(session: Session, claimed: Sequence[Claimed], seen: Kept) -> None:
    seen.missing = session.cdi.undefined_names(name for one in claimed for name in one.ids)
    for one in claimed if seen.exclusive else ():
        if not one.device.is_shared and await _is_free(session, one.device):
            seen.freed.append(one.device.name)
    for one in claimed:
        again = await session.try_prepare(one.claim)
        answer = again if isinstance(again, str) else plain(again)
        if one.device.is_shared:
            seen.shares = {} if answer == one.answer else {one.device.name: answer}
        elif answer != one.answer:
            seen.answers[one.device.name] = answer
        if not isinstance(again, str) and _edits(session, again) != one.edits:
            seen.edits.append(one.device.name)


async def _is_free(session: Session, device: Device) -> bool:
    """True if another claim gets the device."""
    async with session.claim([Result(device)]) as other:
        return not isinstance(await session.try_prepare(other), str)


def _edits(session: Session, answer: Any) -> bytes:
    found: Mapping[str, Any] = edits_of(session, answer)
    return msgspec.json.encode(found)


async def _start(session: Session) -> str:
    await session.start_again()
    return ""


async def _start_without_api(session: Session) -> str:
    """Start the driver in an outage, and return why it hung, or "". It may exit, because a kubelet would restart it."""
    with session.world.requests.refuse(lambda visit: True):
        starting = asyncio.create_task(session.start_again())
        await asyncio.wait([starting], timeout=session.pace.outage)
    try:
        await starting
    except Unmet as problem:
        runs = session.driver.alive() and isinstance(problem.__cause__, DriverError)
        hung = str(problem) if runs else ""
        await session.driver.kill()
        await session.start_again()
        return hung
    return ""

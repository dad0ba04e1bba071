"""What several checks look at, observed once for all of them: deleted slices, an API server that fails, many claims.

An observation leaves the driver running and its claims gone.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_shared.client.errors import ApiError
from dra_shared.jsontypes import JsonObject

from dra_conformance.check import Unmet
from dra_conformance.claims import Claim, Device, Result
from dra_conformance.driverprocess import Usage
from dra_conformance.session import Session, cdi_ids, incomplete
from dra_conformance.world import RESOURCE

_LOOKS = 20
_EACH = 10
#: How many claims are refused to see what is left of them: more than a driver may have open besides.
REFUSED = 12
#: What a slice with one plain device must not have.
_OF_DEVICES = frozenset({"devices", "sharedCounters", "partitionTypeAttribute"})


@dataclass
class Quiet:
    """The slices, watched while nothing happens."""

    writes: int
    before: list[JsonObject]
    after: list[JsonObject]


async def quiet(session: Session) -> Quiet:
    """Watch the slices."""
    writes, before = session.writes(), await _whole(session)
    await asyncio.sleep(session.pace.quiet)
    return Quiet(session.writes() - writes, before, await _whole(session))


@dataclass
class Still:
    """The slices, looked at three times while no claim comes or goes, and how often they were written."""

    writes: int = 0
    looks: list[list[JsonObject]] = field(default_factory=list)


async def still(session: Session) -> Still:
    """Watch the slices once more, alone, where they were written while claims came and went."""
    if not (await session.once(quiet)).writes:
        return Still()
    writes, looks = session.writes(), [await _whole(session)]
    for _ in range(2):
        await asyncio.sleep(session.pace.quiet / 2)
        looks.append(await _whole(session))
    return Still(session.writes() - writes, looks)


async def _whole(session: Session) -> list[JsonObject]:
    """The slices when all of them are there: not in the middle of a change, unless that has no end."""
    for _ in range(_LOOKS):
        found = await session.look()
        if found and not incomplete(found):
            break
        await asyncio.sleep(session.pace.poll)
    return found


@dataclass
class Wiped:
    """The slices after somebody deleted them all, and left one that is out of date.

    Args:
        restored: whether all are back, with the devices of before.
        leftover: whether the one that was out of date is still there.
    """

    restored: bool = False
    leftover: bool = True
    foreign: bool = True


async def wiped(session: Session) -> Wiped:
    """Delete the driver's slices, as a kubelet does when it starts, and see what comes back."""
    await session.once(quiet)
    if not session.slices:
        raise Unmet("the driver has published no slices")
    wanted = {device.key for device in session.devices}
    stale = _stale(session.slices[0])
    await session.world.write("POST", f"{RESOURCE}/resourceslices", stale)
    foreign = _foreign(session)
    await session.world.write("POST", f"{RESOURCE}/resourceslices", foreign)
    for one in session.slices:
        with contextlib.suppress(ApiError):
            await session.world.write("DELETE", f"{RESOURCE}/resourceslices/{one['metadata']['name']}")
    loop = asyncio.get_running_loop()
    end = loop.time() + session.pace.restored
    seen = Wiped()
    while loop.time() < end:
        now = [one for one in await session.look() if not _is_foreign(one)]
        names = {one["metadata"]["name"] for one in now}
        current = [one for one in now if one["metadata"]["name"] != stale["metadata"]["name"]]
        published = {
            (one["spec"]["pool"]["name"], device["name"])
            for one in current
            for device in one["spec"].get("devices") or ()
        }
        seen.restored = wanted <= published and not incomplete(current)
        seen.leftover = stale["metadata"]["name"] in names
        if seen.restored and not seen.leftover:
            break
        await asyncio.sleep(session.pace.poll * 5)
    everything = {one["metadata"]["name"] for one in await session.world.slices()}
    seen.foreign = foreign["metadata"]["name"] in everything
    for name in {stale["metadata"]["name"], foreign["metadata"]["name"]} & everything:
        await session.world.write("DELETE", f"{RESOURCE}/resourceslices/{name}")
    await session.published(session.pace.start)
    return seen


def _stale(example: JsonObject) -> JsonObject:
    spec = {key: value for key, value in example["spec"].items() if key not in _OF_DEVICES}
    spec["pool"] = {"name": example["spec"]["pool"]["name"], "generation": 0, "resourceSliceCount": 1}
    spec["devices"] = [{"name": "gone-long-ago"}]
    return {"metadata": {"name": f"{session_name(example)}-left-behind"}, "spec": spec}


def session_name(example: JsonObject) -> str:
    """A name's beginning that no publisher gives its own slices."""
    return f"zzzzz-{example['spec']['driver']}"


def _foreign(session: Session) -> JsonObject:
    pool = {"name": "elsewhere", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": session.name, "nodeName": "another-node", "pool": pool, "devices": [{"name": "theirs"}]}
    return {"metadata": {"name": "slice-of-another-node"}, "spec": spec}


def _is_foreign(one: JsonObject) -> bool:
    return bool(one["spec"].get("nodeName") == "another-node")


@dataclass
class Outage:
    """The API server failed for a while.

    Args:
        unprepared: what went wrong when a claim was unprepared meanwhile.
        prepared: the answer for that claim afterwards, or what went wrong.
        unread: the answer for a claim that was asked for meanwhile, or what the driver answered.
        again: its answer afterwards, or what went wrong.
    """

    alive: bool = True
    unprepared: str = ""
    prepared: Any = ""
    unread: Any = ""
    again: Any = ""


async def outage(session: Session) -> Outage:
    """Answer all requests of the driver's with 503 for a while; one claim is unprepared, one prepared meanwhile."""
    await session.unstuck("an outage of the API server")
    async with session.claim(prepare=True) as claim, session.claim() as unread:
        seen = Outage()
        with session.world.requests.failing(lambda visit: True):
            loop = asyncio.get_running_loop()
            end = loop.time() + session.pace.outage
            seen.unprepared = await session.undo(claim)
            # A driver may try until the API server is back.
            asking = asyncio.create_task(session.attempt(unread))
            await asyncio.sleep(max(0.0, end - loop.time()))
            seen.alive = session.driver.alive()
        seen.unread = await asking
        if seen.alive:
            # Both are claims of one device.
            await session.undo(unread)
            seen.prepared = await _after_outage(session, claim)
            await session.undo(claim)
            seen.again = await _after_outage(session, unread)
    return seen


async def _after_outage(session: Session, claim: Claim) -> Any:
    answer: Any = ""
    for _ in range(10):
        answer = await session.attempt(claim)
        if not isinstance(answer, str):
            break
        await asyncio.sleep(session.pace.outage / 4)
    return answer


@dataclass
class Cycles:
    """Many claims prepared and unprepared: what the driver had open before and after, and what failed."""

    before: Usage | None
    after: Usage | None
    count: int
    problem: str = ""
    files_before: int = 0
    files_after: int = 0


async def cycles(session: Session) -> Cycles:
    """Prepare and unprepare claims again and again: every few times another one, as what is kept is kept by claim."""
    loop = asyncio.get_running_loop()
    async with session.claim() as claim:
        # Caches and pools are filled before anything is counted.
        for _ in range(session.pace.cycles // 50 + 1):
            await session.ready(claim)
            await session.undone(claim)
    seen = Cycles(session.driver.usage(), None, 0, files_before=_files(session))
    end = loop.time() + session.pace.cycling
    while seen.count < session.pace.cycles and loop.time() < end and not seen.problem:
        async with session.claim() as claim:
            for _ in range(_EACH):
                answer = await session.attempt(claim)
                problem = answer if isinstance(answer, str) else await session.undo(claim)
                seen.count += 1
                if problem:
                    seen.problem = f"cycle {seen.count}: {problem}"
                    break
    seen.after = session.driver.usage()
    seen.files_after = _files(session)
    return seen


@dataclass
class RefusedClaims:
    """Claims that were refused and unprepared: what the driver had open before and after."""

    before: Usage | None
    after: Usage | None = None
    files_before: int = 0
    files_after: int = 0
    remembered: list[str] = field(default_factory=list)


async def refused_claims(session: Session) -> RefusedClaims:
    """Have claims refused, as they have a device that is not there, and unprepare and delete them.

    Raises:
        Unmet: such a claim is prepared.
    """
    there = session.pick()[0]
    absent = Device(there.driver, there.pool, {"name": "no-such-device"})
    results = [Result(there), Result(absent, "r1")]
    async with session.claim(results) as claim:
        if not isinstance(await session.attempt(claim), str):
            raise Unmet("a claim with an unknown device is prepared")
    seen = RefusedClaims(session.driver.usage(), files_before=_files(session))
    uids = []
    for _ in range(REFUSED):
        async with session.claim(results) as claim:
            uids.append(claim.uid)
            await session.attempt(claim)
    seen.after, seen.files_after = session.driver.usage(), _files(session)
    kept = b"".join(await asyncio.to_thread(_contents, session.kubelet.plugins))
    seen.remembered = [uid for uid in uids if uid.encode() in kept]
    return seen


def _contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def _files(session: Session) -> int:
    folders = (session.kubelet.plugins, session.kubelet.registry, session.cdi.directory)
    return sum(1 for folder in folders for _ in folder.rglob("*"))


@dataclass
class Prepared:
    """One device prepared for one claim, and unprepared: what was there meanwhile and afterwards."""

    claim: Claim
    answer: Any
    files: set[str]
    ids: Sequence[str]
    missing: list[str]
    specs: dict[str, Any]
    documents: dict[str, Any]
    defined: list[str]
    left: set[str] = field(default_factory=set)
    still: list[str] = field(default_factory=list)


async def one_claim(session: Session) -> Prepared:
    """Prepare a claim, look at the CDI directory, unprepare it and look again."""
    before = session.cdi.names()
    async with session.claim() as claim:
        answer = await session.ready(claim)
        ids = cdi_ids(answer)
        files = session.cdi.names() - before
        seen = Prepared(
            claim,
            answer,
            files,
            ids,
            session.cdi.missing(ids),
            dict(session.cdi.specs()),
            session.cdi.documents(),
            session.cdi.defined(),
        )
        if problem := await session.undo(claim):
            raise Unmet(f"the claim is not unprepared: {problem}")
        seen.left = session.cdi.names() & files
        own = [one for one in ids if claim.uid in one]
        seen.still = [one for one in own if one in session.cdi.defined()]
    return seen

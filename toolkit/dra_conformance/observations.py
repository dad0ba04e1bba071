"""Observations that several checks use: deleted slices, a failing API server, many claims.

After an observation the driver runs and the claims are deleted.
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
from dra_conformance.foreignslices import foreign_slices
from dra_conformance.session import Session, cdi_ids, incomplete_pools
from dra_conformance.world import RESOURCE

_LOOKS = 20
_EACH = 10
#: The number of refused claims in a search for leaks. It exceeds the open files that are tolerated.
REFUSED = 12
#: Fields that are removed from the copy of a slice that gets one plain device.
_OF_DEVICES = frozenset({"devices", "sharedCounters", "partitionTypeAttribute"})


@dataclass
class Quiet:
    """The slices before and after a time without changes, and the number of writes meanwhile."""

    writes: int
    before: list[JsonObject]
    after: list[JsonObject]


async def watch_quietly(session: Session) -> Quiet:
    """Watch the slices while nothing changes."""
    writes, before = session.writes(), await _read_complete_slices(session)
    await asyncio.sleep(session.pace.quiet)
    return Quiet(session.writes() - writes, before, await _read_complete_slices(session))


@dataclass
class Still:
    """The slices, read three times while no claim is created or deleted, and the number of writes meanwhile."""

    writes: int = 0
    looks: list[list[JsonObject]] = field(default_factory=list)


async def watch_again(session: Session) -> Still:
    """Watch the slices again, with no other check running, if they were written during the first observation.

    The first observation runs while other checks create claims, which may be the reason for the writes.
    """
    if not (await session.once(watch_quietly)).writes:
        return Still()
    writes, looks = session.writes(), [await _read_complete_slices(session)]
    for _ in range(2):
        await asyncio.sleep(session.pace.quiet / 2)
        looks.append(await _read_complete_slices(session))
    return Still(session.writes() - writes, looks)


async def _read_complete_slices(session: Session) -> list[JsonObject]:
    """Read the slices until all pools are complete. Give up after some reads, and return the last ones."""
    for _ in range(_LOOKS):
        found = await session.read_slices()
        if found and not incomplete_pools(found):
            break
        await asyncio.sleep(session.pace.poll)
    return found


@dataclass
class Wiped:
    """The slices after all were deleted and an outdated one was added.

    Args:
        restored: True if the driver has published all devices again.
        leftover: True if the outdated slice still exists.
        harmed: the changes and deletions of slices of another node and of another driver.
    """

    restored: bool = False
    leftover: bool = True
    harmed: list[str] = field(default_factory=list)


async def wipe_slices(session: Session) -> Wiped:
    """Delete the driver's slices, as a kubelet does when it starts, and observe which are published again."""
    await session.once(watch_quietly)
    if not session.slices:
        raise Unmet("the driver has published no slices")
    async with foreign_slices(session.world, session.name) as foreign:
        seen = await _wipe_own_slices(session)
    seen.harmed = foreign.harmed
    return seen


async def _wipe_own_slices(session: Session) -> Wiped:
    wanted = {device.key for device in session.devices}
    stale = _stale(session.slices[0])
    await session.world.write("POST", f"{RESOURCE}/resourceslices", stale)
    for one in session.slices:
        with contextlib.suppress(ApiError):
            await session.world.write("DELETE", f"{RESOURCE}/resourceslices/{one['metadata']['name']}")
    loop = asyncio.get_running_loop()
    end = loop.time() + session.pace.restored
    seen = Wiped()
    while loop.time() < end:
        now = await session.read_slices()
        names = {one["metadata"]["name"] for one in now}
        current = [one for one in now if one["metadata"]["name"] != stale["metadata"]["name"]]
        published = {
            (one["spec"]["pool"]["name"], device["name"])
            for one in current
            for device in one["spec"].get("devices") or ()
        }
        seen.restored = wanted <= published and not incomplete_pools(current)
        seen.leftover = stale["metadata"]["name"] in names
        if seen.restored and not seen.leftover:
            break
        await asyncio.sleep(session.pace.poll * 5)
    if seen.leftover:
        with contextlib.suppress(ApiError):
            await session.world.write("DELETE", f"{RESOURCE}/resourceslices/{stale['metadata']['name']}")
    await session.await_slices(session.pace.start)
    return seen


def _stale(example: JsonObject) -> JsonObject:
    spec = {key: value for key, value in example["spec"].items() if key not in _OF_DEVICES}
    spec["pool"] = {"name": example["spec"]["pool"]["name"], "generation": 0, "resourceSliceCount": 1}
    spec["devices"] = [{"name": "gone-long-ago"}]
    return {"metadata": {"name": f"{_unpublished_prefix(example)}-left-behind"}, "spec": spec}


def _unpublished_prefix(example: JsonObject) -> str:
    """Return the start of a slice name that no publisher generates."""
    return f"zzzzz-{example['spec']['driver']}"


@dataclass
class Outage:
    """Observations of a driver whose API server fails for a while.

    Args:
        unprepared: the error of unpreparing a claim during the outage.
        prepared: the answer for that claim after the outage, or the error.
        unread: the answer for another claim that was to be prepared during the outage, or the error.
        again: the answer for that other claim after the outage, or the error.
    """

    alive: bool = True
    unprepared: str = ""
    prepared: Any = ""
    unread: Any = ""
    again: Any = ""


async def fail_api_server(session: Session) -> Outage:
    """Answer all the driver's requests with 503 for a while. Meanwhile unprepare one claim and prepare another."""
    await session.restart_if_stuck("an outage of the API server")
    async with session.claim(prepare=True) as claim, session.claim() as unread:
        seen = Outage()
        with session.world.requests.refuse(lambda visit: True):
            loop = asyncio.get_running_loop()
            end = loop.time() + session.pace.outage
            seen.unprepared = await session.try_unprepare(claim)
            # The driver may retry until the outage ends, so don't wait for the call yet.
            asking = asyncio.create_task(session.try_prepare(unread))
            await asyncio.sleep(max(0.0, end - loop.time()))
            seen.alive = session.driver.alive()
        seen.unread = await asking
        if seen.alive:
            # Both claims have the same device, so only one can be prepared at a time.
            await session.try_unprepare(unread)
            seen.prepared = await _after_outage(session, claim)
            await session.try_unprepare(claim)
            seen.again = await _after_outage(session, unread)
    return seen


async def _after_outage(session: Session, claim: Claim) -> Any:
    answer: Any = ""
    for _ in range(10):
        answer = await session.try_prepare(claim)
        if not isinstance(answer, str):
            break
        await asyncio.sleep(session.pace.outage / 4)
    return answer


@dataclass
class Cycles:
    """The driver's resource usage before and after many claims were prepared and unprepared, and the first error."""

    before: Usage | None
    after: Usage | None
    count: int
    problem: str = ""
    files_before: int = 0
    files_after: int = 0


async def cycle_claims(session: Session) -> Cycles:
    """Prepare and unprepare claims many times. Use a new claim every few cycles, because leaks may be per claim."""
    loop = asyncio.get_running_loop()
    async with session.claim() as claim:
        # Warm up first, so that caches and pools do not count as leaks.
        for _ in range(session.pace.cycles // 50 + 1):
            await session.prepare_or_skip(claim)
            await session.unprepare_or_skip(claim)
    seen = Cycles(session.driver.usage(), None, 0, files_before=_files(session))
    end = loop.time() + session.pace.cycling
    while seen.count < session.pace.cycles and loop.time() < end and not seen.problem:
        async with session.claim() as claim:
            for _ in range(_EACH):
                answer = await session.try_prepare(claim)
                problem = answer if isinstance(answer, str) else await session.try_unprepare(claim)
                seen.count += 1
                if problem:
                    seen.problem = f"cycle {seen.count}: {problem}"
                    break
    seen.after = session.driver.usage()
    seen.files_after = _files(session)
    return seen


@dataclass
class RefusedClaims:
    """The driver's resource usage before and after several claims were refused, unprepared and deleted."""

    before: Usage | None
    after: Usage | None = None
    files_before: int = 0
    files_after: int = 0
    remembered: list[str] = field(default_factory=list)


async def refuse_claims(session: Session) -> RefusedClaims:
    """Prepare claims with an unknown device, which must fail, and then unprepare and delete them.

    Raises:
        Unmet: such a claim is prepared.
    """
    there = session.pick()[0]
    absent = Device(there.driver, there.pool, {"name": "no-such-device"})
    results = [Result(there), Result(absent, "r1")]
    async with session.claim(results) as claim:
        if not isinstance(await session.try_prepare(claim), str):
            raise Unmet("a claim with an unknown device is prepared")
    seen = RefusedClaims(session.driver.usage(), files_before=_files(session))
    uids = []
    for _ in range(REFUSED):
        async with session.claim(results) as claim:
            uids.append(claim.uid)
            await session.try_prepare(claim)
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
    """Observations of one claim: the answer, the CDI files while it was prepared, and the files left afterwards."""

    claim: Claim
    answer: Any
    files: set[str]
    ids: Sequence[str]
    missing: list[str]
    specs: dict[str, Any]
    documents: dict[str, Any]
    defined: list[str]
    writable: list[str]
    left: set[str] = field(default_factory=set)
    still: list[str] = field(default_factory=list)


async def prepare_one_claim(session: Session) -> Prepared:
    """Prepare a claim, read the CDI directory, unprepare the claim and read the directory again."""
    before = session.cdi.names()
    async with session.claim() as claim:
        answer = await session.prepare_or_skip(claim)
        ids = cdi_ids(answer)
        files = session.cdi.names() - before
        seen = Prepared(
            claim,
            answer,
            files,
            ids,
            session.cdi.undefined_names(ids),
            dict(session.cdi.specs()),
            session.cdi.documents(),
            session.cdi.device_names(),
            session.cdi.writable_by_all(files),
        )
        if problem := await session.try_unprepare(claim):
            raise Unmet(f"the claim is not unprepared: {problem}")
        seen.left = session.cdi.names() & files
        own = [one for one in ids if claim.uid in one]
        seen.still = [one for one in own if one in session.cdi.device_names()]
    return seen

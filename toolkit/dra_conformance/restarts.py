"""The driver is killed, stopped, interrupted and doubled, each observed once for all checks that look at it.

An observation leaves the driver running and its claims gone.
"""

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_driverkit.cdi import Spec
from dra_node_agent.kubelet.dra.connection import DriverError, health_service
from dra_node_agent.kubelet.dra.wire import CallError
from dra_shared.jsontypes import JsonObject

from dra_conformance.check import NotOffered, Unmet
from dra_conformance.claims import Device, Result
from dra_conformance.driverprocess import Ended
from dra_conformance.kubelet import health_reports
from dra_conformance.session import Session, cdi_ids, plain
from dra_conformance.traffic import about

_SETTLING = 20
_FIRST_REPORT = 2.0


@dataclass
class Restarted:
    """A restart with claims prepared.

    Args:
        problem: why the driver did not come back; the rest is empty then.
        before, after: the answer for the first claim, as it was and when it was asked for again.
        missing: CDI ids of the first claim that were not defined after the restart, before it was prepared again.
        unprepared: what went wrong when the second claim was unprepared without being prepared again.
        left: CDI files of the second claim that are still there.
        third: whether a third claim was prepared and unprepared right before.
        held: what went wrong when a new claim was to get the third one's device.
        devices: those of the claims.
        slices_before, slices_after: the slices once all are published again.
    """

    ended: Ended = field(default_factory=lambda: Ended(0, 0.0))
    problem: str = ""
    sockets: list[Path] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    after: Any = ""
    missing: list[str] = field(default_factory=list)
    missing_again: list[str] = field(default_factory=list)
    second: bool = False
    unprepared: str = ""
    left: set[str] = field(default_factory=set)
    third: bool = False
    held: str = ""
    devices: list[Device] = field(default_factory=list)
    slices_before: list[JsonObject] = field(default_factory=list)
    slices_at_exit: list[JsonObject] = field(default_factory=list)
    slices_after: list[JsonObject] = field(default_factory=list)


async def killed(session: Session) -> Restarted:
    """kill -9 and a new start, with two claims prepared."""
    return await _restarted(session, kill=True)


async def stopped(session: Session) -> Restarted:
    """SIGTERM and a new start, with two claims prepared."""
    return await _restarted(session, kill=False)


async def _restarted(session: Session, *, kill: bool) -> Restarted:
    session.need_restarts()
    await session.unstuck("a restart")
    seen = Restarted(slices_before=await session.look())
    devices = session.pick()
    with contextlib.suppress(NotOffered):
        devices = session.pick(2)
    seen.devices = devices
    async with contextlib.AsyncExitStack() as stack:
        claims = [await stack.enter_async_context(session.claim([Result(device)])) for device in devices]
        first = await session.ready(claims[0])
        seen.before = plain(first)
        files = session.cdi.names()
        seen.second = len(claims) > 1
        if seen.second:
            await session.ready(claims[1])
        of_second = session.cdi.names() - files
        third = None
        if kill:
            third = await _come_and_gone(session, [one.key for one in devices])
            await session.driver.kill()
        else:
            seen.ended = await _stop_as_kubelets_see_it(session)
        seen.sockets = session.kubelet.sockets()
        seen.slices_at_exit = await session.look()
        try:
            await session.back()
        except Unmet as problem:
            seen.problem = str(problem)
            return seen
        await _settle(session)
        seen.slices_after = await session.look()
        seen.missing = session.cdi.missing(cdi_ids(first))
        again = await session.attempt(claims[0])
        seen.after = again if isinstance(again, str) else plain(again)
        if not isinstance(again, str):
            seen.missing_again = session.cdi.missing(cdi_ids(again))
        if seen.second:
            seen.unprepared = await session.undo(claims[1])
            seen.left = session.cdi.names() & of_second
        if third is not None:
            seen.third = True
            async with session.claim([Result(third)]) as claim:
                answer = await session.attempt(claim)
                seen.held = answer if isinstance(answer, str) else ""
    return seen


async def _come_and_gone(session: Session, others: list[tuple[str, str]]) -> Device | None:
    """Prepare and unprepare a claim of one more device, and give that device; None where there is none."""
    devices = []
    with contextlib.suppress(NotOffered):
        devices = [one for one in session.pick(3) if one.key not in others]
    if not devices:
        return None
    async with session.claim([Result(devices[0])]) as claim:
        prepared = not isinstance(await session.attempt(claim), str)
        if not prepared or await session.undo(claim):
            return None
    return devices[0]


async def _stop_as_kubelets_see_it(session: Session) -> Ended:
    """Stop the driver while a health stream is open, as it always is with a kubelet."""
    service = health_service(session.registration.versions, session.version)
    stream = health_reports(session.registration, service) if service else None
    try:
        if stream is not None:
            with contextlib.suppress(TimeoutError, CallError, StopAsyncIteration):
                async with asyncio.timeout(_FIRST_REPORT):
                    await anext(stream)
        return await session.driver.stop(session.pace.stop)
    finally:
        if stream is not None:
            await stream.aclose()


async def _settle(session: Session) -> None:
    """Wait until the driver has written what it writes at its start."""
    await session.published(session.pace.start)
    known, now = -1, session.writes()
    for _ in range(_SETTLING):
        if known == now:
            return
        await asyncio.sleep(min(1.0, session.pace.quiet / 2))
        known, now = now, session.writes()


@dataclass
class Interrupted:
    """A preparation during which the driver was killed: at which moment, and what came of it afterwards."""

    moment: str
    prepared: Any = ""
    missing: list[str] = field(default_factory=list)
    unprepared: str = ""
    left: set[str] = field(default_factory=set)


async def interrupted(session: Session) -> list[Interrupted]:
    """Kill the driver while it reads the claim, when its CDI file appears, and right after its answer."""
    session.need_restarts()
    return [await _interrupt(session, moment) for moment in ("reads the claim", "has written its CDI file")]


async def _interrupt(session: Session, moment: str) -> Interrupted:
    seen = Interrupted(moment)
    await session.unstuck(f"a crash when it {moment}")
    async with session.claim() as claim:
        files = session.cdi.names()
        if moment == "reads the claim":
            with session.world.requests.held(lambda visit: about(visit, "resourceclaims")) as hold:
                call = asyncio.create_task(session.attempt(claim))
                await _first(call, hold.reached.wait(), session.pace.start)
                await session.driver.kill()
        else:
            call = asyncio.create_task(session.attempt(claim))
            await _first(call, _appeared(session, files), session.pace.start)
            await session.driver.kill()
        await asyncio.gather(call, return_exceptions=True)
        await session.back()
        answer = await session.attempt(claim)
        seen.prepared = answer if isinstance(answer, str) else plain(answer)
        if not isinstance(answer, str):
            seen.missing = session.cdi.missing(cdi_ids(answer))
        seen.unprepared = await session.undo(claim)
        seen.left = session.cdi.names() - files
    return seen


async def _first(call: "asyncio.Task[Any]", moment: Any, within: float) -> None:
    waiting = asyncio.ensure_future(moment)
    await asyncio.wait([call, waiting], timeout=within, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _appeared(session: Session, files: set[str]) -> None:
    for _ in itertools.count():
        if session.cdi.names() - files:
            return
        await asyncio.sleep(0)


@dataclass
class Damaged:
    """A start with a checkpoint that is cut short, and one with the checkpoint as it was.

    Args:
        problem: why the driver did not come back; empty where it did.
        ended: whether it ended by itself then.
        prepared: its answer for the claim whose checkpoint was cut, or what went wrong.
        log: what it wrote meanwhile.
        repaired: what went wrong with the checkpoint as it was; empty for nothing.
    """

    files: list[str]
    problem: str = ""
    ended: bool = False
    prepared: Any = ""
    log: str = ""
    repaired: str = ""


async def damaged(session: Session) -> Damaged:
    """Cut what the driver has written about a claim in half, as a power cut does, and start it with that.

    Raises:
        NotOffered: it writes nothing below the plugins' directory when a claim is prepared.
    """
    session.need_restarts()
    await session.unstuck("a damaged checkpoint")
    async with session.claim() as claim:
        before = _written(session)
        await session.ready(claim)
        kept = {path: data for path, data in _written(session).items() if data and before.get(path) != data}
        if not kept:
            raise NotOffered("the driver keeps no checkpoint in the plugins' directory")
        seen = Damaged([path.name for path in kept])
        await session.driver.kill()
        for path, data in kept.items():
            path.write_bytes(data[: len(data) // 2])
        known = len(session.driver.output())
        try:
            await session.back()
            answer = await session.attempt(claim)
            seen.prepared = answer if isinstance(answer, str) else plain(answer)
        except Unmet as problem:
            seen.problem, seen.ended = str(problem), not session.driver.alive()
        await session.driver.kill()
        seen.log = session.driver.output()[known:]
        session.excused.append(seen.log)
        for path, data in kept.items():
            path.write_bytes(data)
        try:
            await session.back()
            answer = await session.attempt(claim)
            seen.repaired = answer if isinstance(answer, str) else ""
        except Unmet as problem:
            seen.repaired = str(problem)
    return seen


def _written(session: Session) -> dict[Path, bytes]:
    """The files below the plugins' directory, without those that containers get."""
    mounted = {
        Path(mount.host_path)
        for spec in session.cdi.specs().values()
        if isinstance(spec, Spec)
        for device in spec.devices
        for mount in device.container_edits.mounts
    }
    found = {}
    for path in session.kubelet.plugins.rglob("*"):
        if path not in mounted:
            with contextlib.suppress(OSError):
                if path.is_file():
                    found[path] = path.read_bytes()
    return found


@dataclass
class Instances:
    """Two instances at a time: what went wrong with the takeover, and with the claims of the older one."""

    problem: str = ""
    claims: str = ""


async def instances(session: Session) -> Instances:
    """Start a second instance, end the first, and go on with the second; the first is back at the end."""
    session.need_restarts()
    if not session.driver.instances:
        raise NotOffered("the command has no {pod_uid}, which gives each instance sockets of its own")
    seen = Instances()
    await session.unstuck("a rolling update")
    async with session.claim(prepare=True) as claim:
        answer = plain(await session.ready(claim))
        old = session.registration
        await session.driver.start("1")
        try:
            new = await session.kubelet.find(
                session.pace.start, apart_from=[old.socket], alive=session.driver.alive
            )
            await session.kubelet.notify(new.socket)
            await _settle(session)
            if new.endpoint == old.endpoint:
                seen.problem = f"both instances have the endpoint {old.endpoint}"
            elif not old.is_there():
                seen.problem = "the new instance took the old one's sockets away while that one still ran"
            else:
                await session.driver.stop(session.pace.stop)
                await session.register(new)
                again = await session.attempt(claim)
                if not new.is_there():
                    seen.problem = "the old instance took the new one's sockets away"
                elif isinstance(again, str):
                    seen.claims = f"a claim of the old instance: {again}"
                elif plain(again) != answer:
                    seen.claims = f"a claim of the old instance was {answer}, and is {plain(again)}"
                elif not await session.published(session.pace.start):
                    seen.problem = "the slices are gone"
        except DriverError as error:
            seen.problem = f"the second instance does not register: {error}"
        finally:
            for instance in ("0", "1"):
                with contextlib.suppress(KeyError):
                    await session.driver.stop(session.pace.stop, instance)
        await session.back()
    return seen

"""Restart the driver: kill it, stop it, interrupt it, and run two instances.

Each restart serves all checks that need it.

After an observation the driver runs and the claims are deleted.
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

from dra_conformance.check import NotOffered, NotShown, Unmet
from dra_conformance.claims import Device, Result
from dra_conformance.driverprocess import Ended
from dra_conformance.foreignslices import foreign_slices
from dra_conformance.kubelet import health_reports
from dra_conformance.session import Session, cdi_ids, plain
from dra_conformance.traffic import is_about

_SETTLING = 20
_FIRST_REPORT = 2.0


@dataclass
class Restarted:
    """Observations of a restart with prepared claims.

    Args:
        problem: why the driver did not register again; the fields after it are empty then.
        before, after: the answers for the first claim before and after the restart.
        missing: CDI ids of the first claim that no file defined after the restart, before it was prepared again.
        missing_again: those that no file defined after it was prepared again.
        unprepared: the error of unpreparing the second claim without preparing it again.
        left: CDI files of the second claim that still exist.
        third: True if a third claim was prepared and unprepared right before the restart.
        held: the error of preparing a new claim with the third claim's device.
        devices: the devices of the first two claims.
        slices_before, slices_after: the slices before the restart, and when all are published again.
        harmed: the changes and deletions of slices of another node and of another driver that existed at the start.
    """

    ended: Ended = field(default_factory=lambda: Ended(0, 0.0))
    problem: str = ""
    sockets: list[Path] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    after: Any = ""
    missing: list[str] = field(default_factory=list)
    second: bool = False
    unprepared: str = ""
    left: set[str] = field(default_factory=set)
    third: bool = False
    held: str = ""
    devices: list[Device] = field(default_factory=list)
    slices_before: list[JsonObject] = field(default_factory=list)
    slices_at_exit: list[JsonObject] = field(default_factory=list)
    slices_after: list[JsonObject] = field(default_factory=list)
    harmed: list[str] = field(default_factory=list)


async def kill_driver(session: Session) -> Restarted:
    """Kill the driver with SIGKILL and start it again, with two claims prepared."""
    return await _restart_driver(session, kill=True)


async def stop_driver(session: Session) -> Restarted:
    """Stop the driver with SIGTERM and start it again, with two claims prepared."""
    return await _restart_driver(session, kill=False)


async def _restart_driver(session: Session, *, kill: bool) -> Restarted:
    session.need_restarts()
    await session.restart_if_stuck("a restart")
    seen = Restarted(slices_before=await session.read_slices())
    devices = session.pick()
    with contextlib.suppress(NotOffered):
        devices = session.pick(2)
    seen.devices = devices
    async with contextlib.AsyncExitStack() as stack:
        claims = [await stack.enter_async_context(session.claim([Result(device)])) for device in devices]
        first = await session.prepare_or_skip(claims[0])
        seen.before = plain(first)
        files = session.cdi.names()
        seen.second = len(claims) > 1
        if seen.second:
            await session.prepare_or_skip(claims[1])
        of_second = session.cdi.names() - files
        third = None
        if kill:
            third = await _use_spare_device(session, [one.key for one in devices])
            await session.driver.kill()
        else:
            seen.ended = await _stop_with_health_stream(session)
        seen.sockets = session.kubelet.sockets()
        seen.slices_at_exit = await session.read_slices()
        foreign = await stack.enter_async_context(foreign_slices(session.world, session.name))
        seen.harmed = foreign.harmed
        try:
            await session.start_again()
        except Unmet as problem:
            seen.problem = str(problem)
            return seen
        await _settle(session)
        seen.slices_after = await session.read_slices()
        seen.missing = session.cdi.undefined_names(cdi_ids(first))
        again = await session.try_prepare(claims[0])
        seen.after = again if isinstance(again, str) else plain(again)
        if seen.second:
            seen.unprepared = await session.try_unprepare(claims[1])
            seen.left = session.cdi.names() & of_second
        if third is not None:
            seen.third = True
            async with session.claim([Result(third)]) as claim:
                answer = await session.try_prepare(claim)
                seen.held = answer if isinstance(answer, str) else ""
    return seen


async def _use_spare_device(session: Session, others: list[tuple[str, str]]) -> Device | None:
    """Prepare and unprepare a claim of one more device and return the device, or None if there is none."""
    devices = []
    with contextlib.suppress(NotOffered):
        devices = [one for one in session.pick(3) if one.key not in others]
    if not devices:
        return None
    async with session.claim([Result(devices[0])]) as claim:
        prepared = not isinstance(await session.try_prepare(claim), str)
        if not prepared or await session.try_unprepare(claim):
            return None
    return devices[0]


async def _stop_with_health_stream(session: Session) -> Ended:
    """Stop the driver while a health stream is open, because a kubelet always has one open."""
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
    """Wait until the driver has finished the writes of its start."""
    await session.await_slices(session.pace.start)
    known, now = -1, session.writes()
    for _ in range(_SETTLING):
        if known == now:
            return
        await asyncio.sleep(min(1.0, session.pace.quiet / 2))
        known, now = now, session.writes()


@dataclass
class Interrupted:
    """Observations of a crash during a preparation: its moment, and the state after the next start."""

    moment: str
    prepared: Any = ""
    missing: list[str] = field(default_factory=list)
    unprepared: str = ""
    left: set[str] = field(default_factory=set)


async def interrupt_preparations(session: Session) -> list[Interrupted]:
    """Kill the driver while it reads the claim, and when its CDI file appears."""
    session.need_restarts()
    return [await _interrupt(session, moment) for moment in ("reads the claim", "has written its CDI file")]


async def _interrupt(session: Session, moment: str) -> Interrupted:
    seen = Interrupted(moment)
    await session.restart_if_stuck(f"a crash when it {moment}")
    async with session.claim() as claim:
        files = session.cdi.names()
        if moment == "reads the claim":
            with session.world.requests.hold(lambda visit: is_about(visit, "resourceclaims")) as hold:
                call = asyncio.create_task(session.try_prepare(claim))
                await _first(call, hold.reached.wait(), session.pace.start)
                await session.driver.kill()
        else:
            call = asyncio.create_task(session.try_prepare(claim))
            await _first(call, await_new_file(session, files), session.pace.start)
            await session.driver.kill()
        await asyncio.gather(call, return_exceptions=True)
        await session.start_again()
        answer = await session.try_prepare(claim)
        seen.prepared = answer if isinstance(answer, str) else plain(answer)
        if not isinstance(answer, str):
            seen.missing = session.cdi.undefined_names(cdi_ids(answer))
        seen.unprepared = await session.try_unprepare(claim)
        seen.left = session.cdi.names() - files
    return seen


async def _first(call: "asyncio.Task[Any]", moment: Any, within: float) -> None:
    waiting = asyncio.ensure_future(moment)
    await asyncio.wait([call, waiting], timeout=within, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def await_new_file(session: Session, files: set[str]) -> None:
    """Wait until there is a CDI file besides these."""
    for _ in itertools.count():
        if session.cdi.names() - files:
            return
        await asyncio.sleep(0)


@dataclass
class Damaged:
    """Observations of a start with a truncated checkpoint, and of one with the intact checkpoint.

    Args:
        files: the names of the truncated files.
        problem: why the driver did not register with the truncated checkpoint, or "".
        ended: True if it exited by itself then.
        prepared: its answer for the claim whose checkpoint was truncated, or the error.
        log: its output with the truncated checkpoint.
        repaired: the error with the intact checkpoint, or "".
    """

    files: list[str]
    problem: str = ""
    ended: bool = False
    prepared: Any = ""
    log: str = ""
    repaired: str = ""


async def damage_checkpoint(session: Session) -> Damaged:
    """Truncate the files that the driver has written about a claim, as a power cut might, and start it.

    Raises:
        NotOffered: preparing a claim changes no file in the plugins' directory.
    """
    session.need_restarts()
    await session.restart_if_stuck("a damaged checkpoint")
    async with session.claim() as claim:
        before = checkpoint_files(session)
        await session.prepare_or_skip(claim)
        kept = {
            path: data
            for path, data in checkpoint_files(session).items()
            if data and before.get(path) != data
        }
        if not kept:
            raise NotShown("the driver keeps no checkpoint in the plugins' directory")
        seen = Damaged([path.name for path in kept])
        await session.driver.kill()
        for path, data in kept.items():
            path.write_bytes(data[: len(data) // 2])
        known = len(session.driver.output())
        try:
            await session.start_again()
            answer = await session.try_prepare(claim)
            seen.prepared = answer if isinstance(answer, str) else plain(answer)
        except Unmet as problem:
            seen.problem, seen.ended = str(problem), not session.driver.alive()
        await session.driver.kill()
        seen.log = session.driver.output()[known:]
        session.excused.append(seen.log)
        for path, data in kept.items():
            path.write_bytes(data)
        try:
            await session.start_again()
            answer = await session.try_prepare(claim)
            seen.repaired = answer if isinstance(answer, str) else ""
        except Unmet as problem:
            seen.repaired = str(problem)
    return seen


def checkpoint_files(session: Session) -> dict[Path, bytes]:
    """Return the files in the plugins' directory, except those that are mounted into containers."""
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
    """Errors of a second instance's takeover, and of claims that the first instance had prepared."""

    problem: str = ""
    claims: str = ""


async def replace_instance(session: Session) -> Instances:
    """Start a second instance, stop the first, and use the second. Then start the first again."""
    session.need_restarts()
    if not session.driver.instances:
        raise NotOffered("the command has no {pod_uid}, which gives each instance sockets of its own")
    seen = Instances()
    await session.restart_if_stuck("a rolling update")
    async with session.claim(prepare=True) as claim:
        prepared = await session.prepare_or_skip(claim)
        answer, ids = plain(prepared), cdi_ids(prepared)
        old = session.registration
        await session.driver.start("1")
        try:
            new = await session.kubelet.find(
                session.pace.start, apart_from=[old.socket], alive=session.driver.alive
            )
            await session.kubelet.notify(new.socket)
            await _settle(session)
            missing = session.cdi.undefined_names(ids)
            if new.endpoint == old.endpoint:
                seen.problem = f"both instances have the endpoint {old.endpoint}"
            elif not old.is_there():
                seen.problem = "the new instance took the old one's sockets away while that one still ran"
            elif missing:
                seen.claims = f"with the new instance no file defines {', '.join(missing)} of a claim in use"
            else:
                await session.driver.stop(session.pace.stop)
                await session.register(new)
                again = await session.try_prepare(claim)
                if not new.is_there():
                    seen.problem = "the old instance took the new one's sockets away"
                elif isinstance(again, str):
                    seen.claims = f"a claim of the old instance: {again}"
                elif plain(again) != answer:
                    seen.claims = f"a claim of the old instance was {answer}, and is {plain(again)}"
                elif not await session.await_slices(session.pace.start):
                    seen.problem = "the slices are gone"
        except DriverError as error:
            seen.problem = f"the second instance does not register: {error}"
        finally:
            for instance in ("0", "1"):
                with contextlib.suppress(KeyError):
                    await session.driver.stop(session.pace.stop, instance)
        await session.start_again()
    return seen

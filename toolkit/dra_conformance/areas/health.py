"""The health stream (k8s.io/kubelet/pkg/apis/dra-health, KEP-4680)."""

import asyncio
import contextlib
import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_node_agent.kubelet.dra.connection import HEALTH_V1, health_service
from dra_node_agent.kubelet.dra.health import DEFAULT_TIMEOUT
from dra_node_agent.kubelet.dra.wire import CallError
from dra_shared.version import V1_37

from dra_conformance.check import Area, Breach, NotOffered, NotShown, Stage, Unmet
from dra_conformance.claims import Result
from dra_conformance.driverprocess import Usage
from dra_conformance.kubelet import HEALTH_SERVICES, health_reports
from dra_conformance.restarts import kill_driver
from dra_conformance.session import Session

AREA = Area(
    "health",
    rests_on=("registration.endpoint", "registration.versions-served", "health.service"),
    gate="ResourceHealthStatus",
)

_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/dra-health/v1/api.proto"
_MANAGER = "pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go"
_CACHE = "pkg/kubelet/cm/dra/healthinfo.go"
_STREAMS, _SPARE, _MORE = 16, 8, 3
_HELD = 0.05
# Times in reports have whole seconds.
_SECOND = 1.0

Key = tuple[str, str]


@dataclass
class Reports:
    """The first report of a stream, and the seconds until each of its devices was reported again.

    ``waiting`` has the devices that were not reported again, ``times`` the newest time of the first report and of the
    last one.
    """

    first: Sequence[Any] = ()
    waiting: set[Key] = field(default_factory=set)
    again: float | None = None
    times: tuple[int, int] = (0, 0)
    timeout: float = DEFAULT_TIMEOUT
    problem: str = ""
    waited: float = 0.0


@dataclass
class _Opened:
    devices: Sequence[Any] | None = None
    problem: str = ""
    seconds: float = field(default=0.0)


async def observe_renewal(session: Session) -> Reports:
    """Wait until a stream reports each device again. Repeat if the driver was restarted meanwhile."""
    while True:
        starts = session.starts
        seen = await _observe_once(session)
        async with session.changing:
            if not seen.problem or session.starts == starts:
                return seen


async def _observe_once(session: Session) -> Reports:
    service = _service(session)
    loop = asyncio.get_running_loop()
    seen = Reports()
    began = loop.time()
    try:
        async with asyncio.timeout(session.pace.start + session.pace.health):
            async for devices in health_reports(session.registration, service):
                if seen.first:
                    seen.waiting -= _keys(devices)
                    if devices:
                        seen.times = seen.times[0], max(one.last_updated_time for one in devices)
                    if not seen.waiting:
                        seen.again = loop.time() - began
                        break
                    continue
                seen.first, seen.waiting = list(devices), _keys(devices)
                seen.times = max((one.last_updated_time for one in devices), default=0), 0
                given = [one.health_check_timeout_seconds for one in devices]
                seen.timeout = float(min([value for value in given if value > 0], default=DEFAULT_TIMEOUT))
                began = loop.time()
            else:
                seen.problem = "the driver ended the stream"
    except TimeoutError:
        pass
    except CallError as error:
        seen.problem = str(error)
    seen.waited = loop.time() - began
    return seen


async def open_stream(session: Session, then: float = 0.0) -> _Opened:
    """Open a stream, wait for its first report, and keep it open for ``then`` more seconds."""
    service = _service(session)
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(session.pace.start):
            async with contextlib.aclosing(health_reports(session.registration, service)) as reports:
                async for devices in reports:
                    opened = _Opened(list(devices), seconds=loop.time() - began)
                    await asyncio.sleep(then)
                    return opened
    except TimeoutError:
        return _Opened(problem=f"no report within {session.pace.start:g} s")
    except CallError as error:
        return _Opened(problem=str(error))
    return _Opened(problem="the driver ended the stream")


@AREA.check(
    "service",
    "the driver offers a health service that this kubelet watches",
    promise="A driver that reports health offers v1alpha1.DRAResourceHealth to kubelets before 1.37, which know no"
    " other; since 1.37 v1 or v1alpha1.",
    source=_MANAGER + " (pickHealthService); https://github.com/kubernetes/kubernetes/pull/139477",
    cost="The driver reports health, and no kubelet asks for it: every device is Unknown.",
)
async def _check_served(session: Session) -> None:
    offered = _offered_services(session)
    if _service(session) not in offered:
        raise Breach(f"{', '.join(offered)}, and a kubelet of {session.version} watches {_service(session)}")


@AREA.check(
    "newest-service",
    "the driver offers the v1 health service",
    promise="v1.DRAResourceHealth is among the services: kubelets stop knowing v1alpha1 in 1.40.",
    source=_MANAGER + "; https://github.com/kubernetes/kubernetes/issues/139475",
    cost="Health is Unknown from the upgrade on that drops v1alpha1.",
    recommended=True,
    since=V1_37,
)
async def _check_newest(session: Session) -> None:
    if HEALTH_V1 not in _offered_services(session):
        raise Breach(f"only {', '.join(_offered_services(session))}")


@AREA.check(
    "first-report",
    "a new stream begins with a report",
    promise="The first report comes at once, without a change of any device.",
    source=_PROTO,
    cost="Health is Unknown for every pod until something breaks.",
)
async def _check_first_report(session: Session) -> None:
    seen = await session.once(open_stream)
    if seen.problem:
        raise Breach(seen.problem)


@AREA.check(
    "every-device",
    "a report has every device",
    promise="Each report is complete: all devices that the driver publishes are in it.",
    source=_PROTO + "; " + _CACHE,
    cost="Devices that are left out become Unknown when their last report is stale.",
    rests_on=("health.known-devices",),
)
async def _check_every_device(session: Session) -> None:
    given = _keys(await _devices(session))
    missing = [device.name for device in session.devices if device.key not in given]
    if missing:
        raise Breach(f"{len(missing)} of {len(session.devices)} devices are missing, such as {missing[0]}")


@AREA.check(
    "known-devices",
    "a report has no other devices",
    promise="Pool and name in a report are those of the slices.",
    source=_PROTO,
    cost="The report is for no device; the kubelet's cache fills up.",
    rests_on=("slices.published",),
)
async def _check_known_devices(session: Session) -> None:
    known = {device.key for device in session.devices}
    given = _keys(await _devices(session))
    if unknown := sorted(given - known):
        raise Breach(f"unknown: {unknown[0][0]}/{unknown[0][1]}")


@AREA.check(
    "states",
    "states are healthy, unhealthy or unknown",
    promise="The health of a device is a value of HealthStatus; a device that works is HEALTHY.",
    source=_PROTO + " (HealthStatus)",
    cost="The kubelet shows Unknown.",
)
async def _check_states(session: Session) -> None:
    devices = await _devices(session)
    if odd := [one for one in devices if one.health not in (0, 1, 2)]:
        raise Breach(f"device {odd[0].device.device_name}: {odd[0].health}")
    if devices and all(one.health == 0 for one in devices):
        raise Breach("every device is UNKNOWN")


@AREA.check(
    "in-use",
    "devices in use are reported",
    promise="A device that is allocated to a claim is reported with the same health as before.",
    source="pkg/kubelet/cm/dra/manager.go (UpdateAllocatedResourcesStatus: devices of pods only); "
    "https://github.com/kubernetes/website/pull/51731",
    cost="The kubelet shows the health of devices that pods have: each pod's is Unknown, or Unhealthy.",
    rests_on=("health.first-report", "health.every-device", "health.states", "prepare.succeeds"),
)
async def _check_in_use(session: Session) -> None:
    device = session.pick()[0]
    before = _states_of(await _devices(session)).get(device.key)
    if before is None:
        raise Unmet(f"device {device.name} is not reported without a claim either")
    async with session.claim([Result(device)], prepare=True):
        opened = await open_stream(session)
    if opened.devices is None:
        raise Unmet(opened.problem)
    found = _states_of(opened.devices)
    if device.key not in found:
        raise Breach(f"device {device.name} is not in the report while a claim has it")
    if found[device.key] != before:
        raise Breach(f"device {device.name}: {before} without a claim, {found[device.key]} with one")


@AREA.check(
    "meanwhile",
    "claims are prepared while a stream is open",
    promise="An open health stream does not block other calls.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go (a stream for as long as the driver is there); "
    "https://github.com/grpc/grpc/issues/8616",
    cost="A kubelet that watches health, as all since 1.37 do, starts no pod.",
    rests_on=("health.first-report", "prepare.succeeds", "unprepare.succeeds"),
)
async def _check_meanwhile(session: Session) -> None:
    async with contextlib.aclosing(health_reports(session.registration, _service(session))) as stream:
        try:
            async with asyncio.timeout(session.pace.start):
                await anext(stream)
        except (TimeoutError, CallError, StopAsyncIteration) as error:
            raise Unmet(f"there is no stream: {error}") from error
        async with session.claim() as claim:
            if isinstance(answer := await session.try_prepare(claim), str):
                raise Breach(f"prepare: {answer}")
            if problem := await session.try_unprepare(claim):
                raise Breach(f"unprepare: {problem}")


@AREA.check(
    "times",
    "reports carry their time",
    promise="last_updated_time is the time of the report in seconds since 1970.",
    source=_PROTO,
    cost="Milliseconds or zero make the report one of the far future, or of 1970.",
    recommended=True,
)
async def _check_times(session: Session) -> None:
    now = session.now()
    for one in await _devices(session):
        if abs(one.last_updated_time - now) > 3600:
            raise Breach(f"device {one.device.device_name}: {one.last_updated_time}, and it is {now:.0f}")


@AREA.check(
    "again",
    "reports are renewed before they are stale",
    promise="Each device is reported at least every 30 seconds, or within the timeout that the report itself gives.",
    source=_CACHE + " (DefaultHealthTimeout)",
    cost="Every pod's health flips to Unknown half a minute after it was Healthy.",
    stage=Stage.BACKGROUND,
)
async def _check_again(session: Session) -> None:
    seen = await session.once(observe_renewal)
    if not seen.first:
        raise Unmet(seen.problem or "there was no report")
    if seen.problem:
        raise Breach(seen.problem)
    if seen.again is None and seen.waited < seen.timeout:
        raise NotShown(f"none in {seen.waited:.0f} s, which is within the timeout of {seen.timeout:g} s")
    if seen.again is None or seen.again > seen.timeout:
        late = f"device {min(seen.waiting)[1]} was" if seen.waiting else "devices were"
        raise Breach(
            f"{late} not reported again for {seen.again or seen.waited:.0f} s, the timeout is {seen.timeout:g} s"
        )


@AREA.check(
    "renewed-times",
    "a renewed report has a new time",
    promise="last_updated_time of a report that is renewed is later than in the report before, if more than a second"
    " lies between them.",
    source=_PROTO,
    cost="Tools that read the time take the health of a working device for an old one.",
    recommended=True,
    stage=Stage.BACKGROUND,
    rests_on=("health.again", "health.times"),
)
async def _check_renewed_times(session: Session) -> None:
    seen = await session.once(observe_renewal)
    if seen.again is None or seen.problem:
        raise Unmet(seen.problem or "no report was renewed")
    if seen.again > _SECOND and seen.times[1] <= seen.times[0]:
        raise Breach(f"{seen.times[1]} again after {seen.again:.0f} s")


@AREA.check(
    "resumed",
    "a second stream can be opened after the first",
    promise="A kubelet that opens the stream again gets a report again.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go (NodeWatchResources is called again)",
    cost="After a restart of the kubelet all health is Unknown.",
)
async def _check_resumed(session: Session) -> None:
    if (await session.once(open_stream)).problem:
        raise Unmet("the first stream fails already")
    again = await open_stream(session)
    if again.problem:
        raise Breach(again.problem)


@AREA.check(
    "two-streams",
    "a second stream can be opened while the first is open",
    promise="Two streams at a time both get reports.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go (a stream for each registered instance)",
    cost="While the connection of a kubelet that ended lingers, the next one gets no health.",
    recommended=True,
    stage=Stage.BACKGROUND,
    rests_on=("health.first-report", "health.resumed", "health.again"),
)
async def _check_two_streams(session: Session) -> None:
    seen = await session.once(observe_renewal)
    while True:
        starts = session.starts
        problem = await _problem_of_two_streams(session, renewed=seen.again is not None)
        async with session.changing:
            if not problem or session.starts == starts:
                break
    if problem:
        raise Breach(problem)


async def _problem_of_two_streams(session: Session, *, renewed: bool) -> str:
    """Open two streams and return what is wrong with their reports, or "".

    ``renewed`` says that reports are renewed, so that the first stream has to get a second report.
    """
    within = session.pace.start + session.pace.health
    async with (
        contextlib.aclosing(health_reports(session.registration, _service(session))) as first,
        contextlib.aclosing(health_reports(session.registration, _service(session))) as second,
    ):
        try:
            async with asyncio.timeout(within):
                await anext(first)
        except (TimeoutError, CallError, StopAsyncIteration) as error:
            raise Unmet(f"there is no stream: {error}") from error
        for place, stream in (("second", second), ("first", first)):
            if stream is first and not renewed:
                break
            try:
                async with asyncio.timeout(within):
                    await anext(stream)
            except TimeoutError:
                return f"the {place} of two streams got no report within {within:g} s"
            except StopAsyncIteration:
                return f"the driver ended the {place} of two streams"
            except CallError as error:
                return f"the {place} of two streams: {error}"
    return ""


@AREA.check(
    "closed",
    "a cancelled stream leaks nothing",
    promise="A stream that the kubelet cancels ends in the driver too, and its thread and file are released.",
    source="https://github.com/Project-HAMi/ascend-device-plugin/issues/125 (its like in device plugins); "
    "https://grpc.io/docs/guides/cancellation/",
    cost="After some restarts of the kubelet the driver answers no call any more.",
    rests_on=("health.first-report", "health.resumed", "prepare.succeeds", "unprepare.succeeds"),
)
async def _check_closed(session: Session) -> None:
    before = session.driver.usage()
    await _open_and_cancel(session, _STREAMS)
    if await session.probe() and (problem := await session.probe()):
        raise Breach(f"after {_STREAMS} cancelled streams: {problem}")
    if not await _lasting_excess(session, before):
        return
    # A garbage collector may free resources late, but then they do not grow with the number of streams.
    await _open_and_cancel(session, _MORE * _STREAMS)
    total = (_MORE + 1) * _STREAMS
    if left := await _lasting_excess(session, before, spare=total // 2):
        raise Breach(f"after {total} cancelled streams: {left}")


async def _open_and_cancel(session: Session, count: int) -> None:
    for number in range(count):
        opened = await open_stream(session, then=_HELD)
        if opened.problem:
            raise Breach(
                f"health stream {number + 1} cannot be opened after the earlier ones were cancelled: {opened.problem}"
            )


async def _lasting_excess(session: Session, before: Usage | None, spare: int = _SPARE) -> str:
    """Describe the additional threads or files that the driver keeps for a while, or return "".

    A thread may notice the end of its stream only with its next report, which may be half a minute later.
    """
    # A call that was cancelled keeps its connection until the collector finds it, here as well as in drivers in Python.
    gc.collect()
    loop = asyncio.get_running_loop()
    end = loop.time() + session.pace.health
    while left := _excess(before, session.driver.usage(), spare):
        if loop.time() > end:
            return left
        await asyncio.sleep(session.pace.poll * 5)
    return ""


def _excess(before: Usage | None, after: Usage | None, spare: int) -> str:
    """Describe the increase of the driver's threads or open files; "" if there is none or it is not visible."""
    if before is None or after is None:
        return ""
    if after.threads > before.threads + spare:
        return f"{before.threads} threads before, {after.threads} now"
    return (
        f"{before.files} open files before, {after.files} now" if after.files > before.files + spare else ""
    )


@AREA.check(
    "after-restart",
    "the stream works after a restart",
    promise="After a crash and a new start the stream reports every device again.",
    source=_PROTO,
    cost="All health is Unknown until somebody intervenes.",
    stage=Stage.RESTART,
)
async def _check_after_restart(session: Session) -> None:
    before = await session.once(open_stream)
    if before.problem:
        raise Unmet(before.problem)
    if (await session.once(kill_driver)).problem:
        raise Unmet("the driver did not come back")
    again = await open_stream(session)
    if again.problem:
        raise Breach(again.problem)
    if len(again.devices or ()) < len(before.devices or ()):
        raise Breach(f"{len(before.devices or ())} devices before, {len(again.devices or ())} after")


def _keys(devices: Sequence[Any]) -> set[Key]:
    return {(one.device.pool_name, one.device.device_name) for one in devices}


def _states_of(devices: Sequence[Any]) -> dict[Key, str]:
    names = {0: "unknown", 1: "healthy", 2: "unhealthy"}
    return {
        (one.device.pool_name, one.device.device_name): names.get(one.health, str(one.health))
        for one in devices
    }


async def _devices(session: Session) -> Sequence[Any]:
    seen = await session.once(open_stream)
    if seen.devices is None:
        raise Unmet(seen.problem)
    return seen.devices


def _offered_services(session: Session) -> list[str]:
    offered = [service for service in HEALTH_SERVICES if service in session.registration.versions]
    if not offered:
        raise NotOffered("the driver announces no health service")
    return offered


def _service(session: Session) -> str:
    """Return the service that a kubelet of the session's version watches."""
    return health_service(_offered_services(session), session.version) or HEALTH_V1

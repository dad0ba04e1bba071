"""NodePrepareResources (k8s.io/kubelet/pkg/apis/dra/v1/api.proto, pkg/kubelet/cm/dra/manager.go)."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dra_node_agent.kubelet.dra.connection import DriverError
from dra_shared.jsontypes import JsonObject

from dra_conformance.check import Area, Breach, Stage, Unmet
from dra_conformance.claims import Device, Result, config
from dra_conformance.observations import fail_api_server, prepare_one_claim
from dra_conformance.restarts import interrupt_preparations, kill_driver, stop_driver
from dra_conformance.session import Session, cdi_ids, plain
from dra_conformance.traffic import is_about

AREA = Area("prepare", rests_on=("registration.versions", "registration.versions-served", "prepare.succeeds"))

_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto"
_MANAGER = "pkg/kubelet/cm/dra/manager.go"
_PLUGIN = "staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/draplugin.go"

_SLOW = 10.0
_PARALLEL = 8
_POOLS = 4


@AREA.check(
    "succeeds",
    "an allocated claim is prepared",
    promise="NodePrepareResources answers for each claim that it is asked for, without an error.",
    source=_PROTO,
    cost="Pods stay in ContainerCreating: NodePrepareResources skipped 1 ResourceClaims.",
)
async def _check_succeeds(session: Session) -> None:
    async with session.claim() as claim:
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(answer)


@AREA.check(
    "only-asked",
    "the driver answers for the requested claims only",
    promise="The answer has no claim that was not asked for.",
    source=_MANAGER + " (NodePrepareResources returned result for unknown claim UID)",
    cost="The kubelet drops the whole answer; the pod never starts.",
)
async def _check_only_asked(session: Session) -> None:
    async with session.claim() as one, session.claim([Result(session.pick(1)[0])]) as other:
        with contextlib.suppress(DriverError):
            answers = await session.prepare(one)
            if more := answers.keys() - {one.uid}:
                raise Breach(f"asked for {one.uid}, answered for {', '.join(sorted(more))} too")
            await session.unprepare(one, other)


@AREA.check(
    "devices",
    "the answer has the allocated devices",
    promise="The answer has the pool and name of each allocated device of the driver, and of no other device.",
    source=_PROTO + " (Device)",
    cost="The pod's device status, health and metadata are those of other devices, or missing.",
)
async def _check_devices(session: Session) -> None:
    seen = await session.once(prepare_one_claim)
    wanted = {(one["pool"], one["device"]) for one in seen.claim.of(session.name)}
    given = {(one.pool_name, one.device_name) for one in seen.answer.devices}
    if given != wanted:
        raise Breach(f"allocated {sorted(wanted)}, answered {sorted(given)}")
    for device in _devices_of_other_pools(session, seen.claim.results[0]["pool"]):
        async with session.claim([Result(device)]) as claim:
            answer = await session.try_prepare(claim)
            given = (
                set()
                if isinstance(answer, str)
                else {(one.pool_name, one.device_name) for one in answer.devices}
            )
            if given and given != {device.key}:
                raise Breach(f"allocated {device.key}, answered {sorted(given)}")


def _devices_of_other_pools(session: Session, pool: str) -> list[Device]:
    """Return the first device of each other pool."""
    first: dict[str, Device] = {}
    for device in session.devices:
        first.setdefault(device.pool, device)
    return [device for name, device in first.items() if name != pool][:_POOLS]


@AREA.check(
    "requests",
    "devices name their requests",
    promise="Each device names the requests of the claim that it was allocated for; no name means all of them.",
    source=_PROTO + " (Device.request_names)",
    cost="A container that names one request of the claim gets no device, or those of all requests.",
)
async def _check_requests(session: Session) -> None:
    seen = await session.once(prepare_one_claim)
    wanted = {one["request"] for one in seen.claim.of(session.name)}
    for device in seen.answer.devices:
        if not set(device.request_names) <= wanted:
            raise Breach(
                f"device {device.device_name} is for {list(device.request_names)}, not {sorted(wanted)}"
            )


@AREA.check(
    "subrequests",
    "alternatives are named by their request",
    promise="For the request r0/large of the allocation the device names r0: containers know only this name.",
    source=_PLUGIN + " (stripSubrequestNames); KEP-4816",
    cost="With firstAvailable the container gets no device at all, and starts without.",
)
async def _check_subrequests(session: Session) -> None:
    async with session.claim([Result(session.pick()[0], "r0/large")]) as claim:
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(f"a claim with r0/large is not prepared: {answer}")
        for device in answer.devices:
            if list(device.request_names) not in (["r0"], []):
                raise Breach(f"device {device.device_name} is for {list(device.request_names)}, not r0")


@AREA.check(
    "several-devices",
    "a claim with two devices gets both",
    promise="All results of the allocation that are the driver's are prepared.",
    source=_PROTO,
    cost="A pod that asks for two devices gets one.",
    rests_on=(
        "prepare.requests",
        "prepare.devices",
    ),
)
async def _check_several_devices(session: Session) -> None:
    results = [Result(device, f"r{number}") for number, device in enumerate(session.pick(2))]
    async with session.claim(results) as claim:
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(f"a claim with two devices is not prepared: {answer}")
        given = {(one.pool_name, one.device_name): list(one.request_names) for one in answer.devices}
        for result in results:
            if result.device.key not in given:
                raise Breach(f"device {result.device.name} of the claim is not in the answer")
            if given[result.device.key] not in ([result.request], []):
                raise Breach(
                    f"device {result.device.name} is for {given[result.device.key]}, not {result.request}"
                )


@AREA.check(
    "several-claims",
    "several claims of one call are all answered",
    promise="A call may be for several claims of a pod; the answer has each.",
    source=_PROTO,
    cost="Pods with two claims never start: NodePrepareResources skipped 1 ResourceClaims.",
)
async def _check_several_claims(session: Session) -> None:
    first, second = session.pick(2)
    async with session.claim([Result(first)]) as one, session.claim([Result(second)]) as other:
        try:
            answers = await session.prepare(one, other)
        except DriverError as error:
            raise Breach(str(error)) from error
        for claim in (one, other):
            if claim.uid not in answers:
                raise Breach("one of two claims is not in the answer")
            if answers[claim.uid].error:
                raise Breach(answers[claim.uid].error)


@AREA.check(
    "empty-call",
    "a call without claims is answered",
    promise="A call for no claims is answered with none.",
    source=_PROTO,
    cost="Tools that probe the driver take it for broken, or break it.",
    recommended=True,
)
async def _check_empty_call(session: Session) -> None:
    try:
        answers = await session.prepare()
    except DriverError as error:
        raise Breach(str(error)) from error
    if answers:
        raise Breach(f"answered for {sorted(answers)}")


@AREA.check(
    "idempotent",
    "preparing a claim again gives the same answer",
    promise="A claim that is prepared is answered as before: kubelets ask again after each restart and each failure.",
    source=_PROTO + "; KEP-4381 (NodePrepareResources must be idempotent)",
    cost="A pod whose first start failed elsewhere never starts, or its second container gets other devices.",
)
async def _check_idempotent(session: Session) -> None:
    async with session.claim() as claim:
        first = await session.prepare_or_skip(claim)
        again = await session.try_prepare(claim)
        if isinstance(again, str):
            raise Breach(f"the second call fails: {again}")
        if plain(again) != plain(first):
            raise Breach(f"first {plain(first)}, then {plain(again)}")


@AREA.check(
    "concurrent",
    "calls may be concurrent",
    promise="Calls may run at the same time, for one claim or for several: the kubelet starts pods in parallel.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go; " + _PLUGIN + " (Serialize)",
    cost="Pods that start together break each other's devices, or hang.",
    rests_on=("prepare.idempotent",),
)
async def _check_concurrent(session: Session) -> None:
    async with session.claim() as claim:
        answers = await asyncio.gather(*(session.try_prepare(claim) for _ in range(_PARALLEL)))
    failed = [answer for answer in answers if isinstance(answer, str)]
    if len(failed) == _PARALLEL:
        raise Unmet(failed[0])
    if failed:
        raise Breach(f"{len(failed)} of {_PARALLEL} calls for one claim fail: {failed[0]}")
    if len({str(plain(answer)) for answer in answers}) > 1:
        raise Breach(f"{_PARALLEL} calls for one claim get different answers")


@AREA.check(
    "concurrent-claims",
    "different claims may be prepared concurrently",
    promise="Two claims that are prepared at the same time get the same as each would get alone.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go; " + _PLUGIN + " (Serialize)",
    cost="Checkpoints and CDI files overwrite each other when pods start together.",
    rests_on=("cdi.defined", "prepare.devices"),
)
async def _check_concurrent_claims(session: Session) -> None:
    first, second = session.pick(2)
    async with session.claim([Result(first)]) as one, session.claim([Result(second)]) as other:
        answers = await asyncio.gather(session.try_prepare(one), session.try_prepare(other))
        failed = [answer for answer in answers if isinstance(answer, str)]
        if len(failed) == len(answers):
            raise Unmet(failed[0])
        if failed:
            raise Breach(failed[0])
        for answer, device in zip(answers, (first, second), strict=True):
            if missing := session.cdi.undefined_names(cdi_ids(answer)):
                raise Breach(f"no CDI file defines {', '.join(missing)}")
            if device.key not in {(one.pool_name, one.device_name) for one in answer.devices}:
                raise Breach(f"the claim of {device.name} got another device")


@AREA.check(
    "unknown-claim",
    "a claim that does not exist is refused",
    promise="The driver reads the claim from the API server; one that is not there is an error.",
    source=_PLUGIN + " (get resource claims)",
    cost="Devices are prepared for a claim that was deleted, and stay prepared.",
)
async def _check_unknown_claim(session: Session) -> None:
    async with session.claim() as claim:
        await _expect_refusal(session, replace(claim, name="no-such-claim", uid="no-such-uid"))


@AREA.check(
    "other-uid",
    "a claim with another UID is refused",
    promise="A claim whose UID is not the one asked for is an error: it was deleted and created again.",
    source=_PLUGIN + " (claim … got replaced)",
    cost="The pod of a deleted claim gets the devices of its successor.",
)
async def _check_other_uid(session: Session) -> None:
    async with session.claim() as claim:
        await _expect_refusal(session, replace(claim, uid="00000000-0000-4000-8000-000000000000"))


@AREA.check(
    "not-allocated",
    "a claim without allocation is refused",
    promise="A claim that is not allocated is an error.",
    source=_PLUGIN + " (claim … not allocated)",
    cost="The pod starts without a device, or the driver crashes.",
)
async def _check_not_allocated(session: Session) -> None:
    claim = await session.claims.make([Result(session.pick()[0])], allocate=False)
    try:
        await _expect_refusal(session, claim)
    finally:
        await session.claims.delete(claim)


@AREA.check(
    "unknown-device",
    "an unknown device is refused",
    promise="An allocation of a device that the driver does not have is an error.",
    source="KEP-4381 (driver errors are reported for the claim)",
    cost="After a device was removed, a pod runs without the device that it needs.",
)
async def _check_unknown_device(session: Session) -> None:
    async with session.claim([Result(_unknown_device(session))]) as claim:
        await _expect_refusal(session, claim)


@AREA.check(
    "half-failed",
    "a claim that fails leaves nothing behind",
    promise="If a claim is refused for a device or its configuration, nothing is left once it is unprepared: it has no"
    " CDI file, and its devices are prepared for the next claim.",
    source="KEP-4381; https://github.com/cncf-tags/container-device-interface;"
    " https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/840",
    cost="Devices of failed pods stay configured and cannot be had by others, and files pile up.",
    rests_on=(
        "unprepare.succeeds",
        "cdi.gone",
    ),
)
async def _check_half_failed(session: Session) -> None:
    device = session.pick()[0]
    unknown = config(session.name, {"apiVersion": "conformance.dralab.dev/v1", "kind": "Unknown"})
    refused = [
        await _is_refused_cleanly(
            session, "a device that is not there", [Result(device), Result(_unknown_device(session), "r1")]
        ),
        await _is_refused_cleanly(session, "an unknown configuration", [Result(device)], [unknown]),
    ]
    if not any(refused):
        raise Unmet("a claim with an unknown device is prepared, and one with an unknown configuration, too")


async def _is_refused_cleanly(
    session: Session, why: str, results: Sequence[Result], configs: Sequence[JsonObject] = ()
) -> bool:
    """Return whether such a claim is refused. Raises Breach if it leaves something behind."""
    before = session.cdi.names()
    async with session.claim(results, configs) as claim:
        if not isinstance(await session.try_prepare(claim), str):
            return False
        await session.try_unprepare(claim)
        if left := session.cdi.names() - before:
            raise Breach(f"refused for {why}; after unprepare there is still {', '.join(sorted(left))}")
    async with session.claim(results[:1]) as claim:
        if isinstance(answer := await session.try_prepare(claim), str):
            raise Breach(f"after a claim that was refused for {why}: {answer}")
    return True


@AREA.check(
    "half-failed-call",
    "one claim's failure does not affect the others",
    promise="Of two claims in a call the good one is prepared, and the bad one has the error.",
    source=_PROTO + " (failures for individual claims)",
    cost="One broken claim keeps all claims of the pod, and of shared calls, from being prepared.",
    rests_on=("prepare.several-claims",),
)
async def _check_half_failed_call(session: Session) -> None:
    bad = [Result(_unknown_device(session))]
    async with session.claim() as good, session.claim(bad) as broken:
        if not isinstance(await session.try_prepare(broken), str):
            raise Unmet("the claim with an unknown device is prepared")
        try:
            answers = await session.prepare(good, broken)
        except DriverError as error:
            raise Breach(f"the call as a whole fails: {error}") from error
        if good.uid not in answers:
            raise Breach("the good claim is not in the answer")
        if answers[good.uid].error:
            raise Breach(f"the good claim fails too: {answers[good.uid].error}")


@AREA.check(
    "other-drivers",
    "results of other drivers are left alone",
    promise="A claim may have devices of several drivers; each prepares its own.",
    source=_MANAGER + "; KEP-4381",
    cost="A pod with a GPU and a network card of two vendors never starts.",
)
async def _check_other_drivers(session: Session) -> None:
    mine = session.pick()[0]
    other = Device("other.example.com", "their-pool", {"name": "their-device"})
    async with session.claim([Result(mine), Result(other, "r1")]) as claim:
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(f"with a device of another driver: {answer}")
        if any(one.device_name == "their-device" for one in answer.devices):
            raise Breach("the answer has the other driver's device")


@AREA.check(
    "namesakes",
    "another driver's device of the same name is left alone",
    promise="A device is identified by driver, pool and name, not by the name alone.",
    source="staging/src/k8s.io/api/resource/v1/types.go (the unique identifier of a device)",
    cost="Two drivers with devices called gpu-0 prepare each other's claims.",
)
async def _check_namesakes(session: Session) -> None:
    mine = session.pick()[0]
    other = Device("other.example.com", mine.pool, {"name": mine.name})
    async with session.claim([Result(other)]) as claim:
        answer = await session.try_prepare(claim)
        if not isinstance(answer, str) and answer.devices:
            raise Breach(f"it prepared {mine.name}, which is another driver's")


@AREA.check(
    "changed-allocation",
    "a new allocation takes effect",
    promise="A claim that was unprepared and is allocated another device is prepared with that one.",
    source=_PLUGIN + "; KEP-4381 (deallocation)",
    cost="The pod runs on a device that is allocated to somebody else.",
    rests_on=("prepare.devices",),
)
async def _check_changed_allocation(session: Session) -> None:
    first, second = session.pick(2)
    async with session.claim([Result(first)], prepare=True) as claim:
        await session.unprepare_or_skip(claim)
        claim = await session.claims.allocate(claim, [Result(second)])
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Unmet(answer)
        given = {(one.pool_name, one.device_name) for one in answer.devices}
        if second.key not in given:
            raise Breach(f"allocated {second.name}, answered {sorted(given)}")


@AREA.check(
    "released",
    "a device can be prepared again",
    promise="Once its claim is unprepared, a device is prepared for the next claim.",
    source=_MANAGER,
    cost="Each device works once, until the driver is restarted.",
    rests_on=("unprepare.succeeds",),
)
async def _check_released(session: Session) -> None:
    device = session.pick()[0]
    async with session.claim([Result(device)], prepare=True) as claim:
        await session.unprepare_or_skip(claim)
    async with session.claim([Result(device)]) as claim:
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(f"the next claim: {answer}")


@AREA.check(
    "exclusive",
    "a device in use is refused to other claims",
    promise="While a claim is prepared its device is refused to others, unless as a share or for an administrator.",
    source="https://github.com/kubernetes/kubernetes/issues/128981;"
    " https://github.com/kubernetes-sigs/dra-example-driver/issues/263",
    cost="After a forced deletion two pods run on one device for seconds, and both may fail.",
    recommended=True,
)
async def _check_exclusive(session: Session) -> None:
    device = session.pick(shared=False)[0]
    async with (
        session.claim([Result(device)], prepare=True),
        session.claim([Result(device)]) as other,
    ):
        if not isinstance(await session.try_prepare(other), str):
            raise Breach(f"two claims have {device.name} at a time")


@AREA.check(
    "timely",
    "the driver answers within ten seconds",
    promise="A call is answered within ten seconds; the kubelet gives up after 45.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go (defaultClientCallTimeout)",
    cost="Pods start slowly, and under load not at all.",
    recommended=True,
)
async def _check_timely(session: Session) -> None:
    loop = asyncio.get_running_loop()
    async with session.claim() as claim:
        began = loop.time()
        await session.prepare_or_skip(claim)
        if (spent := loop.time() - began) > _SLOW:
            raise Breach(f"{spent:.1f} s")


@AREA.check(
    "cancelled",
    "a cancelled call does no harm",
    promise="After the kubelet cancels a call at its deadline, the next call for the claim succeeds.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go (timeout)",
    cost="One slow answer of the API server makes a claim unusable until the driver is restarted.",
    rests_on=("prepare.half-failed",),
)
async def _check_cancelled(session: Session) -> None:
    async with session.claim() as claim:
        with session.world.requests.hold(lambda visit: is_about(visit, "resourceclaims")) as hold:
            call = asyncio.create_task(session.try_prepare(claim))
            reached = asyncio.create_task(hold.reached.wait())
            await asyncio.wait([call, reached], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            call.cancel()
            await asyncio.gather(call, reached, return_exceptions=True)
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(f"the next call: {answer}")


@AREA.check(
    "api-error",
    "an API server error is reported and can be retried",
    promise="If the claim cannot be read, the driver answers with an error, and the next call succeeds.",
    source=_PLUGIN + " (retrieve claim)",
    cost="A hiccup of the API server leaves a pod without devices, or the node without a driver.",
    stage=Stage.OUTAGE,
)
async def _check_api_error(session: Session) -> None:
    seen = await session.once(fail_api_server)
    if not seen.alive:
        raise Unmet("the driver ended meanwhile")
    if isinstance(seen.prepared, str):
        raise Breach(f"after the API server was back: {seen.prepared}")
    if not isinstance(seen.unread, str) and not seen.unread.devices:
        raise Breach("a claim that it could not read has neither an error nor devices")
    if isinstance(seen.again, str):
        raise Breach(f"a claim that it could not read, once the API server was back: {seen.again}")


@AREA.check(
    "after-restart",
    "prepared claims survive a restart",
    promise="After SIGTERM and a new start a prepared claim is answered as before.",
    source=_PLUGIN + "; KEP-4381 (drivers keep a checkpoint)",
    cost="After an update of the driver, containers that restart get other devices, or none.",
    stage=Stage.RESTART,
    rests_on=("prepare.idempotent",),
)
async def _check_after_restart(session: Session) -> None:
    _expect_same_answer(await session.once(stop_driver))


@AREA.check(
    "after-kill",
    "prepared claims survive kill -9",
    promise="A claim that was prepared before a crash gets the same answer after it.",
    source=_PLUGIN + "; KEP-4381 (drivers keep a checkpoint)",
    cost="After a crash a claim is lost or prepared twice, with other devices.",
    stage=Stage.RESTART,
)
async def _check_after_kill(session: Session) -> None:
    seen = await session.once(stop_driver)
    if seen.problem or seen.after != seen.before:
        raise Unmet("the driver loses prepared claims on a graceful restart")
    _expect_same_answer(await session.once(kill_driver))


@AREA.check(
    "killed-meanwhile",
    "a preparation that crashed can be repeated",
    promise="If the driver is killed at any moment of a preparation, it prepares the claim when it is asked again.",
    source="pkg/kubelet/cm/dra/manager.go (phases); KEP-4381",
    cost="A claim whose preparation crashed can never be prepared again; the pod is lost.",
    stage=Stage.RESTART,
    rests_on=("prepare.idempotent", "cdi.defined", "prepare.api-error", "slices.complete-after-restart"),
)
async def _check_killed_meanwhile(session: Session) -> None:
    for seen in await session.once(interrupt_preparations):
        if isinstance(seen.prepared, str):
            raise Breach(f"killed when it {seen.moment}: {seen.prepared}")
        if seen.missing:
            raise Breach(f"killed when it {seen.moment}: no CDI file defines {', '.join(seen.missing)}")


def _expect_same_answer(seen: Any) -> None:
    if seen.problem:
        raise Unmet(seen.problem)
    if isinstance(seen.after, str):
        raise Breach(seen.after)
    if seen.after != seen.before:
        raise Breach(f"before {seen.before}, after {seen.after}")


async def _expect_refusal(session: Session, claim: Any) -> None:
    answer = await session.try_prepare(claim)
    if not isinstance(answer, str):
        await session.try_unprepare(claim)
        raise Breach(f"prepared: {plain(answer)}")
    if not session.driver.alive():
        raise Breach(f"the driver ended: {answer}")


def _unknown_device(session: Session) -> Device:
    known = session.pick()[0]
    return Device(known.driver, known.pool, {"name": "no-such-device"})

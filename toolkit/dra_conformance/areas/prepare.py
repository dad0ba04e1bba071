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
from dra_conformance.observations import one_claim, outage
from dra_conformance.restarts import interrupted, killed, stopped
from dra_conformance.session import Session, cdi_ids, plain
from dra_conformance.traffic import about

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
async def _succeeds(session: Session) -> None:
    async with session.claim() as claim:
        answer = await session.attempt(claim)
        if isinstance(answer, str):
            raise Breach(answer)


@AREA.check(
    "only-asked",
    "it answers for nothing else",
    promise="The answer has no claim that was not asked for.",
    source=_MANAGER + " (NodePrepareResources returned result for unknown claim UID)",
    cost="The kubelet drops the whole answer; the pod never starts.",
)
async def _only_asked(session: Session) -> None:
    async with session.claim() as one, session.claim([Result(session.pick(1)[0])]) as other:
        with contextlib.suppress(DriverError):
            answers = await session.prepare(one)
            if more := answers.keys() - {one.uid}:
                raise Breach(f"asked for {one.uid}, answered for {', '.join(sorted(more))} too")
            await session.unprepare(one, other)


@AREA.check(
    "devices",
    "the answer has the allocated devices",
    promise="Each allocated device of the driver is in the answer, with its pool and name, and no other.",
    source=_PROTO + " (Device)",
    cost="Device status, health and metadata of the pod are those of other devices, or none.",
)
async def _devices(session: Session) -> None:
    seen = await session.once(one_claim)
    wanted = {(one["pool"], one["device"]) for one in seen.claim.of(session.name)}
    given = {(one.pool_name, one.device_name) for one in seen.answer.devices}
    if given != wanted:
        raise Breach(f"allocated {sorted(wanted)}, answered {sorted(given)}")
    for device in _of_other_pools(session, seen.claim.results[0]["pool"]):
        async with session.claim([Result(device)]) as claim:
            answer = await session.attempt(claim)
            given = (
                set()
                if isinstance(answer, str)
                else {(one.pool_name, one.device_name) for one in answer.devices}
            )
            if given and given != {device.key}:
                raise Breach(f"allocated {device.key}, answered {sorted(given)}")


def _of_other_pools(session: Session, pool: str) -> list[Device]:
    """The first device of each pool but this one."""
    first: dict[str, Device] = {}
    for device in session.devices:
        first.setdefault(device.pool, device)
    return [device for name, device in first.items() if name != pool][:_POOLS]


@AREA.check(
    "requests",
    "devices name their requests",
    promise="Each device names the requests of the claim that it is for; none means all of them.",
    source=_PROTO + " (Device.request_names)",
    cost="A container that names one request of the claim gets no device, or those of all requests.",
)
async def _requests(session: Session) -> None:
    seen = await session.once(one_claim)
    wanted = {one["request"] for one in seen.claim.of(session.name)}
    for device in seen.answer.devices:
        if not set(device.request_names) <= wanted:
            raise Breach(
                f"device {device.device_name} is for {list(device.request_names)}, not {sorted(wanted)}"
            )


@AREA.check(
    "subrequests",
    "alternatives are named by their request",
    promise="For the request r0/large of the allocation the device names r0: containers know no more.",
    source=_PLUGIN + " (stripSubrequestNames); KEP-4816",
    cost="With firstAvailable the container gets no device at all, and starts without.",
)
async def _subrequests(session: Session) -> None:
    async with session.claim([Result(session.pick()[0], "r0/large")]) as claim:
        answer = await session.ready(claim)
        for device in answer.devices:
            if list(device.request_names) not in (["r0"], []):
                raise Breach(f"device {device.device_name} is for {list(device.request_names)}, not r0")


@AREA.check(
    "several-devices",
    "a claim with two devices gets both",
    promise="All results of the allocation that are the driver's are prepared.",
    source=_PROTO,
    cost="A pod that pays for two devices gets one.",
    rests_on=(
        "prepare.requests",
        "prepare.devices",
    ),
)
async def _several_devices(session: Session) -> None:
    results = [Result(device, f"r{number}") for number, device in enumerate(session.pick(2))]
    async with session.claim(results) as claim:
        answer = await session.ready(claim)
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
async def _several_claims(session: Session) -> None:
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
async def _empty_call(session: Session) -> None:
    try:
        answers = await session.prepare()
    except DriverError as error:
        raise Breach(str(error)) from error
    if answers:
        raise Breach(f"answered for {sorted(answers)}")


@AREA.check(
    "idempotent",
    "again the same answer",
    promise="A claim that is prepared is answered as before: kubelets ask again after each restart and each failure.",
    source=_PROTO + "; KEP-4381 (NodePrepareResources must be idempotent)",
    cost="A pod whose first start failed elsewhere never starts, or its second container gets other devices.",
)
async def _idempotent(session: Session) -> None:
    async with session.claim() as claim:
        first = await session.ready(claim)
        again = await session.attempt(claim)
        if isinstance(again, str):
            raise Breach(f"the second call fails: {again}")
        if plain(again) != plain(first):
            raise Breach(f"first {plain(first)}, then {plain(again)}")


@AREA.check(
    "concurrent",
    "calls at the same time",
    promise="Calls for one claim and for several may come at a time: the kubelet starts pods in parallel.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go; " + _PLUGIN + " (Serialize)",
    cost="Pods that start together break each other's devices, or hang.",
    rests_on=("prepare.idempotent",),
)
async def _concurrent(session: Session) -> None:
    async with session.claim() as claim:
        answers = await asyncio.gather(*(session.attempt(claim) for _ in range(_PARALLEL)))
    failed = [answer for answer in answers if isinstance(answer, str)]
    if len(failed) == _PARALLEL:
        raise Unmet(failed[0])
    if failed:
        raise Breach(f"{len(failed)} of {_PARALLEL} calls for one claim fail: {failed[0]}")
    if len({str(plain(answer)) for answer in answers}) > 1:
        raise Breach(f"{_PARALLEL} calls for one claim get different answers")


@AREA.check(
    "concurrent-claims",
    "different claims at the same time",
    promise="Two claims that are prepared at a time get what each would get alone.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go; " + _PLUGIN + " (Serialize)",
    cost="Checkpoints and CDI files overwrite each other when pods start together.",
    rests_on=("cdi.defined", "prepare.devices"),
)
async def _concurrent_claims(session: Session) -> None:
    first, second = session.pick(2)
    async with session.claim([Result(first)]) as one, session.claim([Result(second)]) as other:
        answers = await asyncio.gather(session.attempt(one), session.attempt(other))
        failed = [answer for answer in answers if isinstance(answer, str)]
        if len(failed) == len(answers):
            raise Unmet(failed[0])
        if failed:
            raise Breach(failed[0])
        for answer, device in zip(answers, (first, second), strict=True):
            if missing := session.cdi.missing(cdi_ids(answer)):
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
async def _unknown_claim(session: Session) -> None:
    async with session.claim() as claim:
        await _refused(session, replace(claim, name="no-such-claim", uid="no-such-uid"))


@AREA.check(
    "other-uid",
    "a claim of the same name is another one",
    promise="A claim whose UID is not the one asked for is an error: it was deleted and made again.",
    source=_PLUGIN + " (claim … got replaced)",
    cost="The pod of a deleted claim gets the devices of its successor.",
)
async def _other_uid(session: Session) -> None:
    async with session.claim() as claim:
        await _refused(session, replace(claim, uid="00000000-0000-4000-8000-000000000000"))


@AREA.check(
    "not-allocated",
    "a claim without allocation is refused",
    promise="A claim that is not allocated is an error.",
    source=_PLUGIN + " (claim … not allocated)",
    cost="The pod starts without a device, or the driver crashes.",
)
async def _not_allocated(session: Session) -> None:
    claim = await session.claims.make([Result(session.pick()[0])], allocate=False)
    try:
        await _refused(session, claim)
    finally:
        await session.claims.delete(claim)


@AREA.check(
    "unknown-device",
    "a device that it does not have is refused",
    promise="An allocation of a device that the driver does not have is an error.",
    source="KEP-4381 (driver errors are reported for the claim)",
    cost="A pod runs without the device that it waits for, after a device went away.",
)
async def _unknown_device(session: Session) -> None:
    async with session.claim([Result(_absent(session))]) as claim:
        await _refused(session, claim)


@AREA.check(
    "half-failed",
    "a claim that fails leaves nothing behind",
    promise="Of a claim with a device or configuration that is refused nothing stays once it is unprepared: no CDI"
    " file, and its devices are prepared for the next claim.",
    source="KEP-4381; https://github.com/cncf-tags/container-device-interface;"
    " https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/840",
    cost="Devices of failed pods stay configured and cannot be had by others, and files pile up.",
    rests_on=(
        "unprepare.succeeds",
        "cdi.gone",
    ),
)
async def _half_failed(session: Session) -> None:
    device = session.pick()[0]
    unknown = config(session.name, {"apiVersion": "conformance.dralab.dev/v1", "kind": "Unknown"})
    refused = [
        await _left_behind(
            session, "a device that is not there", [Result(device), Result(_absent(session), "r1")]
        ),
        await _left_behind(session, "an unknown configuration", [Result(device)], [unknown]),
    ]
    if not any(refused):
        raise Unmet("a claim with an unknown device is prepared, and one with an unknown configuration, too")


async def _left_behind(
    session: Session, why: str, results: Sequence[Result], configs: Sequence[JsonObject] = ()
) -> bool:
    """Whether such a claim is refused; raises Breach where something of it stays."""
    before = session.cdi.names()
    async with session.claim(results, configs) as claim:
        if not isinstance(await session.attempt(claim), str):
            return False
        await session.undo(claim)
        if left := session.cdi.names() - before:
            raise Breach(f"refused for {why}; after unprepare there is still {', '.join(sorted(left))}")
    async with session.claim(results[:1]) as claim:
        if isinstance(answer := await session.attempt(claim), str):
            raise Breach(f"after a claim that was refused for {why}: {answer}")
    return True


@AREA.check(
    "half-failed-call",
    "one claim's failure is not the other's",
    promise="Of two claims in a call the good one is prepared, and the bad one has the error.",
    source=_PROTO + " (failures for individual claims)",
    cost="One broken claim keeps all claims of the pod, and of shared calls, from being prepared.",
    rests_on=("prepare.several-claims",),
)
async def _half_failed_call(session: Session) -> None:
    bad = [Result(_absent(session))]
    async with session.claim() as good, session.claim(bad) as broken:
        if not isinstance(await session.attempt(broken), str):
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
async def _other_drivers(session: Session) -> None:
    mine = session.pick()[0]
    other = Device("other.example.com", "their-pool", {"name": "their-device"})
    async with session.claim([Result(mine), Result(other, "r1")]) as claim:
        answer = await session.attempt(claim)
        if isinstance(answer, str):
            raise Breach(f"with a device of another driver: {answer}")
        if any(one.device_name == "their-device" for one in answer.devices):
            raise Breach("the answer has the other driver's device")


@AREA.check(
    "namesakes",
    "a device of that name in another driver's pool is not its own",
    promise="Driver and pool say which device is meant, not the name alone.",
    source="staging/src/k8s.io/api/resource/v1/types.go (the unique identifier of a device)",
    cost="Two drivers with devices called gpu-0 prepare each other's claims.",
)
async def _namesakes(session: Session) -> None:
    mine = session.pick()[0]
    other = Device("other.example.com", mine.pool, {"name": mine.name})
    async with session.claim([Result(other)]) as claim:
        answer = await session.attempt(claim)
        if not isinstance(answer, str) and answer.devices:
            raise Breach(f"it prepared {mine.name}, which is another driver's")


@AREA.check(
    "changed-allocation",
    "a new allocation counts",
    promise="A claim that was unprepared and is allocated another device is prepared with that one.",
    source=_PLUGIN + "; KEP-4381 (deallocation)",
    cost="The pod runs on a device that is allocated to somebody else.",
    rests_on=("prepare.devices",),
)
async def _changed_allocation(session: Session) -> None:
    first, second = session.pick(2)
    async with session.claim([Result(first)], prepare=True) as claim:
        await session.undone(claim)
        claim = await session.claims.allocate(claim, [Result(second)])
        answer = await session.attempt(claim)
        if isinstance(answer, str):
            raise Unmet(answer)
        given = {(one.pool_name, one.device_name) for one in answer.devices}
        if second.key not in given:
            raise Breach(f"allocated {second.name}, answered {sorted(given)}")


@AREA.check(
    "released",
    "a device can be had again",
    promise="Once its claim is unprepared a device is prepared for the next one.",
    source=_MANAGER,
    cost="Each device works once, until the driver is restarted.",
    rests_on=("unprepare.succeeds",),
)
async def _released(session: Session) -> None:
    device = session.pick()[0]
    async with session.claim([Result(device)], prepare=True) as claim:
        await session.undone(claim)
    async with session.claim([Result(device)]) as claim:
        answer = await session.attempt(claim)
        if isinstance(answer, str):
            raise Breach(f"the next claim: {answer}")


@AREA.check(
    "exclusive",
    "a device that a claim has is not given to another",
    promise="While a claim is prepared its device is refused to others, unless as a share or for an administrator.",
    source="https://github.com/kubernetes/kubernetes/issues/128981;"
    " https://github.com/kubernetes-sigs/dra-example-driver/issues/263",
    cost="After a forced deletion two pods run on one device for seconds, and both may fail.",
    recommended=True,
)
async def _exclusive(session: Session) -> None:
    device = session.pick(shared=False)[0]
    async with (
        session.claim([Result(device)], prepare=True),
        session.claim([Result(device)]) as other,
    ):
        if not isinstance(await session.attempt(other), str):
            raise Breach(f"two claims have {device.name} at a time")


@AREA.check(
    "timely",
    "it takes no long time",
    promise="A call is answered within ten seconds; the kubelet gives up after 45.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go (defaultClientCallTimeout)",
    cost="Pods start slowly, and under load not at all.",
    recommended=True,
)
async def _timely(session: Session) -> None:
    loop = asyncio.get_running_loop()
    async with session.claim() as claim:
        began = loop.time()
        await session.ready(claim)
        if (spent := loop.time() - began) > _SLOW:
            raise Breach(f"{spent:.1f} s")


@AREA.check(
    "cancelled",
    "a call that is given up does no harm",
    promise="When the kubelet gives a call up (its deadline), the next one for the claim succeeds.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go (timeout)",
    cost="One slow answer of the API server makes a claim unusable until the driver is restarted.",
    rests_on=("prepare.half-failed",),
)
async def _cancelled(session: Session) -> None:
    async with session.claim() as claim:
        with session.world.requests.held(lambda visit: about(visit, "resourceclaims")) as hold:
            call = asyncio.create_task(session.attempt(claim))
            reached = asyncio.create_task(hold.reached.wait())
            await asyncio.wait([call, reached], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            call.cancel()
            await asyncio.gather(call, reached, return_exceptions=True)
        answer = await session.attempt(claim)
        if isinstance(answer, str):
            raise Breach(f"the next call: {answer}")


@AREA.check(
    "api-error",
    "an error of the API server is reported and tried again",
    promise="Where the claim cannot be read the driver answers with an error, and the next call succeeds.",
    source=_PLUGIN + " (retrieve claim)",
    cost="A hiccup of the API server leaves a pod without devices, or the node without a driver.",
    stage=Stage.OUTAGE,
)
async def _api_error(session: Session) -> None:
    seen = await session.once(outage)
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
async def _after_restart(session: Session) -> None:
    _same(await session.once(stopped))


@AREA.check(
    "after-kill",
    "prepared claims survive kill -9",
    promise="What was answered before a crash is answered again after it.",
    source=_PLUGIN + "; KEP-4381 (drivers keep a checkpoint)",
    cost="After a crash a claim is lost or prepared twice, with other devices.",
    stage=Stage.RESTART,
)
async def _after_kill(session: Session) -> None:
    seen = await session.once(stopped)
    if seen.problem or seen.after != seen.before:
        raise Unmet("not even an orderly restart is survived")
    _same(await session.once(killed))


@AREA.check(
    "killed-meanwhile",
    "a crash in the middle is made good",
    promise="Killed at any moment of a preparation, the driver prepares the claim when it is asked again.",
    source="pkg/kubelet/cm/dra/manager.go (phases); KEP-4381",
    cost="A claim that met a crash can never be prepared again; the pod is lost.",
    stage=Stage.RESTART,
    rests_on=("prepare.idempotent", "cdi.defined", "prepare.api-error", "slices.complete-after-restart"),
)
async def _killed_meanwhile(session: Session) -> None:
    for seen in await session.once(interrupted):
        if isinstance(seen.prepared, str):
            raise Breach(f"killed when it {seen.moment}: {seen.prepared}")
        if seen.missing:
            raise Breach(f"killed when it {seen.moment}: no CDI file defines {', '.join(seen.missing)}")


def _same(seen: Any) -> None:
    if seen.problem:
        raise Unmet(seen.problem)
    if isinstance(seen.after, str):
        raise Breach(seen.after)
    if seen.after != seen.before:
        raise Breach(f"before {seen.before}, after {seen.after}")


async def _refused(session: Session, claim: Any) -> None:
    answer = await session.attempt(claim)
    if not isinstance(answer, str):
        await session.undo(claim)
        raise Breach(f"prepared: {plain(answer)}")
    if not session.driver.alive():
        raise Breach(f"the driver ended: {answer}")


def _absent(session: Session) -> Device:
    known = session.pick()[0]
    return Device(known.driver, known.pool, {"name": "no-such-device"})

"""NodeUnprepareResources (k8s.io/kubelet/pkg/apis/dra/v1/api.proto, pkg/kubelet/cm/dra/manager.go)."""

import asyncio
from dataclasses import replace

from dra_node_agent.kubelet.dra.connection import DriverError

from dra_conformance.check import Area, Breach, NotShown, Stage, Unmet
from dra_conformance.claims import Device, Result
from dra_conformance.observations import fail_api_server
from dra_conformance.restarts import (
    Restarted,
    await_new_file,
    interrupt_preparations,
    kill_driver,
    stop_driver,
)
from dra_conformance.session import Session, cdi_ids
from dra_conformance.traffic import is_about

AREA = Area("unprepare", rests_on=("prepare.succeeds", "unprepare.succeeds"))

_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto"
_MANAGER = "pkg/kubelet/cm/dra/manager.go"
_PLUGIN = "staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/draplugin.go"
_PARALLEL = 8
_TURN = 0.3


@AREA.check(
    "succeeds",
    "a prepared claim is unprepared",
    promise="NodeUnprepareResources answers for each claim, without an error.",
    source=_PROTO,
    cost="Pods stay in Terminating.",
)
async def _check_succeeds(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        if problem := await session.try_unprepare(claim):
            raise Breach(problem)


@AREA.check(
    "idempotent",
    "unpreparing a claim again succeeds",
    promise="Unpreparing a claim that is unprepared already succeeds: the kubelet may not have received the answer.",
    source=_PROTO + "; KEP-4381 (NodeUnprepareResources must be idempotent)",
    cost="Pods stay in Terminating.",
    rests_on=("unprepare.never-prepared",),
)
async def _check_idempotent(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        await session.unprepare_or_skip(claim)
        if problem := await session.try_unprepare(claim):
            raise Breach(f"the second call: {problem}")


@AREA.check(
    "never-prepared",
    "unpreparing a claim that was never prepared succeeds",
    promise="A claim that is not prepared is no error: the kubelet unprepares also after a failed preparation.",
    source=_MANAGER + " (claims are in the checkpoint before the driver is called); " + _PLUGIN,
    cost="Pods whose preparation failed cannot be deleted.",
)
async def _check_never_prepared(session: Session) -> None:
    async with session.claim() as claim:
        if problem := await session.try_unprepare(claim):
            raise Breach(problem)


@AREA.check(
    "unknown-claim",
    "unpreparing an unknown claim succeeds",
    promise="A UID that the driver has never seen is no error.",
    source=_PLUGIN + " (the claim may have been deleted)",
    cost="After the loss of its checkpoint the driver blocks the deletion of pods.",
    rests_on=(
        "unprepare.never-prepared",
        "unprepare.claim-gone",
    ),
)
async def _check_unknown_claim(session: Session) -> None:
    async with session.claim() as claim:
        if problem := await session.try_unprepare(replace(claim, name="no-such-claim", uid="no-such-uid")):
            raise Breach(problem)


@AREA.check(
    "claim-gone",
    "the claim may have been deleted",
    promise="Unprepare works if the API server has no such claim: it is deleted along with force-deleted pods.",
    source=_PLUGIN + " (UnprepareResourceClaims: the claim may not exist any more)",
    cost="Devices stay prepared, and the kubelet tries again without end.",
)
async def _check_claim_gone(session: Session) -> None:
    async with session.claim([Result(session.spare())], prepare=True) as claim:
        await session.claims.delete(claim)
        if problem := await session.try_unprepare(claim):
            raise Breach(problem)


@AREA.check(
    "only-asked",
    "the driver answers for the requested claims only",
    promise="The answer has no claim that was not asked for.",
    source=_MANAGER + " (NodeUnprepareResources returned result for unknown claim UID)",
    cost="The kubelet drops the whole answer; the pod stays in Terminating.",
)
async def _check_only_asked(session: Session) -> None:
    first, second = session.pick(2)
    one_result, other_result = [Result(first)], [Result(second)]
    async with (
        session.claim(one_result, prepare=True) as one,
        session.claim(other_result, prepare=True),
    ):
        try:
            answers = await session.unprepare(one)
        except DriverError as error:
            raise Unmet(str(error)) from error
        if more := answers.keys() - {one.uid}:
            raise Breach(f"asked for {one.uid}, answered for {', '.join(sorted(more))} too")


@AREA.check(
    "several-claims",
    "several claims of one call are all answered",
    promise="A call may be for several claims; the answer has each.",
    source=_PROTO,
    cost="Pods with two claims stay in Terminating: NodeUnprepareResources skipped 1 ResourceClaims.",
    rests_on=("prepare.half-failed",),
)
async def _check_several_claims(session: Session) -> None:
    first, second = session.pick(2)
    async with (
        session.claim([Result(first)], prepare=True) as one,
        session.claim([Result(second)], prepare=True) as other,
    ):
        try:
            answers = await session.unprepare(one, other)
        except DriverError as error:
            raise Breach(str(error)) from error
        for claim in (one, other):
            if problem := answers.get(claim.uid, "one of two claims is not in the answer"):
                raise Breach(problem)


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
        answers = await session.unprepare()
    except DriverError as error:
        raise Breach(str(error)) from error
    if answers:
        raise Breach(f"answered for {sorted(answers)}")


@AREA.check(
    "others-kept",
    "other claims stay prepared",
    promise="Unpreparing one claim changes nothing for the others.",
    source=_PROTO,
    cost="When one pod ends, containers of another cannot start any more.",
)
async def _check_others_kept(session: Session) -> None:
    first, second = session.pick(2)
    async with (
        session.claim([Result(first)], prepare=True) as one,
        session.claim([Result(second)]) as other,
    ):
        answer = await session.prepare_or_skip(other)
        if session.cdi.undefined_names(cdi_ids(answer)):
            raise Unmet("the other claim's CDI devices are not there at all")
        await session.unprepare_or_skip(one)
        if missing := session.cdi.undefined_names(cdi_ids(answer)):
            raise Breach(f"the other claim lost {', '.join(missing)}")


@AREA.check(
    "concurrent",
    "calls may be concurrent",
    promise="A claim may be unprepared by several calls at a time.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go; " + _PLUGIN + " (Serialize)",
    cost="Pods that end together stay in Terminating.",
    rests_on=("prepare.half-failed",),
)
async def _check_concurrent(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        problems = await asyncio.gather(*(session.try_unprepare(claim) for _ in range(_PARALLEL)))
    failed = [problem for problem in problems if problem]
    if failed and len(failed) < _PARALLEL and not await _fails_when_repeated(session):
        raise Breach(f"{len(failed)} of {_PARALLEL} calls fail: {failed[0]}")
    if failed:
        raise Unmet(failed[0])


@AREA.check(
    "then-prepare",
    "the claim can be prepared again",
    promise="A claim that was unprepared is prepared again: the next pod may share it.",
    source=_MANAGER,
    cost="A claim works for one pod only.",
    rests_on=("cdi.defined",),
)
async def _check_then_prepare(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        await session.unprepare_or_skip(claim)
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(answer)
        if missing := session.cdi.undefined_names(cdi_ids(answer)):
            raise Breach(f"prepared again, and no CDI file defines {', '.join(missing)}")


@AREA.check(
    "prepared-twice",
    "a claim that was prepared twice is unprepared",
    promise="However often a claim was prepared, one call unprepares it, and its device is free.",
    source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/754; " + _PROTO,
    cost="After a restart of the kubelet, which asks again, the pod stays in Terminating and its device is lost.",
    rests_on=("prepare.idempotent", "prepare.released"),
)
async def _check_prepared_twice(session: Session) -> None:
    device = session.pick()[0]
    async with session.claim([Result(device)], prepare=True) as claim:
        await session.prepare_or_skip(claim)
        if problem := await session.try_unprepare(claim):
            raise Breach(problem)
    async with session.claim([Result(device)]) as claim:
        if isinstance(answer := await session.try_prepare(claim), str):
            raise Breach(f"unprepared with success; the next claim: {answer}")


@AREA.check(
    "files-gone",
    "a claim whose CDI files are missing is unprepared",
    promise="A claim whose CDI file is missing, as after a reboot, is unprepared.",
    source="https://github.com/kubernetes/kubernetes/issues/141433 (CDI files do not survive a reboot);"
    " https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/951",
    cost="After a reboot, pods of before it stay in Terminating, and their devices are lost.",
)
async def _check_files_gone(session: Session) -> None:
    async with session.claim() as claim:
        before = session.cdi.names()
        await session.prepare_or_skip(claim)
        own = session.cdi.names() - before
        if not own:
            raise NotShown("the claim has no file of its own")
        for name in own:
            (session.cdi.directory / name).unlink()
        if problem := await session.try_unprepare(claim):
            raise Breach(problem)


@AREA.check(
    "given-up",
    "a preparation that was cancelled is undone",
    promise="If the kubelet cancels a preparation and then unprepares the claim, nothing is left: no CDI file, and the"
    " device is free.",
    source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1162",
    cost="The device of a pod that was deleted while it started stays with a claim that is never unprepared again.",
    rests_on=("prepare.cancelled", "prepare.released", "unprepare.never-prepared", "cdi.gone"),
)
async def _check_given_up(session: Session) -> None:
    device = session.pick()[0]
    before = session.cdi.names()
    async with session.claim([Result(device)]) as claim:
        with session.world.requests.hold(lambda visit: is_about(visit, "resourceclaims")) as hold:
            call = asyncio.create_task(session.try_prepare(claim))
            reached = asyncio.create_task(hold.reached.wait())
            await asyncio.wait([call, reached], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            given_up = hold.reached.is_set()
            for task in (call, reached):
                task.cancel()
            await asyncio.gather(call, reached, return_exceptions=True)
            undone = asyncio.create_task(session.try_unprepare(claim))
            # If the driver serializes its calls, it answers only after the preparation has ended.
            await asyncio.wait([undone], timeout=_TURN)
        if problem := await undone:
            raise Unmet(f"the claim is not unprepared: {problem}")
        if not given_up:
            raise NotShown("the driver reads no claim when it prepares one")
        await asyncio.sleep(min(1.0, session.pace.quiet))
        if left := session.cdi.names() - before:
            raise Breach(f"after unprepare there is still {', '.join(sorted(left))}")
        async with session.claim([Result(device)]) as other:
            if isinstance(answer := await session.try_prepare(other), str):
                raise Breach(f"the next claim: {answer}")
    await _give_up_with_file(session, device)


async def _give_up_with_file(session: Session, device: Device) -> None:
    """Cancel a preparation as soon as its CDI file exists, and unprepare the claim."""
    before = session.cdi.names()
    async with session.claim([Result(device)]) as claim:
        call = asyncio.create_task(session.try_prepare(claim))
        written = asyncio.create_task(await_new_file(session, before))
        await asyncio.wait([call, written], return_when=asyncio.FIRST_COMPLETED)
        for task in (call, written):
            task.cancel()
        await asyncio.gather(call, written, return_exceptions=True)
        if problem := await session.try_unprepare(claim):
            raise Unmet(f"the claim is not unprepared: {problem}")
        await asyncio.sleep(min(1.0, session.pace.quiet))
        if left := session.cdi.names() - before:
            raise Breach(
                f"cancelled with its file written, after unprepare there is still {', '.join(sorted(left))}"
            )


@AREA.check(
    "without-api",
    "claims are unprepared without the API server",
    promise="Unprepare works while the API server is away.",
    source=_PLUGIN + " (UnprepareResourceClaims gets names and UIDs alone)",
    cost="Pods of a node that is cut off cannot end, and their devices are not free.",
    recommended=True,
    stage=Stage.OUTAGE,
    rests_on=("unprepare.claim-gone",),
)
async def _check_without_api(session: Session) -> None:
    seen = await session.once(fail_api_server)
    if seen.unprepared:
        raise Breach(seen.unprepared)


@AREA.check(
    "after-restart",
    "claims prepared before a restart are unprepared",
    promise="After SIGTERM and a new start a claim that was prepared before is unprepared, without a preparation.",
    source=_PLUGIN + "; KEP-4381",
    cost="Each update of the driver leaves devices and files behind.",
    stage=Stage.RESTART,
    rests_on=("cdi.gone",),
)
async def _check_after_restart(session: Session) -> None:
    _expect_unprepared(await session.once(stop_driver))


@AREA.check(
    "after-kill",
    "claims prepared before kill -9 are unprepared",
    promise="After a crash, a claim that was prepared before can be unprepared without being prepared again.",
    source=_PLUGIN + "; KEP-4381",
    cost="Each crash of the driver leaves devices and files behind.",
    stage=Stage.RESTART,
    rests_on=("cdi.gone",),
)
async def _check_after_kill(session: Session) -> None:
    orderly = await session.once(stop_driver)
    if orderly.problem or orderly.unprepared or orderly.left:
        raise Unmet("the driver loses prepared claims on a graceful restart")
    _expect_unprepared(await session.once(kill_driver))


def _expect_unprepared(seen: Restarted) -> None:
    if seen.problem:
        raise Unmet(seen.problem)
    if not seen.second:
        raise NotShown("needs 2 devices")
    if seen.unprepared:
        raise Breach(seen.unprepared)
    if seen.left:
        raise Breach(f"still there: {', '.join(sorted(seen.left))}")


@AREA.check(
    "remembered",
    "an unprepared claim stays unprepared after kill -9",
    promise="After unprepare has returned, a crash does not undo it: the claim's device is free after a new start.",
    source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/840; KEP-4381",
    cost="The device belongs to a claim that is gone, and no pod can have it until somebody edits the checkpoint.",
    stage=Stage.RESTART,
    rests_on=("prepare.released", "unprepare.prepared-twice"),
)
async def _check_remembered(session: Session) -> None:
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Unmet(seen.problem)
    if not seen.third:
        raise NotShown("needs 3 devices that can be prepared")
    if seen.held:
        raise Breach(f"the next claim for the device: {seen.held}")


@AREA.check(
    "killed-meanwhile",
    "a preparation that crashed is undone",
    promise="If the driver is killed at any moment of a preparation, it unprepares the claim later and leaves nothing.",
    source="pkg/kubelet/cm/dra/manager.go (phases); KEP-4381",
    cost="Crashes leave CDI files and devices behind.",
    stage=Stage.RESTART,
    rests_on=(
        "cdi.gone",
        "unprepare.never-prepared",
        "unprepare.claim-gone",
        "unprepare.prepared-twice",
    ),
)
async def _check_killed_meanwhile(session: Session) -> None:
    for seen in await session.once(interrupt_preparations):
        if seen.unprepared:
            raise Breach(f"killed when it {seen.moment}: {seen.unprepared}")
        if seen.left:
            raise Breach(f"killed when it {seen.moment}: still there: {', '.join(sorted(seen.left))}")


async def _fails_when_repeated(session: Session) -> bool:
    """True if unpreparing a claim twice fails, which another check reports."""
    async with session.claim(prepare=True) as claim:
        await session.unprepare_or_skip(claim)
        return bool(await session.try_unprepare(claim))

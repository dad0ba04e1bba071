"""NodeUnprepareResources (k8s.io/kubelet/pkg/apis/dra/v1/api.proto, pkg/kubelet/cm/dra/manager.go)."""

import asyncio
from dataclasses import replace

from dra_node_agent.kubelet.dra.connection import DriverError

from dralab.conformance.check import Area, Breach, NotOffered, Stage, Unmet
from dralab.conformance.claims import Result
from dralab.conformance.observations import outage
from dralab.conformance.restarts import Restarted, interrupted, killed, stopped
from dralab.conformance.session import Session, cdi_ids

AREA = Area("unprepare", rests_on=("prepare.succeeds", "unprepare.succeeds"))

_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto"
_MANAGER = "pkg/kubelet/cm/dra/manager.go"
_PLUGIN = "staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/draplugin.go"
_PARALLEL = 8


@AREA.check(
    "succeeds",
    "a prepared claim is unprepared",
    promise="NodeUnprepareResources answers for each claim, without an error.",
    source=_PROTO,
    cost="Pods stay in Terminating.",
)
async def _succeeds(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        if problem := await session.undo(claim):
            raise Breach(problem)


@AREA.check(
    "idempotent",
    "again is fine",
    promise="A claim that is unprepared already is unprepared with success: the kubelet may not have got the answer.",
    source=_PROTO + "; KEP-4381 (NodeUnprepareResources must be idempotent)",
    cost="Pods stay in Terminating.",
    rests_on=("unprepare.never-prepared",),
)
async def _idempotent(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        await session.undone(claim)
        if problem := await session.undo(claim):
            raise Breach(f"the second call: {problem}")


@AREA.check(
    "never-prepared",
    "a claim that was never prepared is fine",
    promise="The kubelet unprepares after a failed preparation too; a claim that is not known is no error.",
    source=_MANAGER + " (claims are in the checkpoint before the driver is called); " + _PLUGIN,
    cost="Pods whose preparation failed cannot be deleted.",
)
async def _never_prepared(session: Session) -> None:
    async with session.claim() as claim:
        if problem := await session.undo(claim):
            raise Breach(problem)


@AREA.check(
    "unknown-claim",
    "a claim that never was is fine",
    promise="A UID that the driver has never seen is no error.",
    source=_PLUGIN + " (the claim may have been deleted)",
    cost="After the loss of its checkpoint the driver blocks the deletion of pods.",
    rests_on=(
        "unprepare.never-prepared",
        "unprepare.claim-gone",
    ),
)
async def _unknown_claim(session: Session) -> None:
    async with session.claim() as claim:
        if problem := await session.undo(replace(claim, name="no-such-claim", uid="no-such-uid")):
            raise Breach(problem)


@AREA.check(
    "claim-gone",
    "the claim may be gone",
    promise="Unprepare works without the claim in the API server: force-deleted pods take it along.",
    source=_PLUGIN + " (UnprepareResourceClaims: the claim may not exist any more)",
    cost="Devices stay prepared, and the kubelet tries again without end.",
)
async def _claim_gone(session: Session) -> None:
    async with session.claim([Result(session.spare())], prepare=True) as claim:
        await session.claims.delete(claim)
        if problem := await session.undo(claim):
            raise Breach(problem)


@AREA.check(
    "only-asked",
    "it answers for nothing else",
    promise="The answer has no claim that was not asked for.",
    source=_MANAGER + " (NodeUnprepareResources returned result for unknown claim UID)",
    cost="The kubelet drops the whole answer; the pod stays in Terminating.",
)
async def _only_asked(session: Session) -> None:
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
)
async def _several_claims(session: Session) -> None:
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
    "others-kept",
    "other claims stay prepared",
    promise="Unpreparing one claim changes nothing for the others.",
    source=_PROTO,
    cost="When one pod ends, containers of another cannot start any more.",
)
async def _others_kept(session: Session) -> None:
    first, second = session.pick(2)
    async with (
        session.claim([Result(first)], prepare=True) as one,
        session.claim([Result(second)]) as other,
    ):
        answer = await session.ready(other)
        if session.cdi.missing(cdi_ids(answer)):
            raise Unmet("the other claim's CDI devices are not there at all")
        await session.undone(one)
        if missing := session.cdi.missing(cdi_ids(answer)):
            raise Breach(f"the other claim lost {', '.join(missing)}")


@AREA.check(
    "concurrent",
    "calls at the same time",
    promise="A claim may be unprepared by several calls at a time.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin.go; " + _PLUGIN + " (Serialize)",
    cost="Pods that end together stay in Terminating.",
)
async def _concurrent(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        problems = await asyncio.gather(*(session.undo(claim) for _ in range(_PARALLEL)))
    failed = [problem for problem in problems if problem]
    if failed and len(failed) < _PARALLEL and not await _twice_fails(session):
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
async def _then_prepare(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        await session.undone(claim)
        answer = await session.attempt(claim)
        if isinstance(answer, str):
            raise Breach(answer)
        if missing := session.cdi.missing(cdi_ids(answer)):
            raise Breach(f"prepared again, and no CDI file defines {', '.join(missing)}")


@AREA.check(
    "without-api",
    "it needs no API server",
    promise="Unprepare works while the API server is away.",
    source=_PLUGIN + " (UnprepareResourceClaims gets names and UIDs alone)",
    cost="Pods of a node that is cut off cannot end, and their devices are not free.",
    recommended=True,
    stage=Stage.OUTAGE,
    rests_on=("unprepare.claim-gone",),
)
async def _without_api(session: Session) -> None:
    seen = await session.once(outage)
    if seen.unprepared:
        raise Breach(seen.unprepared)


@AREA.check(
    "after-restart",
    "claims of before a restart are unprepared",
    promise="After SIGTERM and a new start a claim that was prepared before is unprepared, without a preparation.",
    source=_PLUGIN + "; KEP-4381",
    cost="Each update of the driver leaves devices and files behind.",
    stage=Stage.RESTART,
    rests_on=("cdi.gone",),
)
async def _after_restart(session: Session) -> None:
    _unprepared(await session.once(stopped))


@AREA.check(
    "after-kill",
    "claims of before kill -9 are unprepared",
    promise="After a crash a claim that was prepared before is unprepared, without a preparation.",
    source=_PLUGIN + "; KEP-4381",
    cost="Each crash of the driver leaves devices and files behind.",
    stage=Stage.RESTART,
    rests_on=("cdi.gone",),
)
async def _after_kill(session: Session) -> None:
    orderly = await session.once(stopped)
    if orderly.problem or orderly.unprepared or orderly.left:
        raise Unmet("not even an orderly restart is survived")
    _unprepared(await session.once(killed))


def _unprepared(seen: Restarted) -> None:
    if seen.problem:
        raise Unmet(seen.problem)
    if not seen.second:
        raise NotOffered("needs 2 devices")
    if seen.unprepared:
        raise Breach(seen.unprepared)
    if seen.left:
        raise Breach(f"still there: {', '.join(sorted(seen.left))}")


@AREA.check(
    "killed-meanwhile",
    "what a crash left half done is undone",
    promise="Killed at any moment of a preparation, the driver unprepares the claim later, and nothing of it stays.",
    source="pkg/kubelet/cm/dra/manager.go (phases); KEP-4381",
    cost="Crashes leave CDI files and devices behind.",
    stage=Stage.RESTART,
    rests_on=(
        "cdi.gone",
        "unprepare.never-prepared",
        "unprepare.claim-gone",
    ),
)
async def _killed_meanwhile(session: Session) -> None:
    for seen in await session.once(interrupted):
        if seen.unprepared:
            raise Breach(f"killed when it {seen.moment}: {seen.unprepared}")
        if seen.left:
            raise Breach(f"killed when it {seen.moment}: still there: {', '.join(sorted(seen.left))}")


async def _twice_fails(session: Session) -> bool:
    """Whether a second call fails anyway, which another check names."""
    async with session.claim(prepare=True) as claim:
        await session.undone(claim)
        return bool(await session.undo(claim))

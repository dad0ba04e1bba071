"""Checks of several prepared claims across a restart of the driver. Each is declared in the area of its subject."""

from dra_conformance.areas.cdidevices import AREA as CDI
from dra_conformance.areas.shares import AREA as SHARES
from dra_conformance.areas.slowreads import AREA as PREPARE
from dra_conformance.areas.unprepare import AREA as UNPREPARE
from dra_conformance.check import Breach, NotOffered, NotShown, Stage
from dra_conformance.restartedclaims import (
    restart_after_concurrent_claims,
    restart_with_claims,
    start_in_outage,
)
from dra_conformance.session import Session

__all__ = ["CDI", "PREPARE", "SHARES", "UNPREPARE"]

_KEP = "KEP-4381 (drivers and kubelets may be restarted at any time)"


@PREPARE.check(
    "exclusive-after-restart",
    "after a restart devices in use are refused",
    promise="A driver that refuses devices in use also does after a restart, for the devices of each claim.",
    source=_KEP + "; https://github.com/kubernetes/kubernetes/issues/128981",
    cost="After an update of the driver two pods run on one device.",
    recommended=True,
    stage=Stage.RESTART,
    rests_on=("prepare.exclusive", "prepare.after-kill", "cdi.after-restart"),
)
async def _check_exclusive_after_restart(session: Session) -> None:
    seen = await session.once(restart_with_claims)
    if not seen.exclusive:
        raise NotOffered("the driver does not refuse devices in use")
    if seen.freed:
        raise Breach(f"in use, and given to another claim: {', '.join(seen.freed)}")


@PREPARE.check(
    "concurrent-kept",
    "claims prepared concurrently survive kill -9",
    promise="Claims that are prepared at the same time are all in the checkpoint: after a crash each is known.",
    source=_KEP + "; staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto (calls may be concurrent)",
    cost="Of pods that start together, some lose their devices with the next restart of the driver.",
    stage=Stage.RESTART,
    rests_on=("prepare.concurrent-claims", "prepare.after-kill", "cdi.after-restart", "cdi.defined"),
)
async def _check_concurrent_kept(session: Session) -> None:
    seen = await session.once(restart_after_concurrent_claims)
    if seen.missing:
        raise Breach(f"no file defines {seen.missing[0]} of a prepared claim any more")
    for device, answer in seen.answers.items():
        raise Breach(f"the claim of {device} is answered with {answer}")


@PREPARE.check(
    "started-in-outage",
    "a start without API server loses no claims",
    promise="A driver that starts while all requests are answered with 503 may exit. Once the API server is back, it"
    " registers and knows its claims.",
    source=_KEP + "; https://kubernetes.io/docs/reference/using-api/api-concepts/ (retries)",
    cost="A control plane that fails with a node's reboot takes the devices of running pods away.",
    stage=Stage.RESTART,
    rests_on=(
        "prepare.after-kill",
        "prepare.exclusive-after-restart",
        "process.outage",
        "cdi.after-restart",
        "slices.kept-over-restart",
    ),
)
async def _check_started_in_outage(session: Session) -> None:
    seen = await session.once(start_in_outage)
    if seen.hung:
        raise Breach(f"after the outage: {seen.hung}")
    if seen.missing:
        raise Breach(f"no file defines {seen.missing[0]} of a prepared claim any more")
    if seen.answers:
        device, answer = next(iter(seen.answers.items()))
        raise Breach(f"the claim of {device} is answered with {answer}")
    if seen.freed:
        raise Breach(f"in use, and given to another claim: {', '.join(seen.freed)}")


@CDI.check(
    "same-after-restart",
    "containers get the same after a restart",
    promise="Preparing a claim again after a restart leaves its container edits as they were, with all that its"
    " configuration has changed.",
    source=_KEP,
    cost="A container that restarts has lost the settings that its claim asked for.",
    stage=Stage.RESTART,
    rests_on=("cdi.defined", "cdi.after-restart", "prepare.after-kill"),
)
async def _check_same_after_restart(session: Session) -> None:
    seen = await session.once(restart_with_claims)
    if not seen.repeatable:
        raise NotShown("containers get different edits each time")
    if seen.edits:
        raise Breach(f"other edits than before: {', '.join(seen.edits)}")


@SHARES.check(
    "after-restart",
    "shares survive a restart",
    promise="After a restart a claim with a share of a device is answered as before.",
    source=_KEP + "; staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto (Device.share_id)",
    cost="The health and the status of a share are lost, or its pod does not start again.",
    stage=Stage.RESTART,
    rests_on=("shares.share-id", "prepare.after-kill"),
)
async def _check_shares_after_restart(session: Session) -> None:
    seen = await session.once(restart_with_claims)
    if seen.shares is None:
        raise NotOffered("no device can be shared")
    for device, answer in seen.shares.items():
        raise Breach(f"the share of {device} is answered with {answer}")


@UNPREPARE.check(
    "gone-after-restart",
    "after a restart the claim may have been deleted",
    promise="A claim that was prepared before a restart is unprepared although the API server has it no more.",
    source=_KEP + "; staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin (UnprepareResourceClaims)",
    cost="Pods that were deleted during an update of the driver keep their devices.",
    stage=Stage.RESTART,
    rests_on=("unprepare.after-kill", "unprepare.claim-gone", "unprepare.prepared-twice"),
)
async def _check_gone_after_restart(session: Session) -> None:
    seen = await session.once(restart_with_claims)
    if seen.orphaned:
        raise Breach(seen.orphaned)

"""Preparation of claims while the API server is slow."""

import asyncio

from dra_conformance.areas.oddclaims import AREA
from dra_conformance.check import Breach, NotShown, Unmet
from dra_conformance.claims import Result
from dra_conformance.session import Session

__all__ = ["AREA"]

_PLUGIN = "staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/draplugin.go"


@AREA.check(
    "slow-read",
    "a claim that is read slowly does not block others",
    promise="While the API server takes its time for one claim, other claims are prepared: slow requests come before"
    " any lock.",
    source=_PLUGIN + " (NodePrepareResources: claims are read before the calls are serialized)",
    cost="One lost packet delays every pod of the node that starts meanwhile.",
    rests_on=("prepare.concurrent-claims",),
)
async def _check_slow_read(session: Session) -> None:
    first, second = session.pick(2)
    async with session.claim([Result(first)]) as slow, session.claim([Result(second)]) as other:
        path = f"/resourceclaims/{slow.name}"
        with session.world.requests.hold(lambda visit: visit.path.endswith(path)) as hold:
            call = asyncio.create_task(session.try_prepare(slow))
            reached = asyncio.create_task(hold.reached.wait())
            await asyncio.wait([call, reached], return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            if call.done():
                raise NotShown("the driver prepares a claim without reading it")
            answer = await session.try_prepare(other)
            hold.released.set()
            await call
        # A driver that fails without slow reads, too, shows nothing here.
        if isinstance(answer, str) and isinstance(again := await session.try_prepare(other), str):
            raise Unmet(again)
    if isinstance(answer, str):
        raise Breach(f"while another claim was read: {answer}")

"""Repairs of slices after an outage of the API server, and of slices that somebody edited."""

from dra_conformance.areas.slicenames import AREA
from dra_conformance.check import Breach, Stage, Unmet
from dra_conformance.repairs import repair_after_outage
from dra_conformance.session import Session

__all__ = ["AREA"]

_CONTROLLER = "staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go"


@AREA.check(
    "after-outage",
    "slices are still repaired after an outage",
    promise="A driver whose requests failed for a while publishes slices again that are deleted or edited afterwards.",
    source=_CONTROLLER + " (failed syncs are retried)",
    cost="After an upgrade of the control plane the node has the devices of before, until the driver is restarted.",
    stage=Stage.OUTAGE,
    rests_on=("slices.restored", "process.outage"),
)
async def _check_after_outage(session: Session) -> None:
    seen = await session.once(repair_after_outage)
    if not seen.deleted:
        raise Breach(f"a deleted slice is not back after {session.pace.restored:g} s")


@AREA.check(
    "edited",
    "slices that somebody edits are repaired",
    promise="A device whose attributes somebody else changes is published as before.",
    source=_CONTROLLER + " (syncPool: slices that differ from what the driver wants are updated)",
    cost="The scheduler allocates devices by attributes that they do not have.",
    recommended=True,
    stage=Stage.OUTAGE,
    rests_on=("slices.restored", "slices.after-outage"),
)
async def _check_edited(session: Session) -> None:
    seen = await session.once(repair_after_outage)
    if not seen.deleted:
        raise Unmet("deleted slices do not come back after an outage")
    if not seen.edited:
        raise Breach(f"an attribute that was added is still there after {session.pace.restored:g} s")

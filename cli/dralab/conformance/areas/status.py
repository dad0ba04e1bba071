"""What a driver says of prepared devices in the claim's status (KEP-4817)."""

from typing import Any

from dralab.conformance.check import Area, Breach, NotOffered, Stage
from dralab.conformance.session import Session
from dralab.conformance.traffic import about, is_write
from dralab.conformance.world import NAMESPACE, RESOURCE

AREA = Area(
    "status", rests_on=("prepare.succeeds", "unprepare.succeeds"), gate="DRAResourceClaimDeviceStatus"
)

_KEP = (
    "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4817-resource-claim-device-status"
)


@AREA.check(
    "accepted",
    "the API server takes its status",
    promise="Status that the driver writes is valid, and of devices that the claim has.",
    source=_KEP + "; pkg/apis/resource/validation/validation.go",
    cost="Users see no status, or the preparation fails because of it.",
    stage=Stage.END,
)
async def _accepted(session: Session) -> None:
    written = [
        visit
        for visit in session.world.requests.answered
        if about(visit, "resourceclaims") and visit.path.endswith("/status") and is_write(visit)
    ]
    if not written:
        raise NotOffered("the driver writes no status")
    if refused := [visit for visit in written if visit.code in (400, 403, 422)]:
        raise Breach(f"{len(refused)} of {len(written)} writes were refused with {refused[0].code}")


@AREA.check(
    "own-devices",
    "it writes about its own devices",
    promise="Entries in status.devices have the driver's name, and pool and device of the allocation.",
    source=_KEP,
    cost="Status of other drivers is lost, or no status is found for the device.",
)
async def _own_devices(session: Session) -> None:
    async with session.claim() as claim:
        theirs = {"driver": "other.example.com", "pool": "p", "device": "d"}
        await session.ready(claim)
        found: Any = await session.world.read(
            f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims/{claim.name}"
        )
        entries = found.get("status", {}).get("devices") or ()
        if not entries:
            raise NotOffered("the driver writes no status")
        allocated = {(one["driver"], one["pool"], one["device"]) for one in claim.results}
        for entry in entries:
            key = (entry["driver"], entry["pool"], entry["device"])
            if key not in allocated and entry != theirs:
                raise Breach(f"an entry for {'/'.join(key)}")

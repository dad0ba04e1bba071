"""The device status that a driver writes into claims (KEP-4817)."""

from typing import Any

from dra_conformance.check import Area, Breach, NotOffered, Stage
from dra_conformance.claims import Device, Result
from dra_conformance.session import Session
from dra_conformance.traffic import is_about, is_write
from dra_conformance.world import NAMESPACE, RESOURCE

AREA = Area(
    "status", rests_on=("prepare.succeeds", "unprepare.succeeds"), gate="DRAResourceClaimDeviceStatus"
)

_KEP = (
    "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4817-resource-claim-device-status"
)


@AREA.check(
    "accepted",
    "the API server accepts its status",
    promise="The status that the driver writes is valid, and is about devices of the claim.",
    source=_KEP + "; pkg/apis/resource/validation/validation.go",
    cost="Users see no status, or the preparation fails because of it.",
    stage=Stage.END,
    rests_on=("prepare.devices",),
)
async def _check_accepted(session: Session) -> None:
    written = [
        visit
        for visit in session.world.requests.answered
        if is_about(visit, "resourceclaims") and visit.path.endswith("/status") and is_write(visit)
    ]
    if not written:
        raise NotOffered("the driver writes no status")
    if refused := [visit for visit in written if visit.code in (400, 403, 422)]:
        raise Breach(f"{len(refused)} of {len(written)} writes were refused with {refused[0].code}")


@AREA.check(
    "own-devices",
    "the driver writes status only for its own devices",
    promise="Entries in status.devices have the driver's name, and pool and device of the allocation.",
    source=_KEP,
    cost="The status of other drivers is lost, or the device has no status.",
)
async def _check_own_devices(session: Session) -> None:
    async with session.claim() as claim:
        await session.prepare_or_skip(claim)
        found: Any = await session.world.read(
            f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims/{claim.name}"
        )
        entries = found.get("status", {}).get("devices") or ()
        if not entries:
            raise NotOffered("the driver writes no status")
        allocated = {(one["driver"], one["pool"], one["device"]) for one in claim.results}
        for entry in entries:
            key = (entry["driver"], entry["pool"], entry["device"])
            if key not in allocated:
                raise Breach(f"an entry for {'/'.join(key)}")


@AREA.check(
    "others-kept",
    "status of other drivers stays",
    promise="The driver's writes leave the entries of other drivers unchanged.",
    source=_KEP + "; https://github.com/kubernetes-sigs/dra-example-driver/issues/101 (server-side apply)",
    cost="The addresses of a network card are lost when the GPU of the same claim is prepared.",
    rests_on=("prepare.other-drivers",),
)
async def _check_others_kept(session: Session) -> None:
    other = Device("other.example.com", "their-pool", {"name": "their-device"})
    entry = {"driver": other.driver, "pool": other.pool, "device": other.name, "data": {"kept": True}}
    async with session.claim([Result(session.pick()[0]), Result(other, "r1")]) as claim:
        path = f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims/{claim.name}"
        found: Any = await session.world.read(path)
        found["status"]["devices"] = [entry]
        await session.world.write("PUT", f"{path}/status", found)
        await session.prepare_or_skip(claim)
        prepared: Any = await session.world.read(path)
        await session.unprepare_or_skip(claim)
        after: Any = await session.world.read(path)
    if not any(one["driver"] == session.name for one in prepared["status"].get("devices") or ()):
        raise NotOffered("the driver writes no status")
    for what, seen in (("preparation", prepared), ("unpreparation", after)):
        theirs = [one for one in seen["status"].get("devices") or () if one["driver"] == other.driver]
        if [one.get("data") for one in theirs] != [entry["data"]]:
            raise Breach(f"after its {what} the entry of {other.driver} is {theirs or 'gone'}")

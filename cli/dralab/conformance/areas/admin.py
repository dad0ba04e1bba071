"""Admin access: a claim that looks at a device which others use (KEP-5018)."""

from dralab.conformance.check import Area, Breach, Unmet
from dralab.conformance.claims import Result
from dralab.conformance.session import Session, cdi_ids

AREA = Area("admin", rests_on=("prepare.succeeds", "unprepare.succeeds"), gate="DRAAdminAccess")

_KEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-auth/5018-dra-adminaccess"


@AREA.check(
    "prepared",
    "a device in use is prepared for an administrator",
    promise="A result with adminAccess is prepared also while another claim has the device.",
    source=_KEP,
    cost="Monitoring cannot look at devices that are in use.",
)
async def _prepared(session: Session) -> None:
    device = session.pick()[0]
    async with (
        session.claim([Result(device)], prepare=True),
        session.claim([Result(device, admin=True)]) as admin,
    ):
        answer = await session.attempt(admin)
        if isinstance(answer, str):
            raise Breach(answer)


@AREA.check(
    "holder-kept",
    "the holder of the device notices nothing",
    promise="The end of an administrator's claim leaves the device with its holder.",
    source=_KEP,
    cost="When a monitoring pod ends, a training job loses its GPU.",
    rests_on=(
        "prepare.idempotent",
        "unprepare.others-kept",
        "admin.prepared",
    ),
)
async def _holder_kept(session: Session) -> None:
    device = session.pick()[0]
    async with (
        session.claim([Result(device)]) as holder,
        session.claim([Result(device, admin=True)]) as admin,
    ):
        answer = await session.ready(holder)
        if session.cdi.missing(cdi_ids(answer)):
            raise Unmet("the holder's CDI devices are not there at all")
        await session.ready(admin)
        if problem := await session.undo(admin):
            raise Unmet(problem)
        if missing := session.cdi.missing(cdi_ids(answer)):
            raise Breach(f"the holder lost {', '.join(missing)}")
        again = await session.attempt(holder)
        if isinstance(again, str):
            raise Breach(f"the holder's claim: {again}")

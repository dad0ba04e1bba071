"""Admin access: a claim for monitoring a device that other claims use (KEP-5018)."""

from collections import Counter

from dra_conformance.check import Area, Breach, Unmet
from dra_conformance.claims import Device, Result
from dra_conformance.session import Session, cdi_ids

AREA = Area("admin", rests_on=("prepare.succeeds", "unprepare.succeeds"), gate="DRAAdminAccess")

_KEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-auth/5018-dra-adminaccess"


@AREA.check(
    "prepared",
    "a device in use is prepared for an administrator",
    promise="A result with adminAccess is prepared also while another claim has the device.",
    source=_KEP,
    cost="Monitoring cannot look at devices that are in use.",
)
async def _check_prepared(session: Session) -> None:
    device = session.pick()[0]
    async with (
        session.claim([Result(device)], prepare=True),
        session.claim([Result(device, admin=True)]) as admin,
    ):
        answer = await session.try_prepare(admin)
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
async def _check_holder_kept(session: Session) -> None:
    device = session.pick()[0]
    async with (
        session.claim([Result(device)]) as holder,
        session.claim([Result(device, admin=True)]) as admin,
    ):
        answer = await session.prepare_or_skip(holder)
        exclusive = not await _is_free(session, device)
        if session.cdi.undefined_names(cdi_ids(answer)):
            raise Unmet("the holder's CDI devices are not there at all")
        await session.prepare_or_skip(admin)
        if problem := await session.try_unprepare(admin):
            raise Unmet(problem)
        if missing := session.cdi.undefined_names(cdi_ids(answer)):
            raise Breach(f"the holder lost {', '.join(missing)}")
        again = await session.try_prepare(holder)
        if isinstance(again, str):
            raise Breach(f"the holder's claim: {again}")
        if exclusive and await _is_free(session, device):
            raise Breach(f"another claim gets {device.name}, which its holder still has")


async def _is_free(session: Session, device: Device) -> bool:
    """True if another claim gets the device."""
    async with session.claim([Result(device)]) as other:
        return not isinstance(await session.try_prepare(other), str)


@AREA.check(
    "no-holder",
    "a device with admin access can be allocated",
    promise="A claim with adminAccess does not occupy its device: other claims for the device are prepared meanwhile.",
    source=_KEP + "; https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/817",
    cost="A node whose devices are monitored starts no pods with devices.",
    rests_on=("admin.prepared", "prepare.released"),
)
async def _check_no_holder(session: Session) -> None:
    device = session.pick()[0]
    async with (
        session.claim([Result(device, admin=True)], prepare=True),
        session.claim([Result(device)]) as other,
    ):
        answer = await session.try_prepare(other)
        if isinstance(answer, str):
            raise Breach(f"while an administrator's claim is prepared: {answer}")


@AREA.check(
    "own-names",
    "an administrator's claim has unique CDI names",
    promise="While a claim and an administrator's claim have the same device, no CDI name is defined twice.",
    source="https://github.com/cncf-tags/container-device-interface (conflicting devices); " + _KEP,
    cost="The engine drops a device that two files define: the holder's containers do not start again.",
    rests_on=("admin.prepared", "cdi.unique", "cdi.own-claims"),
)
async def _check_own_names(session: Session) -> None:
    device = session.pick()[0]
    before = set(session.cdi.device_names())
    async with (
        session.claim([Result(device)], prepare=True),
        session.claim([Result(device, admin=True)], prepare=True),
    ):
        own = [name for name in session.cdi.device_names() if name not in before]
    if twice := sorted(name for name, count in Counter(own).items() if count > 1):
        raise Breach(f"both claims' files define {', '.join(twice)}")

"""Devices that several claims may have at a time (KEP-5075, consumable capacity)."""

import contextlib

from dra_shared.quantity import Quantity

from dra_conformance.check import Area, Breach, NotOffered, Unmet
from dra_conformance.claims import Device, Result
from dra_conformance.edits import edits_by_id
from dra_conformance.session import Session, cdi_ids

AREA = Area("shares", rests_on=("prepare.succeeds", "unprepare.succeeds"), gate="DRAConsumableCapacity")

_KEP = (
    "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5075-dra-consumable-capacity"
)
_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto (Device.share_id)"


@AREA.check(
    "two-claims",
    "two claims share a device",
    promise="A device with allowMultipleAllocations is prepared for two claims at a time.",
    source=_KEP,
    cost="The scheduler places a second pod, which never starts.",
)
async def _check_two_claims(session: Session) -> None:
    device = session.pick(shared=True)[0]
    async with session.claim([Result(device)], prepare=True), session.claim([Result(device)]) as other:
        answer = await session.try_prepare(other)
        if isinstance(answer, str):
            raise Breach(answer)


@AREA.check(
    "three-claims",
    "more than two claims share a device",
    promise="As many claims share a device as its capacity allows, not only two.",
    source=_KEP,
    cost="The scheduler places a third pod, which never starts.",
    rests_on=("shares.two-claims",),
)
async def _check_three_claims(session: Session) -> None:
    device = session.pick(shared=True)[0]
    if not _has_room(device, 3):
        raise NotOffered("its capacity does not allow three shares of the default size")
    async with contextlib.AsyncExitStack() as stack:
        for number in (1, 2, 3):
            claim = await stack.enter_async_context(session.claim([Result(device)]))
            answer = await session.try_prepare(claim)
            if isinstance(answer, str):
                raise Breach(f"claim {number}: {answer}")


def _has_room(device: Device, number: int) -> bool:
    """True if the device's capacity allows as many shares of the default size."""
    for capacity in (device.spec.get("capacity") or {}).values():
        if default := (capacity.get("requestPolicy") or {}).get("default"):
            left = Quantity.parse(capacity["value"])
            for _ in range(number):
                left = left.sub(Quantity.parse(default))
            if left < Quantity.parse("0"):
                return False
    return True


@AREA.check(
    "share-id",
    "the answer has the share's ID",
    promise="A device that is prepared as a share is answered with the shareID of the allocation.",
    source=_PROTO,
    cost="Health and status are reported for the whole device instead of the share.",
)
async def _check_share_id(session: Session) -> None:
    device = session.pick(shared=True)[0]
    if "v1.DRAPlugin" not in session.registration.versions:
        raise NotOffered("v1beta1 has no share IDs")
    async with session.claim([Result(device)]) as claim:
        answer = await session.prepare_or_skip(claim)
        wanted = claim.results[0]["shareID"]
        for one in answer.devices:
            if one.device_name == device.name and one.share_id != wanted:
                raise Breach(f"shareID {one.share_id!r}, not {wanted!r}")


@AREA.check(
    "own-names",
    "each share has unique CDI names",
    promise="Two claims with shares of one device have different CDI ids, and no name is in both files.",
    source="https://github.com/kubernetes/kubernetes/issues/134519;"
    " https://github.com/cncf-tags/container-device-interface (conflicting devices)",
    cost="The engine drops a device that two files define: neither pod's containers start.",
)
async def _check_own_names(session: Session) -> None:
    device = session.pick(shared=True)[0]
    async with session.claim([Result(device)]) as one, session.claim([Result(device)]) as other:
        ids = [set(cdi_ids(await session.prepare_or_skip(claim))) for claim in (one, other)]
        own = [one for one in ids[0] & ids[1] if session.cdi.device_names().count(one) > 1]
        if own:
            raise Breach(f"both claims have {', '.join(sorted(own))}")


@AREA.check(
    "same-claim",
    "a claim may have two shares of one device",
    promise="Two results of a claim with the same device and two shareIDs are both prepared.",
    source=_KEP,
    cost="A pod that asks for two shares gets one, or its containers do not start.",
    rests_on=("prepare.several-devices", "cdi.defined", "cdi.schema", "cdi.unique"),
)
async def _check_same_claim(session: Session) -> None:
    device = session.pick(shared=True)[0]
    async with session.claim([Result(device), Result(device, "r1")]) as claim:
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(answer)
        requests = {name for one in answer.devices for name in one.request_names}
        if requests and requests != {"r0", "r1"}:
            raise Breach(f"shares for r0 and r1, answered for {sorted(requests)}")
        ids, defined = set(cdi_ids(answer)), session.cdi.device_names()
        if wrong := sorted(one for one in ids if defined.count(one) != 1):
            raise Breach(f"{wrong[0]} is defined {defined.count(wrong[0])} times")


@AREA.check(
    "amounts",
    "each share has its own amount",
    promise="What containers get with a share follows its consumedCapacity, also if the claim has another share of the"
    " device with another amount.",
    source=_KEP
    + "; staging/src/k8s.io/api/resource/v1/types.go (DeviceRequestAllocationResult.consumedCapacity)",
    cost="A container may use what another one was promised, or less than it asked for.",
    rests_on=(
        "shares.same-claim",
        "prepare.requests",
        "cdi.defined",
        "cdi.schema",
        "cdi.right-device",
        "cdi.by-request",
    ),
)
async def _check_amounts(session: Session) -> None:
    device = session.pick(shared=True)[0]
    amounts = _other_amounts(device)
    if not amounts:
        raise NotOffered("no capacity of the device can be consumed in two amounts")
    usual, other = Result(device), Result(device, "r1", amounts=amounts)
    alone = {
        result.request: (await _environments(session, result))[result.request] for result in (usual, other)
    }
    if alone["r0"] == alone["r1"]:
        raise NotOffered("the environment of containers does not depend on the consumed capacity")
    together = await _environments(session, usual, other)
    for request, wanted in alone.items():
        if together[request] != wanted:
            lacking = sorted(wanted - together[request]) or sorted(together[request] - wanted)
            raise Breach(
                f"{request} alone and with another share of {device.name} differ in {', '.join(lacking)}"
            )


def _other_amounts(device: Device) -> dict[str, str]:
    """Return amounts of the device's capacities that a share may consume and that are not the default."""
    for name, capacity in (device.spec.get("capacity") or {}).items():
        policy = capacity.get("requestPolicy") or {}
        if "default" not in policy:
            continue
        default, most = Quantity.parse(policy["default"]), Quantity.parse(capacity["value"])
        limits = policy.get("validRange") or {}
        step = Quantity.parse(limits.get("step") or policy["default"])
        most = Quantity.parse(limits["max"]) if limits.get("max") else most
        values = [Quantity.parse(value) for value in policy.get("validValues") or (str(default.add(step)),)]
        for value in values:
            if value != default and not most < value:
                return {name: str(value)}
    return {}


async def _environments(session: Session, *results: Result) -> dict[str, set[str]]:
    """Return the environment for each request of such a claim, with the claim's own names replaced by fixed ones."""
    async with session.claim(results) as claim:
        answer = await session.prepare_or_skip(claim)
        edits = edits_by_id(session)
        names = {claim.uid: "UID", claim.name: "NAME"}
        names |= {one["shareID"]: "SHARE" for one in claim.results}
        found: dict[str, set[str]] = {result.request: set() for result in results}
        for device in answer.devices:
            texts = {
                text for name in device.cdi_device_ids for part in edits.get(name, ()) for text in part.env
            }
            for old, new in names.items():
                texts = {text.replace(old, new) for text in texts}
            for request in device.request_names or found:
                found.setdefault(request, set()).update(texts)
        return found


@AREA.check(
    "independent",
    "unpreparing one share leaves the others",
    promise="Unpreparing one claim's share leaves the device with the other claim.",
    source=_KEP,
    cost="When one pod ends, its neighbours on the device lose it.",
    rests_on=("unprepare.others-kept",),
)
async def _check_independent(session: Session) -> None:
    device = session.pick(shared=True)[0]
    async with session.claim([Result(device)]) as one, session.claim([Result(device)]) as other:
        await session.prepare_or_skip(one)
        answer = await session.prepare_or_skip(other)
        if session.cdi.undefined_names(cdi_ids(answer)):
            raise Unmet("the other share's CDI devices are not there at all")
        await session.unprepare_or_skip(one)
        if missing := session.cdi.undefined_names(cdi_ids(answer)):
            raise Breach(f"the other share lost {', '.join(missing)}")


@AREA.check(
    "capacity",
    "a device that can be shared has a capacity",
    promise="A device with allowMultipleAllocations has a capacity to divide.",
    source=_KEP,
    cost="Any number of pods is placed on one device.",
    recommended=True,
)
async def _check_capacity(session: Session) -> None:
    for device in session.devices:
        if device.is_shared and not device.spec.get("capacity"):
            raise Breach(f"device {device.name} has no capacity")
    session.pick(shared=True)

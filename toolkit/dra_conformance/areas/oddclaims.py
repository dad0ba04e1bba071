"""NodePrepareResources for claims with unusual names and shapes, and in each version of the service."""

from dataclasses import replace

from dra_conformance.areas.prepare import AREA
from dra_conformance.check import Breach, NotOffered
from dra_conformance.claims import Result
from dra_conformance.session import Session, cdi_ids, plain
from dra_conformance.world import OTHER_NAMESPACE

__all__ = ["AREA"]

_SAME_NAME = "of-one-name"
_LONG_NAME = "-".join(["a-long-name"] * 21) + "x"


@AREA.check(
    "count",
    "a request for two devices gets two",
    promise="A request may have several devices; each is in the answer, under the request's name.",
    source="staging/src/k8s.io/api/resource/v1/types.go (ExactDeviceRequest.count)",
    cost="A pod that asks for two devices of a kind gets one.",
    rests_on=("prepare.several-devices", "prepare.devices", "cdi.qualified", "cdi.defined"),
)
async def _check_count(session: Session) -> None:
    wanted = session.pick(2)
    async with session.claim([Result(device) for device in wanted]) as claim:
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(answer)
        given = {(one.pool_name, one.device_name) for one in answer.devices}
        if missing := [device.name for device in wanted if device.key not in given]:
            raise Breach(f"not in the answer: {', '.join(missing)}")
        if undefined := session.cdi.undefined_names(cdi_ids(answer)):
            raise Breach(f"no file defines {', '.join(undefined)}")


@AREA.check(
    "namespaces",
    "claims with the same name in two namespaces are two claims",
    promise="A claim is identified by its UID: a claim of the same name in another namespace has devices of its own.",
    source="staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto (Claim: the UID is the unique identifier)",
    cost="Two teams whose pods have the same names get each other's devices.",
    rests_on=(
        "prepare.several-claims",
        "prepare.devices",
        "unprepare.succeeds",
        "unprepare.others-kept",
        "cdi.own-claims",
        "cdi.qualified",
        "cdi.defined",
    ),
)
async def _check_namespaces(session: Session) -> None:
    first, second = session.pick(2)
    async with (
        session.claim([Result(first)], name=_SAME_NAME) as one,
        session.claim([Result(second)], name=_SAME_NAME, namespace=OTHER_NAMESPACE) as other,
    ):
        await session.prepare_or_skip(one)
        answer = await session.try_prepare(other)
        if isinstance(answer, str):
            raise Breach(f"the second of them: {answer}")
        given = {(each.pool_name, each.device_name) for each in answer.devices}
        if given != {second.key}:
            raise Breach(f"the second of them is allocated {second.name}, and the answer has {sorted(given)}")
        await session.unprepare_or_skip(one)
        if missing := session.cdi.undefined_names(cdi_ids(answer)):
            raise Breach(f"unpreparing the first removed {', '.join(missing)} of the second")


@AREA.check(
    "long-names",
    "a claim may have the longest name",
    promise="Names of claims have up to 253 characters; all such claims are prepared and unprepared.",
    source="https://github.com/kubernetes/kubernetes/issues/91410 (file names made from names of claims);"
    " https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",
    cost="File name too long: pods with long names stay in ContainerCreating.",
    rests_on=("unprepare.succeeds",),
)
async def _check_long_names(session: Session) -> None:
    async with session.claim(name=_LONG_NAME) as claim:
        answer = await session.try_prepare(claim)
        if isinstance(answer, str):
            raise Breach(answer)
        if problem := await session.try_unprepare(claim):
            raise Breach(f"unprepare: {problem}")


@AREA.check(
    "same-answer",
    "each service that it announces gives the same answer",
    promise="A claim that was prepared in v1 is answered in v1beta1 as before, and unprepared.",
    source="pkg/kubelet/cm/dra/manager.go (a kubelet of another version calls the other service)",
    cost="After an update of the kubelet, or back, pods lose their devices.",
    rests_on=("prepare.idempotent", "unprepare.succeeds"),
)
async def _check_same_answer(session: Session) -> None:
    services = session.registration.dra_services
    if len(services) < 2:
        raise NotOffered(f"the driver announces {' '.join(services)} alone")
    async with session.claim(prepare=True) as claim:
        wanted = plain(await session.prepare_or_skip(claim))
        for service in services:
            one = replace(session.registration, versions=(service,))
            connection = session.kubelet.connect(one, session.pace.call)
            try:
                answer = (await connection.prepare([claim.message])).get(claim.uid)
                if answer is None or answer.error:
                    raise Breach(f"{service}: {answer.error if answer else 'the claim is left out'}")
                if plain(answer) != wanted:
                    raise Breach(f"{service}: {plain(answer)}, before {wanted}")
            finally:
                await connection.close()


@AREA.check(
    "same-name",
    "a new claim of an old name is another claim",
    promise="While a claim that is gone is still prepared, a new claim of its name gets its own device. Unpreparing the"
    " old one leaves the new one prepared.",
    source="KEP-4381 (claims are known by UID)",
    cost="The pod that replaces a force-deleted one, as in a StatefulSet, gets the old pod's device.",
    rests_on=(
        "prepare.other-uid",
        "prepare.concurrent-claims",
        "unprepare.claim-gone",
        "unprepare.others-kept",
        "cdi.defined",
    ),
)
async def _check_same_name(session: Session) -> None:
    first, second = session.pick(2)
    async with session.claim([Result(first)], name=_SAME_NAME, prepare=True) as old:
        await session.claims.delete(old)
        async with session.claim([Result(second)], name=_SAME_NAME) as new:
            answer = await session.try_prepare(new)
            if isinstance(answer, str):
                raise Breach(answer)
            if given := [one.device_name for one in answer.devices if one.device_name != second.name]:
                raise Breach(f"the new claim has {second.name}, and is answered with {given[0]}")
            await session.unprepare_or_skip(old)
            if missing := session.cdi.undefined_names(cdi_ids(answer)):
                raise Breach(f"after the old claim no file defines {missing[0]} of the new one")

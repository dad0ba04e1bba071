"""Binding conditions: devices that are made ready between allocation and binding (KEP-5007)."""

import asyncio
from typing import Any

from dralab.conformance.check import Area, Breach, NotOffered
from dralab.conformance.claims import Result
from dralab.conformance.session import Session
from dralab.conformance.world import NAMESPACE, RESOURCE

AREA = Area("binding", rests_on=("prepare.succeeds", "unprepare.succeeds"), gate="DRADeviceBindingConditions")

_KEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5007-device-attach-before-pod-scheduled"
_PATIENCE = 15.0


@AREA.check(
    "failure-conditions",
    "what can fail says so",
    promise="A device with binding conditions has binding failure conditions too.",
    source=_KEP,
    cost="A device that cannot be made ready holds its pod until the scheduler's timeout, ten minutes.",
    recommended=True,
)
async def _failure_conditions(session: Session) -> None:
    for device in _with_conditions(session):
        if not device.spec.get("bindingFailureConditions"):
            raise Breach(f"device {device.name} has none")


@AREA.check(
    "set",
    "its conditions become true",
    promise="For an allocated device the driver writes the device's binding conditions into the claim's status.",
    source=_KEP,
    cost="Pods wait ten minutes, and then for another node.",
)
async def _set(session: Session) -> None:
    device = _with_conditions(session)[0]
    wanted = set(device.spec["bindingConditions"]) | set(device.spec.get("bindingFailureConditions") or ())
    loop = asyncio.get_running_loop()
    async with session.claim([Result(device)]) as claim:
        end = loop.time() + min(_PATIENCE, session.pace.start)
        while loop.time() < end:
            found = await _conditions(session, claim.name)
            if any(one["type"] in wanted and one["status"] == "True" for one in found):
                return
            await asyncio.sleep(session.pace.poll * 5)
    raise Breach(f"device {device.name}: none of {', '.join(sorted(wanted))} is true after {_PATIENCE:g} s")


def _with_conditions(session: Session) -> list[Any]:
    found = [device for device in session.devices if device.spec.get("bindingConditions")]
    if not found:
        raise NotOffered("no device has binding conditions")
    return found


async def _conditions(session: Session, name: str) -> list[Any]:
    claim = await session.world.read(f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims/{name}")
    devices = claim.get("status", {}).get("devices") or ()
    return [one for device in devices for one in device.get("conditions") or ()]

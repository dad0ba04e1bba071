"""Binding conditions: devices that are made ready between allocation and binding (KEP-5007)."""

import asyncio
from typing import Any

from dra_conformance.check import Area, Breach, NotOffered
from dra_conformance.claims import Result
from dra_conformance.session import Session
from dra_conformance.world import NAMESPACE, RESOURCE

AREA = Area("binding", rests_on=("prepare.succeeds", "unprepare.succeeds"), gate="DRADeviceBindingConditions")

_KEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5007-device-attach-before-pod-scheduled"
_PATIENCE = 15.0


@AREA.check(
    "failure-conditions",
    "binding can also fail",
    promise="A device with binding conditions has binding failure conditions too.",
    source=_KEP,
    cost="A device that cannot be made ready holds its pod until the scheduler's timeout, ten minutes.",
    recommended=True,
)
async def _check_failure_conditions(session: Session) -> None:
    for device in _with_conditions(session):
        if not device.spec.get("bindingFailureConditions"):
            raise Breach(f"device {device.name} has no binding failure conditions")


@AREA.check(
    "set",
    "the binding conditions of a device become true",
    promise="For an allocated device the driver sets all of the device's binding conditions in the claim's status, or"
    " one that says the binding failed, and not both.",
    source=_KEP,
    cost="Pods wait ten minutes, and then for another node.",
)
async def _check_set(session: Session) -> None:
    device = _with_conditions(session)[0]
    good, bad = (set(device.spec.get(key) or ()) for key in ("bindingConditions", "bindingFailureConditions"))
    loop = asyncio.get_running_loop()
    async with session.claim([Result(device)]) as claim:
        end = loop.time() + min(_PATIENCE, session.pace.start)
        true: set[str] = set()
        while loop.time() < end and not (good <= true or bad & true):
            await asyncio.sleep(session.pace.poll * 5)
            found = await _conditions(session, claim.name)
            true = {one["type"] for one in found if one["status"] == "True"}
    if good & true and bad & true:
        raise Breach(f"device {device.name}: {', '.join(sorted((good | bad) & true))} are true at a time")
    if not (good <= true or bad & true):
        missing = ", ".join(sorted(good - true))
        raise Breach(f"device {device.name}: {missing} not true after {_PATIENCE:g} s, and no failure")


def _with_conditions(session: Session) -> list[Any]:
    found = [device for device in session.devices if device.spec.get("bindingConditions")]
    if not found:
        raise NotOffered("no device has binding conditions")
    return found


async def _conditions(session: Session, name: str) -> list[Any]:
    claim = await session.world.read(f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims/{name}")
    devices = claim.get("status", {}).get("devices") or ()
    return [one for device in devices for one in device.get("conditions") or ()]

"""Taints that a driver publishes with its devices (KEP-5055)."""

from typing import Any

from dra_conformance.check import Area, Breach, NotOffered, Stage, Unmet
from dra_conformance.restarts import kill_driver
from dra_conformance.session import Session

AREA = Area("taints", Stage.START, gate="DRADeviceTaints")

_KEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5055-dra-device-taints-and-tolerations"


@AREA.check(
    "keys",
    "keys are in the vendor's domain",
    promise="A taint's key has a domain that is not Kubernetes' own.",
    source=_KEP,
    cost="Tolerations for another driver's taints, or for nodes', tolerate this one.",
    recommended=True,
)
async def _check_keys(session: Session) -> None:
    for device, taint in _taints(session.slices):
        domain = taint["key"].partition("/")[0] if "/" in taint["key"] else ""
        if (
            not domain
            or domain in ("kubernetes.io", "k8s.io")
            or domain.endswith((".kubernetes.io", ".k8s.io"))
        ):
            raise Breach(f"device {device} has {taint['key']!r}")


@AREA.check(
    "times",
    "the time of a taint does not change",
    promise="timeAdded does not change while the taint exists: tolerationSeconds counts from it.",
    source="staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go (timeAdded)",
    cost="Pods with tolerationSeconds are never evicted, because each update restarts the time.",
    stage=Stage.RESTART,
    rests_on=("slices.kept-over-restart", "slices.steady", "slices.in-use"),
)
async def _check_times(session: Session) -> None:
    _taints(session.slices)
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Unmet(seen.problem)
    before = {(device, taint["key"]): taint.get("timeAdded") for device, taint in _taints(seen.slices_before)}
    for device, taint in _taints(seen.slices_after):
        old = before.get((device, taint["key"]))
        if old is not None and old != taint.get("timeAdded"):
            raise Breach(
                f"device {device}, {taint['key']}: {old}, and {taint.get('timeAdded')} after a restart"
            )


@AREA.check(
    "healthy-rest",
    "not every device is tainted",
    promise="A healthy driver has devices without NoSchedule and NoExecute taints.",
    source=_KEP,
    cost="Nothing is allocated on the node.",
    recommended=True,
)
async def _check_healthy_rest(session: Session) -> None:
    _taints(session.slices)
    hard = ("NoSchedule", "NoExecute")
    free = [
        device
        for device in session.devices
        if not any(taint["effect"] in hard for taint in device.spec.get("taints") or ())
    ]
    if not free:
        raise Breach(f"all {len(session.devices)} devices have taints")


def _taints(slices: list[Any]) -> list[tuple[str, Any]]:
    found = [
        (str(device["name"]), taint)
        for one in slices
        for device in one["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
    ]
    if not found:
        raise NotOffered("no device has taints")
    return found

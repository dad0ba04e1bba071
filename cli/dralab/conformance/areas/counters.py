"""Partitionable devices: counters that devices of a pool consume (KEP-4815)."""

from dra_shared.quantity import Quantity

from dralab.conformance.check import Area, Breach, NotOffered, Stage
from dralab.conformance.session import Session

AREA = Area("counters", Stage.START)

_KEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/4815-dra-partitionable-devices"


@AREA.check(
    "defined",
    "counters that are consumed are defined",
    promise="Each counter that a device consumes is in a counter set of its pool.",
    source="staging/src/k8s.io/dynamic-resource-allocation/resourceslice (validateDriverResources)",
    cost="The scheduler takes the pool for invalid and allocates nothing from it.",
)
async def _defined(session: Session) -> None:
    known = session.counters()
    for key, _, device in _consumed(session):
        if key not in known:
            raise Breach(f"device {device} consumes {key[1]}/{key[2]}, which pool {key[0]} does not have")


@AREA.check(
    "fit",
    "each device fits alone",
    promise="No device consumes more of a counter than there is.",
    source=_KEP,
    cost="The device is published and can never be allocated.",
)
async def _fit(session: Session) -> None:
    known = session.counters()
    for key, value, device in _consumed(session):
        if key in known and known[key] < value:
            raise Breach(f"device {device} consumes {value} of {key[1]}/{key[2]}, which has {known[key]}")


@AREA.check(
    "used",
    "counters are consumed",
    promise="Each counter that is published is consumed by a device.",
    source=_KEP,
    cost="A misspelled counter is no limit: partitions that exclude each other are allocated together.",
    recommended=True,
)
async def _used(session: Session) -> None:
    used = {key for key, _, _ in _consumed(session)}
    unused = [
        f"{group}/{name}" for pool, group, name in session.counters() if (pool, group, name) not in used
    ]
    if unused:
        raise Breach(f"consumed by no device: {', '.join(sorted(unused)[:5])}")


@AREA.check(
    "shared-out",
    "the largest device excludes its parts",
    promise="Devices that consume of one counter set cannot all be allocated: that is what counters are for.",
    source=_KEP,
    cost="The whole device and its partitions are allocated at a time.",
    recommended=True,
)
async def _shared_out(session: Session) -> None:
    total: dict[tuple[str, str], bool] = {}
    sums: dict[tuple[str, str, str], Quantity] = {}
    users: dict[tuple[str, str], set[str]] = {}
    for key, value, device in _consumed(session):
        sums[key] = sums[key].add(value) if key in sums else value
        users.setdefault(key[:2], set()).add(device)
    known = session.counters()
    for key, value in sums.items():
        scarce = key in known and known[key] < value
        total[key[:2]] = total.get(key[:2], False) or scarce
    for group, scarce in total.items():
        if not scarce and len(users[group]) > 1:
            raise Breach(f"all {len(users[group])} devices of {group[1]} fit at a time")


def _consumed(session: Session) -> list[tuple[tuple[str, str, str], Quantity, str]]:
    """Counter, amount and device of each consumption; raises NotOffered where there is none."""
    found = [
        ((device.pool, part["counterSet"], name), Quantity.parse(counter["value"]), device.name)
        for device in session.devices
        for part in device.spec.get("consumesCounters") or ()
        for name, counter in part["counters"].items()
    ]
    if not found and not session.counters():
        raise NotOffered("no device consumes counters")
    return found

"""Partitionable devices: counters that devices of a pool consume (KEP-4815)."""

from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity
from dra_shared.version import V1_37

from dra_conformance.check import Area, Breach, NotOffered, Stage
from dra_conformance.session import Session

AREA = Area("counters", Stage.START, gate="DRAPartitionableDevices")

_KEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/4815-dra-partitionable-devices"


@AREA.check(
    "defined",
    "counters that are consumed are defined",
    promise="Each counter that a device consumes is in a counter set of its pool.",
    source="staging/src/k8s.io/dynamic-resource-allocation/resourceslice (validateDriverResources)",
    cost="The scheduler takes the pool for invalid and allocates nothing from it.",
)
async def _check_defined(session: Session) -> None:
    known = session.counters()
    for key, _, device in _consumptions(session):
        if key not in known:
            raise Breach(f"device {device} consumes {key[1]}/{key[2]}, which pool {key[0]} does not have")


@AREA.check(
    "fit",
    "each device fits alone",
    promise="No device consumes more of a counter than there is.",
    source=_KEP,
    cost="The device is published and can never be allocated.",
)
async def _check_fit(session: Session) -> None:
    known = session.counters()
    for key, value, device in _consumptions(session):
        if key in known and known[key] < value:
            raise Breach(f"device {device} consumes {value} of {key[1]}/{key[2]}, which has {known[key]}")


@AREA.check(
    "used",
    "counters are consumed",
    promise="Each counter that is published is consumed by a device.",
    source=_KEP,
    cost="A misspelled counter limits nothing: partitions that exclude each other are allocated together.",
    recommended=True,
)
async def _check_used(session: Session) -> None:
    used = {key for key, _, _ in _consumptions(session)}
    unused = [
        f"{group}/{name}" for pool, group, name in session.counters() if (pool, group, name) not in used
    ]
    if unused:
        raise Breach(f"consumed by no device: {', '.join(sorted(unused)[:5])}")


@AREA.check(
    "shared-out",
    "a whole device excludes its partitions",
    promise="The devices that consume from one counter set cannot all be allocated at the same time.",
    source=_KEP,
    cost="The whole device and its partitions are allocated at a time.",
    recommended=True,
)
async def _check_shared_out(session: Session) -> None:
    total: dict[tuple[str, str], bool] = {}
    sums: dict[tuple[str, str, str], Quantity] = {}
    users: dict[tuple[str, str], set[str]] = {}
    for key, value, device in _consumptions(session):
        sums[key] = sums[key].add(value) if key in sums else value
        users.setdefault(key[:2], set()).add(device)
    known = session.counters()
    for key, value in sums.items():
        scarce = key in known and known[key] < value
        total[key[:2]] = total.get(key[:2], False) or scarce
    for group, scarce in total.items():
        if not scarce and len(users[group]) > 1:
            raise Breach(f"all {len(users[group])} devices of {group[1]} fit at a time")


@AREA.check(
    "types",
    "partitions of one type cost the same",
    promise="Devices with one value of their pool's partitionTypeAttribute consume the same counters.",
    source="pkg/controller/resourcepoolstatusrequest/controller.go (PartitionCostMismatch); "
    "https://github.com/kubernetes/enhancements/issues/5677",
    cost="A pool's status does not say how many partitions of each type are left.",
    since=V1_37,
    gate="DRAPartitionableDevicesType",
    rests_on=("counters.defined", "counters.fit"),
)
async def _check_types(session: Session) -> None:
    costs: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for device, kind in _typed_partitions(session):
        # Compare without the counter set's name, because each GPU has a set of its own.
        wanted = sorted(str(sorted(one["counters"].items())) for one in device["consumesCounters"])
        name, cost = costs.setdefault(kind, (device["name"], wanted))
        if cost != wanted:
            raise Breach(f"{name} and {device['name']} are both {kind[1]}, and consume different counters")


def _typed_partitions(session: Session) -> list[tuple[JsonObject, tuple[str, str]]]:
    """Return the devices that consume counters, with pool and partition type. Raises NotOffered if there are none."""
    found = []
    for one in session.slices:
        attribute = one["spec"].get("partitionTypeAttribute", "")
        for device in (one["spec"].get("devices") or ()) if attribute else ():
            values = device.get("attributes") or {}
            value = values.get(attribute) or values.get(attribute.removeprefix(f"{session.name}/")) or {}
            if device.get("consumesCounters"):
                found.append((device, (one["spec"]["pool"]["name"], str(value.get("string", "")))))
    if not found:
        raise NotOffered("no slice names an attribute for the type of its partitions")
    return found


def _consumptions(session: Session) -> list[tuple[tuple[str, str, str], Quantity, str]]:
    """Return counter, amount and device of each consumption. Raises NotOffered if there are no counters."""
    found = [
        ((device.pool, part["counterSet"], name), Quantity.parse(counter["value"]), device.name)
        for device in session.devices
        for part in device.spec.get("consumesCounters") or ()
        for name, counter in part["counters"].items()
    ]
    if not found and not session.counters():
        raise NotOffered("no device consumes counters")
    return found

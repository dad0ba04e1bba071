"""Nodes with thousands of devices: CPUs, virtual functions, partitions."""

from dra_conformance.check import Area, Breach, NotOffered, Stage, Unmet
from dra_conformance.manydevices import Many, many
from dra_conformance.restarts import stopped
from dra_conformance.session import Session

AREA = Area(
    "thousands",
    Stage.RESTART,
    rests_on=(
        "registration.appears",
        "registration.type",
        "registration.versions",
        "registration.notified",
        "slices.published",
    ),
)

_TYPES = "staging/src/k8s.io/api/resource/v1/types.go"
_CPU = "https://github.com/kubernetes-sigs/dra-driver-cpu/issues/5"


@AREA.check(
    "published",
    "thousands of devices are published",
    promise="A driver with 3,000 devices publishes all of them within half a minute, in slices of at most 128.",
    source=f"{_TYPES} (ResourceSliceMaxDevices); {_CPU}",
    cost="A large node has no devices at all: a slice with more than 128 is rejected, and with it the pool.",
)
async def _published(session: Session) -> None:
    seen = await session.once(many)
    if seen.problem:
        raise Breach(seen.problem)


@AREA.check(
    "packed",
    "they are in few slices",
    promise="Slices are filled: 128 devices in each, 64 where devices have taints, counters or lists.",
    source=f"{_TYPES} (ResourceSliceMaxDevices, ResourceSliceMaxDevicesWithTaintsOrConsumesCounters); {_CPU}",
    cost="Each slice costs every watcher an event, on each of thousands of nodes.",
    recommended=True,
    rests_on=("thousands.published", "slices.packed"),
)
async def _packed(session: Session) -> None:
    seen = await _published_by(session)
    devices = session.pace.devices
    needed = -(-devices // 64)
    if seen.slices > 2 * needed:
        raise Breach(f"{devices} devices in {seen.slices} slices, {needed} would do")


@AREA.check(
    "quiet",
    "they stay as they are",
    promise="Once all are published nothing is written: a device stays in its slice.",
    source="staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go (syncPool)",
    cost="Devices that move between slices on a large node write all of them again and again.",
    rests_on=("thousands.published", "slices.quiet", "slices.steady"),
)
async def _quiet(session: Session) -> None:
    seen = await _published_by(session)
    if seen.writes:
        raise Breach(f"{seen.writes} writes in {session.pace.quiet:g} s, and the devices are the same")


@AREA.check(
    "prepared",
    "the last of them is prepared",
    promise="A device is found in whichever slice it is.",
    source="KEP-4381 (NodePrepareResources)",
    cost="Pods with devices beyond the first slice never start.",
    rests_on=("thousands.published", "prepare.succeeds"),
)
async def _prepared(session: Session) -> None:
    seen = await _published_by(session)
    if seen.prepared:
        raise Breach(seen.prepared)


@AREA.check(
    "generation",
    "the pool's generation grows with them",
    promise="A change of more than one slice comes with a higher generation in all slices of the pool.",
    source=f"{_TYPES} (ResourcePool.generation); https://github.com/kubernetes/kubernetes/pull/127645",
    cost="The scheduler takes slices of before and after for one pool, and allocates devices that are not there.",
    rests_on=(
        "thousands.published",
        "slices.one-generation",
        "slices.kept-over-restart",
        "slices.in-use",
    ),
)
async def _generation(session: Session) -> None:
    seen = await _published_by(session)
    if not seen.generations:
        raise NotOffered("no pool has more slices than before")
    if not (await session.once(stopped)).slices_at_exit:
        raise NotOffered(
            "the driver deletes its slices when it ends: there are none that new ones could be taken for"
        )
    for pool, (before, after) in seen.generations.items():
        if after <= before:
            raise Breach(f"pool {pool} has other slices, and generation {before} as before")


@AREA.check(
    "shrunk",
    "devices that are gone are not published any more",
    promise="A driver that starts with fewer devices publishes these alone, in a complete pool.",
    source=f"{_TYPES} (ResourcePool); KEP-4381 (obsolete slices are deleted)",
    cost="Claims are allocated devices that are gone; or none, as the pool stays incomplete.",
    rests_on=("thousands.published", "slices.leftovers", "slices.in-use"),
)
async def _shrunk(session: Session) -> None:
    seen = await _published_by(session)
    if seen.shrunk:
        raise Breach(seen.shrunk)


@AREA.check(
    "lost",
    "a claim whose device is gone is unprepared",
    promise="A driver starts although a prepared claim's device is not there any more, and unprepares the claim.",
    source="https://github.com/ROCm/k8s-gpu-dra-driver/pull/78 (one stale entry took every GPU of the node down)",
    cost="A GPU that fell off the bus takes all others of its node along, and its pod cannot be deleted.",
    rests_on=("thousands.published", "thousands.prepared", "unprepare.succeeds", "unprepare.after-restart"),
)
async def _lost(session: Session) -> None:
    seen = await _published_by(session)
    if seen.prepared:
        raise Unmet(seen.prepared)
    if seen.lost:
        raise Breach(seen.lost)


async def _published_by(session: Session) -> Many:
    """What a driver with thousands of devices has done; raises Unmet where it did not publish them."""
    seen = await session.once(many)
    if seen.problem:
        raise Unmet(seen.problem)
    return seen

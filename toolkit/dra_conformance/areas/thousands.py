"""Nodes with thousands of devices, such as CPUs, virtual functions or partitions."""

from dra_conformance.check import Area, Breach, NotShown, Stage, Unmet
from dra_conformance.manydevices import Many, observe_many
from dra_conformance.restarts import stop_driver
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
async def _check_published(session: Session) -> None:
    seen = await session.once(observe_many)
    if seen.problem:
        raise Breach(seen.problem)


@AREA.check(
    "packed",
    "thousands of devices are in few slices",
    promise="Slices are filled: 128 devices in each, 64 where devices have taints, counters or lists.",
    source=f"{_TYPES} (ResourceSliceMaxDevices, ResourceSliceMaxDevicesWithTaintsOrConsumesCounters); {_CPU}",
    cost="Each slice costs every watcher an event, on each of thousands of nodes.",
    recommended=True,
    rests_on=("thousands.published", "slices.packed"),
)
async def _check_packed(session: Session) -> None:
    seen = await _observe_published(session)
    devices = session.pace.devices
    needed = -(-devices // 64)
    if seen.slices > 2 * needed:
        raise Breach(f"{devices} devices in {seen.slices} slices, {needed} would do")


@AREA.check(
    "quiet",
    "nothing is written while nothing changes",
    promise="Once all are published, nothing is written: a device stays in its slice.",
    source="staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go (syncPool)",
    cost="Devices that move between slices on a large node write all of them again and again.",
    rests_on=("thousands.published", "slices.quiet", "slices.steady"),
)
async def _check_quiet(session: Session) -> None:
    seen = await _observe_published(session)
    if seen.writes:
        raise Breach(f"{seen.writes} writes in {session.pace.quiet:g} s, and the devices are the same")


@AREA.check(
    "prepared",
    "the last device can be prepared",
    promise="The driver finds a device in any of its slices.",
    source="KEP-4381 (NodePrepareResources)",
    cost="Pods with devices beyond the first slice never start.",
    rests_on=("thousands.published", "prepare.succeeds"),
)
async def _check_prepared(session: Session) -> None:
    seen = await _observe_published(session)
    if seen.prepared:
        raise Breach(seen.prepared)


@AREA.check(
    "generation",
    "the pool's generation grows when its slices change",
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
async def _check_generation(session: Session) -> None:
    seen = await _observe_published(session)
    if not seen.generations:
        raise NotShown("no pool has more slices than before")
    if not (await session.once(stop_driver)).slices_at_exit:
        raise NotShown(
            "the driver deletes its slices when it exits, so new ones cannot be confused with them"
        )
    for pool, (before, after) in seen.generations.items():
        if after <= before:
            raise Breach(f"pool {pool} has other slices, and generation {before} as before")


@AREA.check(
    "shrunk",
    "removed devices are not published any more",
    promise="A driver that starts with fewer devices publishes only these, in a complete pool.",
    source=f"{_TYPES} (ResourcePool); KEP-4381 (obsolete slices are deleted)",
    cost="Claims are allocated devices that do not exist, or none because the pool stays incomplete.",
    rests_on=("thousands.published", "thousands.quiet", "slices.leftovers", "slices.in-use"),
)
async def _check_shrunk(session: Session) -> None:
    seen = await _observe_published(session)
    if seen.shrunk:
        raise Breach(seen.shrunk)


@AREA.check(
    "lost",
    "a claim with a removed device is unprepared",
    promise="A driver starts although a prepared claim's device no longer exists, and unprepares the claim.",
    source="https://github.com/ROCm/k8s-gpu-dra-driver/pull/78 (one stale entry took every GPU of the node down)",
    cost="A GPU that fell off the bus takes all others of its node along, and its pod cannot be deleted.",
    rests_on=("thousands.published", "thousands.prepared", "unprepare.succeeds", "unprepare.after-restart"),
)
async def _check_lost(session: Session) -> None:
    seen = await _observe_published(session)
    if seen.prepared:
        raise Unmet(seen.prepared)
    if seen.lost:
        raise Breach(seen.lost)


async def _observe_published(session: Session) -> Many:
    """Return the observations of a driver with thousands of devices. Raises Unmet if it did not publish them."""
    seen = await session.once(observe_many)
    if seen.problem:
        raise Unmet(seen.problem)
    return seen

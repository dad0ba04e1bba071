"""ResourceSlices that a driver publishes (resource.k8s.io/v1, k8s.io/dynamic-resource-allocation/resourceslice)."""

import itertools
from collections import Counter
from typing import Any

from dra_conformance.check import Area, Breach, NotOffered, Stage, Unmet
from dra_conformance.claims import Device, devices_of
from dra_conformance.observations import watch_again, watch_quietly, wipe_slices
from dra_conformance.restarts import kill_driver, stop_driver
from dra_conformance.session import Session, incomplete_pools
from dra_conformance.traffic import is_about, is_write

AREA = Area("slices", Stage.START)

_TYPES = "staging/src/k8s.io/api/resource/v1/types.go"
_CONTROLLER = "staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go"
_MOST = 128


@AREA.check(
    "published",
    "every pool has all its slices",
    promise="Once the driver runs, each of its pools has as many slices of its newest generation as they say.",
    source=_TYPES + " (ResourcePool.resourceSliceCount)",
    cost="The scheduler passes over an incomplete pool: pods stay pending although devices are free.",
    stage=Stage.BACKGROUND,
    rests_on=("slices.accepted",),
)
async def _check_published(session: Session) -> None:
    _ = session.registration
    if session.publish_problem:
        raise Breach(session.publish_problem)
    # A pool whose slices give too low a number is complete until the last of them is written.
    if pools := incomplete_pools((await session.once(watch_quietly)).after):
        raise Breach(f"incomplete pools: {', '.join(pools)}")


@AREA.check(
    "accepted",
    "the API server accepts every slice",
    promise="All that the driver writes is valid: names, attributes, capacities, counters and numbers of devices.",
    source="pkg/apis/resource/validation/validation.go",
    cost="A slice that is rejected is missing, and with it its whole pool.",
    stage=Stage.END,
)
async def _check_accepted(session: Session) -> None:
    # Rejected slices of a large node are reported by thousands.published.
    others = {id(visit) for visit in session.of_large_node}
    refused = [
        visit
        for visit in session.world.requests.answered
        if is_about(visit, "resourceslices") and is_write(visit) and visit.code in (400, 422)
        if id(visit) not in others
    ]
    if refused:
        raise Breach(f"{len(refused)} writes were rejected, such as {refused[0].method} {refused[0].path}")


@AREA.check(
    "known-fields",
    "the driver writes no unknown fields",
    promise="Slices have fields of the API that the server serves; others are dropped. In 1.37, for one,"
    " nodeAllocatableResources has taken the place of nodeAllocatableResourceMappings.",
    source="https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation;"
    " https://github.com/kubernetes-sigs/dra-example-driver/pull/262",
    cost="The field has no effect: devices lack their limits, or are not counted against their node.",
    stage=Stage.END,
    recommended=True,
)
async def _check_known_fields(session: Session) -> None:
    for visit in session.world.requests.answered:
        unknown = [text for text in visit.warnings if text.startswith("unknown field")]
        if unknown and is_about(visit, "resourceslices"):
            raise Breach(f"{visit.method} {visit.path}: {unknown[0]}")


@AREA.check(
    "one-generation",
    "no slice of an older generation is left",
    promise="All slices of a pool have the same generation once the driver has published.",
    source=_TYPES + " (ResourcePool.generation)",
    cost="Old slices are ignored, but stay and are read by everybody who lists slices.",
)
async def _check_one_generation(session: Session) -> None:
    require_slices(session)
    pools: dict[str, set[int]] = {}
    for one in session.slices:
        pools.setdefault(one["spec"]["pool"]["name"], set()).add(one["spec"]["pool"].get("generation", 0))
    for name, generations in pools.items():
        if len(generations) > 1:
            raise Breach(f"pool {name} has the generations {sorted(generations)}")


@AREA.check(
    "unique-devices",
    "device names are unique in a pool",
    promise="A device's name appears once in its pool, whichever slice it is in.",
    source=_TYPES + " (ResourceSlice: each device in a given pool must have a unique name)",
    cost="The scheduler takes the pool for invalid and allocates nothing from it.",
)
async def _check_unique_devices(session: Session) -> None:
    require_slices(session)
    seen = Counter(device.key for device in session.devices)
    twice = [f"{pool}/{name}" for (pool, name), count in seen.items() if count > 1]
    if twice:
        raise Breach(f"more than once: {', '.join(twice)}")


@AREA.check(
    "own-driver",
    "slices carry the registered name",
    promise="spec.driver is the name that the kubelet knows.",
    source=_TYPES + " (ResourceSliceSpec.driver)",
    cost="Claims are allocated devices of a driver that no kubelet knows.",
)
async def _check_own_driver(session: Session) -> None:
    name = session.name
    others = [
        one["spec"]["driver"]
        for one in await session.world.slices()
        if one["spec"]["driver"] != name and one["spec"].get("nodeName") == session.world.node
    ]
    if others:
        raise Breach(f"registered as {name}, slices of {others[0]}")


@AREA.check(
    "node",
    "slices are for the node that the driver runs on",
    promise="Devices of the node are published with its nodeName; the kubelet deletes them by it.",
    source="pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go (wipeResourceSlices)",
    cost="Slices of a node that is gone mislead the scheduler: nothing cleans them up.",
)
async def _check_node(session: Session) -> None:
    _require_node_slices(session)
    wrong = [
        f"{one['metadata']['name']} is for {one['spec']['nodeName']}"
        for one in session.slices
        if one["spec"].get("nodeName") not in (None, session.world.node)
    ]
    if wrong:
        raise Breach(wrong[0])


@AREA.check(
    "owner",
    "slices belong to the Node object",
    promise="Slices of a node have it as their owner and controller, with its UID.",
    source=_CONTROLLER + " (Owner)",
    cost="Slices stay when the Node is deleted, until somebody deletes them by hand.",
    recommended=True,
    rests_on=("slices.owner-there",),
)
async def _check_owner(session: Session) -> None:
    _require_node_slices(session)
    for one in session.slices:
        owners = one["metadata"].get("ownerReferences") or ()
        mine = [o for o in owners if o["kind"] == "Node" and o["uid"] == session.world.node_uid]
        if one["spec"].get("nodeName") and not mine:
            raise Breach(f"{one['metadata']['name']} is not owned by the node")


@AREA.check(
    "owner-there",
    "the owner of a slice exists",
    promise="A Node that owns a slice is named with the UID that it has in the API.",
    source=_CONTROLLER + " (Owner); https://kubernetes.io/docs/concepts/architecture/garbage-collection/",
    cost="The garbage collector deletes the slices as soon as they are published, again and again.",
)
async def _check_owner_there(session: Session) -> None:
    require_slices(session)
    for one in session.slices:
        for owner in one["metadata"].get("ownerReferences") or ():
            known = (owner["name"], owner["uid"]) == (session.world.node, session.world.node_uid)
            if owner["kind"] == "Node" and not known:
                name = one["metadata"]["name"]
                raise Breach(f"{name} is owned by the node {owner['name']} with the UID {owner['uid']}")


@AREA.check(
    "names",
    "each node's slices have different names",
    promise="A slice's name is generated, or has the node's name in it.",
    source=_CONTROLLER + " (GenerateName)",
    cost="Drivers on two nodes fight for one object.",
)
async def _check_names(session: Session) -> None:
    _require_node_slices(session)
    for one in session.slices:
        name, generated = one["metadata"]["name"], one["metadata"].get("generateName")
        if one["spec"].get("nodeName") and not generated and session.world.node not in name:
            raise Breach(f"slice {name}")


@AREA.check(
    "packed",
    "few devices need few slices",
    promise="A pool has not many more slices than its devices need.",
    source=_TYPES + " (ResourceSliceMaxDevices)",
    cost="Each slice costs every watcher an event, on each of thousands of nodes.",
    recommended=True,
)
async def _check_packed(session: Session) -> None:
    require_slices(session)
    for pool, slices in _by_pool(session.slices).items():
        devices = sum(len(one["spec"].get("devices") or ()) for one in slices)
        special = any(
            one["spec"].get("sharedCounters")
            or any(d.get("taints") or d.get("consumesCounters") for d in one["spec"].get("devices") or ())
            for one in slices
        )
        most = _MOST // 2 if special else _MOST
        sets = sum(1 for one in slices if one["spec"].get("sharedCounters"))
        needed = -(-devices // most) + sets
        if len(slices) > 2 * needed + 1:
            raise Breach(f"pool {pool}: {devices} devices in {len(slices)} slices, {needed} would do")


@AREA.check(
    "pool-names",
    "pools of different nodes have different names",
    promise="A pool of devices of one node has the node's name in its own: driver, pool and device identify a device.",
    source=_TYPES + " (ResourcePool.name); https://github.com/cilium/cilium/issues/48923",
    cost="Devices of the same name on two nodes are one to the scheduler, and only one of them is ever allocated.",
    recommended=True,
)
async def _check_pool_names(session: Session) -> None:
    require_slices(session)
    for one in session.slices:
        pool = one["spec"]["pool"]["name"]
        if one["spec"].get("nodeName") and session.world.node not in pool:
            raise Breach(f"pool {pool}")


@AREA.check(
    "served-version",
    "the driver uses an API version that this Kubernetes serves by default",
    promise="resource.k8s.io is spoken in v1 since Kubernetes 1.34.",
    source="https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
    cost="The driver stops working with the release that drops the beta.",
    recommended=True,
    stage=Stage.END,
)
async def _check_served_version(session: Session) -> None:
    for visit in session.world.requests.answered:
        parts = visit.path.strip("/").split("/")
        # A client that supports several versions falls back to older ones after a failure in v1.
        known = parts[:2] == ["apis", "resource.k8s.io"] and len(parts) > 3 and visit.code < 400
        if known and parts[2] != "v1":
            raise Breach(f"{visit.method} {visit.path}")


@AREA.check(
    "quiet",
    "the driver writes nothing when nothing changes",
    promise="Slices are written when devices change, and not otherwise.",
    source=_CONTROLLER + " (syncPool: only changed slices are updated)",
    cost="Each write wakes every scheduler and every driver; on a thousand nodes it takes the API server down.",
    stage=Stage.OUTAGE,
    rests_on=("slices.accepted", "slices.published"),
)
async def _check_quiet(session: Session) -> None:
    seen = await session.once(watch_again)
    if seen.writes and all(_content(look) == _content(seen.looks[0]) for look in seen.looks):
        raise Breach(f"{seen.writes} writes in {session.pace.quiet:g} s, and the devices are the same")


@AREA.check(
    "steady",
    "devices are described by stable values",
    promise="While nothing happens to the devices, their attributes, capacities and taints do not change.",
    source=_CONTROLLER + "; KEP-4381 (scalability: slices change when hardware does)",
    cost="A temperature or a counter among the attributes writes each node's slices every few seconds.",
    stage=Stage.OUTAGE,
    rests_on=("slices.quiet", "slices.accepted", "slices.published"),
)
async def _check_steady(session: Session) -> None:
    seen = await session.once(watch_again)
    looks = [_content(look) for look in seen.looks]
    if not any(look != looks[0] for look in looks):
        return
    # A device that breaks just now is one change, which writes each slice twice at most.
    if all(one != other for one, other in itertools.pairwise(looks)) or seen.writes > 2 * len(seen.looks[0]):
        raise Breach(f"{seen.writes} writes in {session.pace.quiet:g} s, and nothing happened")


@AREA.check(
    "restored",
    "deleted slices are published again",
    promise="Slices that somebody deletes are published again: every kubelet does that when it starts.",
    source=_CONTROLLER + "; pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go (wipeResourceSlices)",
    cost="After a restart of the kubelet the node has no devices until the driver is restarted.",
    stage=Stage.BACKGROUND,
    rests_on=("slices.published",),
)
async def _check_restored(session: Session) -> None:
    seen = await session.once(wipe_slices)
    if not seen.restored:
        raise Breach(f"not back after {session.pace.restored:g} s")


@AREA.check(
    "leftovers",
    "slices that an older version left are removed",
    promise="The driver removes slices of its pools that it does not publish.",
    source=_CONTROLLER + " (obsolete slices)",
    cost="Devices that are gone stay in the API, with an outdated generation.",
    recommended=True,
    stage=Stage.BACKGROUND,
)
async def _check_leftovers(session: Session) -> None:
    seen = await session.once(wipe_slices)
    if not seen.restored:
        raise Unmet("the slices did not come back")
    if seen.leftover:
        raise Breach("a slice of the pool with an older generation is still there")


@AREA.check(
    "others-kept",
    "slices of other nodes stay",
    promise="The driver writes only the slices of its own node and pools.",
    source=_CONTROLLER + " (field selector spec.driver and spec.nodeName)",
    cost="A driver that starts takes the devices of all other nodes away.",
    stage=Stage.BACKGROUND,
)
async def _check_others_kept(session: Session) -> None:
    seen = await session.once(wipe_slices)
    if seen.harmed:
        raise Breach("; ".join(seen.harmed))


@AREA.check(
    "others-kept-at-start",
    "a start leaves slices of other nodes and drivers",
    promise="A driver that starts deletes and changes only slices of its own node, and of its own name.",
    source=_CONTROLLER + " (field selector spec.driver and spec.nodeName)",
    cost="A driver that starts takes the devices of other nodes, or of other vendors, away.",
    stage=Stage.RESTART,
    rests_on=("slices.published", "slices.others-kept"),
)
async def _check_others_kept_at_start(session: Session) -> None:
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Unmet(seen.problem)
    if seen.harmed:
        raise Breach("; ".join(seen.harmed))


@AREA.check(
    "kept-over-restart",
    "a restart does not change slices",
    promise="A driver that finds its slices up to date does not touch them, neither objects nor generation.",
    source=_CONTROLLER + "; KEP-4381, seamless upgrades",
    cost="Each update of a driver makes the scheduler see all devices vanish and return, on every node at once.",
    recommended=True,
    stage=Stage.RESTART,
    rests_on=("slices.published",),
)
async def _check_kept_over_restart(session: Session) -> None:
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Unmet(seen.problem)
    before, after = _identities(seen.slices_before), _identities(seen.slices_after)
    if _content(seen.slices_before) == _content(seen.slices_after) and before != after:
        raise Breach("the same devices were published again")


@AREA.check(
    "in-use",
    "devices that are in use stay published",
    promise="A device is published as long as it exists, also while a claim uses it: the scheduler tracks the claims.",
    source="https://github.com/google/dranet/issues/97; " + _TYPES + " (ResourceSlice)",
    cost="Taints, counters and shares of the device count no more, and a claim of all devices is allocated without it.",
    stage=Stage.RESTART,
    rests_on=("slices.complete-after-restart", "slices.steady"),
)
async def _check_in_use(session: Session) -> None:
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Unmet(seen.problem)
    published = {device.key for device in devices_of(seen.slices_after)}
    if hidden := [device.name for device in seen.devices if device.key not in published]:
        raise Breach(f"a claim has {', '.join(hidden)}, which no slice has")


@AREA.check(
    "complete-after-restart",
    "pools are complete after a restart",
    promise="A restart ends with the same pools, complete, and with generations that only grow.",
    source=_TYPES + " (ResourcePool)",
    cost="The scheduler uses devices of an outdated generation, or none.",
    stage=Stage.RESTART,
    rests_on=("slices.published", "slices.steady"),
)
async def _check_complete_after_restart(session: Session) -> None:
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Unmet(seen.problem)
    if broken := incomplete_pools(seen.slices_after):
        raise Breach(f"incomplete pools: {', '.join(broken)}")
    if lost := _by_pool(seen.slices_before).keys() - _by_pool(seen.slices_after).keys():
        raise Breach(f"pools are gone: {', '.join(sorted(lost))}")
    for pool, slices in _by_pool(seen.slices_after).items():
        old = _by_pool(seen.slices_before).get(pool, [])
        if old and _generation(slices) < _generation(old):
            raise Breach(f"pool {pool}: generation {_generation(old)}, then {_generation(slices)}")


@AREA.check(
    "same-devices",
    "a device keeps its name over a restart",
    promise="Driver, pool and name identify the same device as long as claims use it: attributes that identify a"
    " device, such as a serial number or a PCI address, are the same after a restart.",
    source="https://github.com/ROCm/k8s-gpu-dra-driver/issues/83;"
    " https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/427; " + _TYPES + " (Device.name)",
    cost="A pod that has a device is given another one, which may be another pod's.",
    stage=Stage.RESTART,
    rests_on=("slices.published", "slices.steady"),
)
async def _check_same_devices(session: Session) -> None:
    seen = await session.once(kill_driver)
    if seen.problem:
        raise Unmet(seen.problem)
    before = devices_of(seen.slices_before)
    telling = _identifying_attributes(before)
    if not telling:
        raise NotOffered("no attribute identifies its devices")
    after = {device.key: device.spec.get("attributes") or {} for device in devices_of(seen.slices_after)}
    for device in before:
        for name in telling & after.get(device.key, {}).keys():
            was, now = (device.spec.get("attributes") or {}).get(name), after[device.key][name]
            if was not in (None, now):
                raise Breach(
                    f"device {device.name}: {name} is {_value(was)}, and {_value(now)} after a restart"
                )


def _identifying_attributes(devices: list[Device]) -> set[str]:
    """Return the attributes that identify a device: those with a different text in each device."""
    found: dict[str, list[Any]] = {}
    for device in devices:
        for name, value in (device.spec.get("attributes") or {}).items():
            found.setdefault(name, []).append(value.get("string"))
    return {
        name
        for name, texts in found.items()
        if len(texts) > 1 and None not in texts and len(set(texts)) == len(texts)
    }


def _value(attribute: dict[str, Any]) -> Any:
    return next(iter(attribute.values()))


@AREA.check(
    "stay-at-exit",
    "slices remain when the driver exits",
    promise="A driver that is stopped leaves its slices: its next instance adopts them, or the kubelet deletes them.",
    source="staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/draplugin.go (Stop)",
    cost="During an update of the driver pods that wait find no devices, and autoscalers add nodes.",
    recommended=True,
    stage=Stage.RESTART,
)
async def _check_stay_at_exit(session: Session) -> None:
    seen = await session.once(stop_driver)
    if seen.slices_before and not seen.slices_at_exit:
        raise Breach("all slices were deleted")


def require_slices(session: Session) -> None:
    if not session.slices:
        raise Unmet("the driver has published no slices")


def _require_node_slices(session: Session) -> None:
    require_slices(session)
    if all("nodeName" not in one["spec"] for one in session.slices):
        raise NotOffered("no slice is for one node")


def _by_pool(slices: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for one in slices:
        found.setdefault(one["spec"]["pool"]["name"], []).append(one)
    return found


def _generation(slices: list[Any]) -> int:
    return max(int(one["spec"]["pool"].get("generation", 0)) for one in slices)


def _identities(slices: list[Any]) -> set[tuple[str, int]]:
    return {(one["metadata"]["uid"], one["spec"]["pool"].get("generation", 0)) for one in slices}


def _content(slices: list[Any]) -> list[tuple[str, str]]:
    """Return the devices and counters, regardless of their slice and of the times of taints."""
    return sorted(
        (one["spec"]["pool"]["name"], str(_without_times(part)))
        for one in slices
        for part in [*(one["spec"].get("devices") or ()), *(one["spec"].get("sharedCounters") or ())]
    )


def _without_times(device: dict[str, Any]) -> dict[str, Any]:
    if "taints" not in device:
        return device
    taints = [{key: taint[key] for key in taint if key != "timeAdded"} for taint in device["taints"]]
    return {**device, "taints": taints}

"""Find objects that a world refers to and lacks, and describe the resulting uncertainty."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import (
    CSI_DRIVERS,
    DAEMON_SETS,
    DEVICE_CLASSES,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from dra_shared.plurals import count
from dra_shared.version import Version

from dra_scheduler.plan.holdings import find_overdrawn, held_twice
from dra_scheduler.plan.neededgates import Found, find_newer, needs
from dra_scheduler.plan.objects import RESOURCES, Objects
from dra_scheduler.plan.references import Reference, references

_MOST_NAMES = 3
_NO_POOL = (-1, 0, 0)
_MADE_AGAIN = "their pods count as made again, and nothing is spread by their selectors"
# The assumptions about objects of a missing kind.
_ABSENT: Mapping[Resource[Any], str] = {
    RESOURCE_CLAIMS: "devices that they hold count as free",
    RESOURCE_CLAIM_TEMPLATES: "pods of theirs get no claims when they are made again",
    PODS: "what runs on the nodes is unknown and counts as nothing",
    NAMESPACES: "selectors of namespaces match none",
    PERSISTENT_VOLUME_CLAIMS: "pods that use one cannot be placed",
    PERSISTENT_VOLUMES: "where their volumes can be reached is unknown",
    STORAGE_CLASSES: "their volumes cannot be provisioned",
    POD_GROUPS: "their pods are not scheduled together",
    PRIORITY_CLASSES: "new pods get the priority that pods of the same class have",
    RUNTIME_CLASSES: "overhead and nodes of new pods are unknown",
    CSI_DRIVERS: "limits and capacity of their volumes are unknown",
    REPLICA_SETS: _MADE_AGAIN,
    STATEFUL_SETS: _MADE_AGAIN,
    DAEMON_SETS: _MADE_AGAIN,
    REPLICATION_CONTROLLERS: _MADE_AGAIN,
    JOBS: "their pods count as made again",
}
_ORDER = (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES, *RESOURCES)
# The absence of these kinds is reported separately.
_KNOWN_WITHOUT = (NODES, DEVICE_CLASSES)
# Kinds for which even a single missing object is reported.
_SINGLE: Mapping[Resource[Any], tuple[str, str]] = {
    RESOURCE_CLAIMS: ("pods whose claim is missing", "what they use is unknown"),
    RESOURCE_CLAIM_TEMPLATES: (
        "pods whose claim template is missing",
        "they get no claims when they are made again",
    ),
    DEVICE_CLASSES: ("claims whose device class is missing", "their requests cannot be judged"),
    NODES: ("pods on a node that is missing", "they are ignored"),
    PODS: ("claims reserved for pods that are missing", "their devices count as in use"),
    PERSISTENT_VOLUME_CLAIMS: ("pods whose volume claim is missing", "they cannot be placed"),
}


def gaps(objects: Objects) -> list[str]:
    """Return one line for each kind of missing objects, and for each contradiction between objects."""
    return [
        *_kinds(objects),
        *_allocations(objects),
        *_find_missing(objects),
        *_slices(objects),
        *_contradictions(objects),
        *_pools(objects),
    ]


def gate_gaps(found: Found, chosen: Mapping[str, bool], version: Version) -> list[str]:
    """Return lines for gates that are on only because objects need them, or that ``version`` does not have."""
    lines = []
    if named := needs(found, chosen, version)[1]:
        shown = ", ".join(f"{need.gate} ({need.holder})" for need in named)
        lines.append(
            f"feature gates that are off by default in {version} count as on, because objects need them: {shown}; "
            "if one is off in the cluster, set it to false with --feature-gates"
        )
    if unknown := find_newer(found, version):
        shown = ", ".join(f"{need.gate} ({need.holder})" for need in unknown)
        lines.append(
            f"objects have fields that {version} ignores, of the feature gates {shown}; "
            "if the control plane is newer than the nodes, choose its --kubernetes-version"
        )
    return lines


def _kinds(objects: Objects) -> Iterator[str]:
    if not objects.of(NODES):
        yield "there are no nodes: nothing fits anywhere"
    empty = [name for name, node in objects.of(NODES).items() if not node.status.allocatable]
    if empty:
        yield line("nodes without status.allocatable", empty, "nothing fits on them")
    asks = any(pod.spec.resource_claims for pod in objects.of(PODS).values())
    asks = asks or bool(objects.of(RESOURCE_CLAIMS))
    if not objects.of(RESOURCE_SLICES) and asks:
        yield "there are no ResourceSlices: which devices there are is unknown, and claims get none"
    if not objects.of(DEVICE_CLASSES) and (asks or objects.of(RESOURCE_SLICES)):
        yield "there are no DeviceClasses: requests for devices of a class cannot be judged"


def _allocations(objects: Objects) -> Iterator[str]:
    held = [(claim, place) for claim in objects.of(RESOURCE_CLAIMS).values() for place in _results(claim)]
    names: dict[tuple[str, str], set[str]] = {}
    # Skip pools without allocated devices, which are most pools of a large fleet.
    wanted = {place[:2] for _, place in held}
    for piece in objects.of(RESOURCE_SLICES).values() if wanted else ():
        key = piece.spec.driver, piece.spec.pool.name
        if key in wanted:
            names.setdefault(key, set()).update(device.name for device in piece.spec.devices)
    pools, devices = [], []
    for claim, (driver, pool, device) in held:
        if (driver, pool) not in names:
            pools.append(f"{claim.key} ({driver}/{pool})")
        elif device not in names[driver, pool]:
            devices.append(f"{claim.key} ({driver}/{pool}/{device})")
    if pools:
        yield line("allocated from a pool that is unknown", pools, "what it has left is uncertain")
    if devices:
        yield line("allocated a device that its pool does not have", devices, "what it uses is uncertain")


def _results(claim: ResourceClaim) -> Iterator[tuple[str, str, str]]:
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            yield result.driver, result.pool, result.device


def _slices(objects: Objects) -> Iterator[str]:
    nodes = objects.of(NODES)
    lost = [
        f"{piece.key} ({piece.spec.node_name})"
        for piece in objects.of(RESOURCE_SLICES).values()
        if piece.spec.node_name and piece.spec.node_name not in nodes
    ]
    if nodes and lost:
        yield line("slices of a node that is missing", lost, "their devices count nowhere")


def _find_missing(objects: Objects) -> Iterator[str]:
    """Yield lines about objects that are referred to but missing.

    If the kind was read, a missing object is certain. In that case only objects that the planner needs are
    reported.
    """
    missing: dict[Resource[Any], dict[str, Reference]] = {}
    for each in references(objects):
        if each.key not in objects.of(each.resource):
            missing.setdefault(each.resource, {}).setdefault(f"{each.holder} {each.name}", each)
    for resource in sorted(missing, key=_ORDER.index):
        found = missing[resource]
        names = [f"{each.holder.partition(' ')[2]} ({each.name})" for each in found.values()]
        if not objects.knows(resource) and resource not in _KNOWN_WITHOUT:
            plural = f"{resource.kind}es" if resource.kind.endswith("s") else f"{resource.kind}s"
            effect = _ABSENT.get(resource, "which pods they concern is unknown")
            yield line(f"there are no {plural}, but objects refer to them", names, effect)
        elif resource in _SINGLE and (objects.knows(resource) or resource is NODES):
            what, effect = _SINGLE[resource]
            yield line(what, names, effect)


def _contradictions(objects: Objects) -> Iterator[str]:
    if twice := held_twice(objects):
        yield line("devices that several claims hold", twice, "which of them really has it is unknown")
    if over := find_overdrawn(objects):
        yield line("claims hold more than there is", over, "what is left is uncertain")


def _pools(objects: Objects) -> Iterator[str]:
    # For each pool the newest generation, the number of its slices, and the number that should exist.
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for piece in objects.of(RESOURCE_SLICES).values():
        pool = piece.spec.pool
        key = piece.spec.driver, pool.name
        newest, there, _ = found.get(key, _NO_POOL)
        if pool.generation >= newest:
            there = there + 1 if pool.generation == newest else 1
            found[key] = pool.generation, there, pool.resource_slice_count
    incomplete = [
        f"{driver}/{name} ({there} of {count(wanted, 'slice')})"
        for (driver, name), (_, there, wanted) in found.items()
        if there < wanted
    ]
    if incomplete:
        yield line("incomplete pools", incomplete, "nothing is allocated from them")


def line(what: str, names: Sequence[str], effect: str) -> str:
    """Return a line that says what is missing, with the first of the names, and the effect on answers."""
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{what}: {shown}{more}; {effect}"

"""Feature gates without which a cluster could not have some of its objects.

An API server drops a field whose gate is off, and does not serve a kind whose gate is off (upstream's
``dropDisabledFields`` in ``pkg/registry``). A stored object that has the field therefore shows that the gate
was on. It may have been turned off since.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import (
    COMPOSITE_POD_GROUPS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.features import FeatureGates
from dra_shared.quota import IMPLICIT_PREFIX
from dra_shared.version import DEFAULT, VERSIONS, Version, release

_TAINTS, _CAPACITY = ("DRADeviceTaints",), ("DRAConsumableCapacity",)
_BINDING = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
_PARTITIONS, _GROUP_CLAIMS = ("DRAPartitionableDevices",), ("DRAWorkloadResourceClaims",)
_PREEMPTION = ("WorkloadAwarePreemption",)
_REQUESTS = "devices.requests.*"
_RESULT = "status.allocation.devices.results.*"

Gates = tuple[str, ...]


def _claim_fields(at: str) -> dict[str, Gates]:
    """Return the gated fields of a claim's spec at the path."""
    found: dict[str, Gates] = {f"{at}.{_REQUESTS}.firstAvailable": ("DRAPrioritizedList",)}
    for request in (f"{at}.{_REQUESTS}.exactly", f"{at}.{_REQUESTS}.firstAvailable.*"):
        found |= {
            f"{request}.tolerations": _TAINTS,
            f"{request}.capacity": _CAPACITY,
            f"{request}.derivedAttributes": ("DRADerivedAttributes",),
        }
    found[f"{at}.{_REQUESTS}.exactly.adminAccess"] = ("DRAAdminAccess",)
    found[f"{at}.devices.constraints.*.distinctAttribute"] = _CAPACITY
    return found


_SLICE: dict[str, Gates] = {
    "spec.devices.*.taints": _TAINTS,
    "spec.sharedCounters": _PARTITIONS,
    "spec.perDeviceNodeSelection": _PARTITIONS,
    "spec.devices.*.consumesCounters": _PARTITIONS,
    "spec.devices.*.nodeName": _PARTITIONS,
    "spec.devices.*.nodeSelector": _PARTITIONS,
    "spec.devices.*.allNodes": _PARTITIONS,
    "spec.devices.*.bindsToNode": _BINDING,
    "spec.devices.*.bindingConditions": _BINDING,
    "spec.devices.*.bindingFailureConditions": _BINDING,
    "spec.devices.*.allowMultipleAllocations": _CAPACITY,
    "spec.devices.*.capacity.*.requestPolicy": _CAPACITY,
    "spec.devices.*.attributes.*.bools": ("DRAListTypeAttributes",),
    "spec.devices.*.attributes.*.ints": ("DRAListTypeAttributes",),
    "spec.devices.*.attributes.*.strings": ("DRAListTypeAttributes",),
    "spec.devices.*.attributes.*.versions": ("DRAListTypeAttributes",),
    "spec.devices.*.nodeAllocatableResourceMappings": ("DRANodeAllocatableResources",),
    "spec.devices.*.nodeAllocatableResources": ("DRANodeAllocatableResources",),
    "spec.devices.*.consumesCounters.*.compatibilityGroups": ("DRADeviceCompatibilityGroups",),
    "spec.skipNodeOperations": ("DRAOptionalNodeOperations",),
    "spec.partitionTypeAttribute": ("DRAPartitionableDevicesType",),
}
_CLAIM: dict[str, Gates] = {
    **_claim_fields("spec"),
    "status.devices": ("DRAResourceClaimDeviceStatus",),
    f"{_RESULT}.adminAccess": ("DRAAdminAccess",),
    f"{_RESULT}.shareID": _CAPACITY,
    f"{_RESULT}.consumedCapacity": _CAPACITY,
    f"{_RESULT}.bindingConditions": _BINDING,
    f"{_RESULT}.bindingFailureConditions": _BINDING,
    f"{_RESULT}.skipNodeOperations": ("DRAOptionalNodeOperations",),
}
_POD: dict[str, Gates] = {
    "spec.workloadRef": ("GenericWorkload",),
    "spec.schedulingGroup": ("GenericWorkload",),
    "status.extendedResourceClaimStatus": ("DRAExtendedResource",),
    "status.nodeAllocatableResourceClaimStatuses": ("DRANodeAllocatableResources",),
}
_GROUP: dict[str, Gates] = {
    "spec.schedulingConstraints": ("TopologyAwareWorkloadScheduling",),
    "spec.resourceClaims": _GROUP_CLAIMS,
    "spec.priorityClassName": _PREEMPTION,
    "spec.priority": _PREEMPTION,
    "spec.parentCompositePodGroupName": ("CompositePodGroup",),
    "spec.preemptionPolicy": ("PodGroupPreemptionPolicy",),
    "status.resourceClaimStatuses": _GROUP_CLAIMS,
}
# The gated fields by resource.
FIELDS: Mapping[Resource[Any], Mapping[str, Gates]] = {
    RESOURCE_SLICES: _SLICE,
    RESOURCE_CLAIMS: _CLAIM,
    RESOURCE_CLAIM_TEMPLATES: _claim_fields("spec.spec"),
    DEVICE_CLASSES: {"spec.extendedResourceName": ("DRAExtendedResource",)},
    PODS: _POD,
    POD_GROUPS: _GROUP,
    COMPOSITE_POD_GROUPS: _GROUP,
    NODES: {"status.declaredFeatures": ("NodeDeclaredFeatures",)},
}
_KINDS: Mapping[Resource[Any], Gates] = {
    DEVICE_TAINT_RULES: ("DRADeviceTaintRules", "DRADeviceTaints"),
    POD_GROUPS: ("GenericWorkload", "GangScheduling"),
    COMPOSITE_POD_GROUPS: ("CompositePodGroup",),
}

# 1.34 has no separate gate for rules: DRADeviceTaints covers them.
_SPLIT = frozenset(("DRADeviceTaintRules",))

_Tree = dict[str, "tuple[Gates, _Tree]"]
Found = Mapping[str, str]
"""Gates, each with an object that needs it."""


class Need(NamedTuple):
    """A gate that differs from the version's default, and an object that needs it."""

    gate: str
    holder: str


def found_in(resource: Resource[Any], objects: Iterable[Object], known: Found) -> Found:
    """Return ``known`` extended with the gates that these objects need."""
    found = dict(known)
    tree, of_kind = _TREES.get(resource), _KINDS.get(resource, ())
    for obj in objects:
        gates = {*of_kind, *(_in(obj, tree) if tree is not None else ())}
        if isinstance(obj, Pod) and _asks_implicitly(obj):
            gates.add("DRAExtendedResource")
        for gate in gates - found.keys():
            found[gate] = f"{resource.kind} {obj.key}"
    return found


def _asks_implicitly(pod: Pod) -> bool:
    """True if the pod requests devices of a class by the implicit name of an extended resource."""
    return any(
        name.startswith(IMPLICIT_PREFIX)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        if container.resources is not None
        for name in container.resources.requests
    )


def needs(
    found: Found, chosen: Mapping[str, bool], version: Version = DEFAULT
) -> tuple[dict[str, bool], list[Need]]:
    """Return the gates to set, with their dependencies, and those among them that objects need.

    ``chosen`` are gates with a known state. A gate that is off in ``chosen``, or depends on such a gate, stays
    off.
    """
    known, on, named = release(version).gates, dict[str, bool](), list[Need]()
    for gate in sorted(found.keys() & known.keys()):
        together = _with_dependencies(gate, version)
        if any(chosen.get(each) is False for each in together):
            continue
        on |= dict.fromkeys(together, True)
        if not known[gate].default and gate not in chosen:
            named.append(Need(gate, found[gate]))
    return on, named


def find_newer(found: Found, version: Version) -> list[Need]:
    """Return the gates that only later versions have."""
    later = {name for each in VERSIONS if each > version for name in release(each).gates}
    later -= release(version).gates.keys() | _SPLIT
    return [Need(gate, found[gate]) for gate in sorted(found.keys() & later)]


def _with_dependencies(gate: str, version: Version) -> set[str]:
    known, together, left = release(version).gates, {gate}, [gate]
    while left:
        more = set(known[left.pop()].needs) - together
        together |= more
        left += more
    return together


def _in(value: Any, tree: _Tree) -> Iterator[str]:
    """Yield the gates of the fields that are set in the value."""
    for name, (gates, below) in tree.items():
        part = getattr(value, name, None)
        if part is None or part == () or part == {} or part == "":
            continue
        yield from gates
        if not below:
            continue
        each = below.get("*")
        if each is None:
            yield from _in(part, below)
        else:
            for child in part.values() if isinstance(part, Mapping) else part:
                yield from _in(child, each[1])


def _tree(fields: Mapping[str, Gates]) -> _Tree:
    root: _Tree = {}
    for path, gates in fields.items():
        names, at = path.split("."), root
        for name in names[:-1]:
            at = at.setdefault(_attribute(name), ((), {}))[1]
        own, below = at.get(_attribute(names[-1]), ((), {}))
        at[_attribute(names[-1])] = (*own, *gates), below
    return root


def _attribute(name: str) -> str:
    """Return the Python attribute for the JSON field."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name.replace("ID", "Id"))


_TREES: Mapping[Resource[Any], _Tree] = {resource: _tree(fields) for resource, fields in FIELDS.items()}


class Needed:
    """The gates that a world's objects need, computed on first use and reused for its variants.

    A gate stays on in a variant that lacks the object which needed it.
    """

    def __init__(
        self, before: "Needed | None" = None, added: Sequence[tuple[Resource[Any], Sequence[Object]]] = ()
    ) -> None:
        self._before, self._added = before, added
        self._found: Found | None = None

    def find(self) -> Found:
        """Return the gates, each with an object that needs it."""
        line: list[Needed] = []
        at: Needed | None = self
        while at is not None and at._found is None:
            line.append(at)
            at = at._before
        found: Found = at._found or {} if at is not None else {}
        for each in reversed(line):
            for resource, objects in each._added:
                found = found_in(resource, objects, found)
            each._found, each._before, each._added = found, None, ()
        return found


def gates_of(found: Found, chosen: Mapping[str, bool] | None, version: Version) -> FeatureGates:
    """Return the gates of a cluster with objects that need the gates ``found``."""
    return FeatureGates(version, **{**needs(found, chosen or {}, version)[0], **(chosen or {})})

"""The demand: units of pods that must share a node, and groups of equal units."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from dra_shared.api.pod import Affinity, Pod, PodStatus
from dra_shared.api.resource import DeviceRequest, ResourceClaim, ResourceClaimSpec
from dra_shared.api.resources import POD_GROUPS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dra_shared.api.scheduling import BasicSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy
from dra_shared.claims import pod_group_name

from dra_scheduler.framework.resources import PODS, pod_requests
from dra_scheduler.plan.objects import Objects

_replace = msgspec.structs.replace

# The key of the number of devices among the needs of a unit.
DEVICES = "devices"
# Labels that number the pods of one workload.
_NUMBERS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    }
)


@dataclass(frozen=True)
class Unit:
    """Pods that must share a node: a single one, or those that share a claim."""

    pods: tuple[Pod, ...]
    needs: Mapping[str, int]


class Demand:
    """Pods in units, and units in shapes. All units of a shape are equal."""

    def __init__(self, objects: Objects, pods: Sequence[Pod]) -> None:
        self._claims = objects.of(RESOURCE_CLAIMS)
        self._templates = objects.of(RESOURCE_CLAIM_TEMPLATES)
        self._groups = objects.of(POD_GROUPS)
        self._users: dict[str, int] = {}
        for pod in pods:
            for claim in self._shared_names(pod):
                self._users[claim] = self._users.get(claim, 0) + 1
        shapes: dict[Hashable, list[Unit]] = {}
        for members in _join(pods, self._shared_names):
            unit = Unit(tuple(members), self._needs(members))
            shapes.setdefault(tuple(map(self._sign, members)), []).append(unit)
        # Units by shape, the largest first.
        self.shapes = sorted(shapes.values(), key=lambda units: _size(units[0]), reverse=True)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of units of each shape."""
        return tuple(map(len, self.shapes))

    def alone(self, pod: Pod) -> Pod:
        """Return the pod without constraints on other nodes. A node that refuses it can never take the pod."""
        spec = pod.spec
        affinity = spec.affinity
        if affinity is not None and affinity.pod_affinity is not None:
            affinity = _replace(affinity, pod_affinity=None)
        group = self._group(pod)
        keeps_group = group is not None and group.spec.resource_claims
        spec = _replace(
            spec,
            affinity=None if affinity == Affinity() else affinity,
            topology_spread_constraints=(),
            scheduling_group=spec.scheduling_group if keeps_group else None,
            preemption_policy="Never",
        )
        return _replace(pod, spec=spec)

    def alone_group(self, group: PodGroup) -> PodGroup:
        """Return the group without its gang's minimum, so that a single node can be tried for one of its pods."""
        spec = _replace(
            group.spec,
            scheduling_policy=PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy()),
            scheduling_constraints=None,
        )
        return _replace(group, spec=spec)

    def _group(self, pod: Pod) -> PodGroup | None:
        name = pod_group_name(pod)
        return None if name is None else self._groups.get(f"{pod.metadata.namespace}/{name}")

    def _shared_names(self, pod: Pod) -> Iterable[str]:
        """Yield the names of objects that pods may share: the pod's claims, and its group if that has claims."""
        space = pod.metadata.namespace
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_name is not None:
                yield f"{space}/{entry.resource_claim_name}"
        group = self._group(pod)
        if group is not None and group.spec.resource_claims:
            yield f"group {group.key}"

    def _spec_of(self, pod: Pod, claim: str | None, template: str | None) -> ResourceClaimSpec | None:
        space = pod.metadata.namespace
        if claim is not None:
            found = self._claims.get(f"{space}/{claim}")
            return found.spec if found is not None else None
        made = self._templates.get(f"{space}/{template}")
        return made.spec.spec if made is not None else None

    def _sign(self, pod: Pod) -> Hashable:
        """Return a value that is equal for pods that the scheduler cannot distinguish."""
        spec, meta = pod.spec, pod.metadata
        claims = []
        for entry in spec.resource_claims:
            name = entry.resource_claim_name
            own = name is not None and self._users.get(f"{meta.namespace}/{name}") == 1
            claim = self._claims.get(f"{meta.namespace}/{name}") if own else None
            if claim is not None and not _is_taken(claim):
                entry = _replace(entry, resource_claim_name=msgspec.json.encode(claim.spec).decode())
            claims.append(entry)
        spec = _replace(spec, resource_claims=tuple(claims), hostname="", node_name="")
        if self._group(pod) is not None:
            spec = _replace(spec, scheduling_group=None)
        labels = {key: value for key, value in meta.labels.items() if key not in _NUMBERS}
        return meta.namespace, msgspec.json.encode(spec), tuple(sorted(labels.items()))

    def _needs(self, pods: Iterable[Pod]) -> dict[str, int]:
        needs: dict[str, int] = {}
        claims: dict[str, ResourceClaimSpec] = {}
        for pod in pods:
            for name, value in (*pod_requests(pod).items(), (PODS, 1)):
                needs[name] = needs.get(name, 0) + value
            for entry in pod.spec.resource_claims:
                named, template = entry.resource_claim_name, entry.resource_claim_template_name
                spec = self._spec_of(pod, named, template)
                group = self._group(pod)
                of_group = group is not None and any(
                    (each.resource_claim_name, each.resource_claim_template_name) == (named, template)
                    for each in group.spec.resource_claims
                )
                if spec is not None:
                    owner = named or (entry.name if of_group else f"{pod.metadata.name} {entry.name}")
                    claims[owner] = spec
        needs[DEVICES] = sum(_devices(spec.devices.requests) for spec in claims.values())
        return needs


def _is_taken(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None or bool(claim.status.reserved_for)


def _devices(requests: Iterable[DeviceRequest]) -> int:
    """Return the minimum number of devices that the requests use up."""
    total = 0
    for request in requests:
        if request.exactly is not None and not request.exactly.admin_access:
            total += 1 if request.exactly.allocation_mode == "All" else request.exactly.count or 1
        elif request.first_available:
            total += min(
                1 if each.allocation_mode == "All" else each.count or 1 for each in request.first_available
            )
    return total


def _join(pods: Sequence[Pod], shared: Callable[[Pod], Iterable[str]]) -> list[list[Pod]]:
    """Group the pods that share something, directly or through others."""
    group_of: dict[str, list[Pod]] = {}
    groups: dict[int, list[Pod]] = {}
    for pod in pods:
        names = list(shared(pod))
        mine = [pod]
        for name in names:
            other = group_of.get(name)
            if other is not None and other is not mine:
                groups.pop(id(other), None)
                other += mine
                for key, members in group_of.items():
                    if members is mine:
                        group_of[key] = other
                mine = other
        for name in names:
            group_of[name] = mine
        groups[id(mine)] = mine
    return list(groups.values())


def _size(unit: Unit) -> tuple[int, ...]:
    needs = unit.needs
    return needs[DEVICES], needs.get("cpu", 0), needs.get("memory", 0), len(unit.pods)


def new_pod(pod: Pod, nominated: str = "") -> Pod:
    """Return the pod as if no scheduler had seen it. ``nominated`` is the node that is expected for it."""
    status = PodStatus(
        phase=pod.status.phase,
        resource_claim_statuses=pod.status.resource_claim_statuses,
        nominated_node_name=nominated,
    )
    return _replace(pod, spec=_replace(pod.spec, preemption_policy="Never"), status=status)

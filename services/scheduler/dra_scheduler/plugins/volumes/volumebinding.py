"""VolumeBinding: a pod runs on a node where its volumes are or can be bound or provisioned.

Mirrors upstream's ``pkg/scheduler/framework/plugins/volumebinding/volume_binding.go``.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, error, unresolvable
from dra_scheduler.plugins.volumes.committer import VolumeCommitter
from dra_scheduler.plugins.volumes.finder import PodClaims, PodVolumes, VolumeError, VolumeFinder
from dra_scheduler.plugins.volumes.matching import limit_of
from dra_scheduler.plugins.volumes.objects import OutOfSync, VolumeObjects
from dra_scheduler.plugins.volumes.podvolumes import (
    NotOwnedError,
    check_owner,
    claim_names,
    refers_to,
    uses_claims,
)

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"


@dataclass(slots=True)
class _Memory:
    """``found`` has the possible volumes on each node, ``assumed`` those on the chosen node."""

    claims: PodClaims
    found: dict[str, PodVolumes] = field(default_factory=dict)
    assumed: PodVolumes | None = None


class VolumeBinding:
    """Filters by the nodes from which the pod's volumes can be reached.

    Before a pod is bound, its volumes are bound or provisioned.
    """

    name = "VolumeBinding"
    # Upstream scores the capacities of volumes (gate StorageCapacityScoring).
    upstream_points = ("preScore", "score")
    pre_binds_in_parallel = True

    def __init__(self, objects: VolumeObjects, committer: VolumeCommitter) -> None:
        self._objects = objects
        self._finder = VolumeFinder(objects)
        self._committer = committer

    def events_to_register(self) -> Sequence[Interest]:
        changes = Action.ADD | Action.UPDATE
        return (
            Interest(Kind.STORAGE_CLASS, changes, _class_may_do),
            Interest(Kind.PERSISTENT_VOLUME_CLAIM, changes, lambda pod, event: refers_to(pod, event.new)),
            Interest(Kind.PERSISTENT_VOLUME, changes),
            Interest(Kind.NODE, Action.ADD | Action.NODE_LABEL),
            Interest(Kind.CSI_NODE, changes, _translates_others),
            Interest(Kind.CSI_DRIVER, Action.UPDATE, _counts_no_space_any_more),
            Interest(Kind.CSI_STORAGE_CAPACITY, changes, _has_more_space),
        )

    def sign(self, pod: Pod) -> Hashable | None:
        return None if uses_claims(pod) else ()

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        if not uses_claims(pod):
            return None, SKIP
        problem = self._problem(pod)
        if problem is not None:
            return None, unresolvable(problem)
        try:
            claims = self._finder.claims_of(pod)
        except (VolumeError, NotOwnedError) as failure:
            return None, error(failure)
        if claims.immediate:
            return None, unresolvable("pod has unbound immediate PersistentVolumeClaims")
        # The volumes found for a node are valid as long as the verdict on the node.
        state.write(self.name, _Memory(claims, state.sharing.data.setdefault(self.name, {})))
        return None, None

    def _problem(self, pod: Pod) -> str | None:
        """Return the problem with the pod's claims that does not depend on the node, or None."""
        for name, made in claim_names(pod):
            claim = self._objects.claims.observed.get(f"{pod.metadata.namespace}/{name}")
            if claim is None:
                if made:
                    return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                return f'persistentvolumeclaim "{name}" not found'
            if claim.status.phase == "Lost":
                return (
                    f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume '
                    f'"{claim.spec.volume_name or ""}"'
                )
            if claim.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if made:
                try:
                    check_owner(pod, claim)
                except NotOwnedError as problem:
                    return str(problem)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        memory = state.read(self.name, _Memory)
        if memory is None or node.node is None:
            return None
        try:
            found = self._finder.find(memory.claims, node.node)
        except VolumeError as failure:
            return error(failure)
        if isinstance(found, list):
            return unresolvable(*found)
        memory.found[node.name] = found
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(self.name, _Memory)
        if memory is None or node_name not in memory.found or self._finder.is_all_bound(pod):
            return None
        try:
            memory.assumed = self._committer.assume(memory.found[node_name], node_name)
        except OutOfSync as problem:
            return error(problem)
        return None

    async def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.forget(state)

    def forget(self, state: CycleState) -> None:
        """Undo :meth:`reserve`."""
        memory = state.read(self.name, _Memory)
        if memory is not None and memory.assumed is not None:
            self._committer.revert(memory.assumed)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(self.name, _Memory)
        return None if memory is not None and memory.assumed is not None else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(self.name, _Memory)
        if memory is None or memory.assumed is None:
            return None
        try:
            await self._committer.commit(pod, memory.assumed)
        except VolumeError as failure:
            return error(failure)
        return None


def _class_may_do(pod: Pod, event: Event) -> bool:
    return event.old is None or event.old.allowed_topologies != event.new.allowed_topologies


def _translates_others(pod: Pod, event: Event) -> bool:
    if event.old is None:
        return True
    before, after = (obj.metadata.annotations.get(_MIGRATED, "") for obj in (event.old, event.new))
    return bool(before != after)


def _counts_no_space_any_more(pod: Pod, event: Event) -> bool:
    stopped = event.old.spec.storage_capacity and not event.new.spec.storage_capacity
    return bool(stopped) and any(
        volume.csi is not None and volume.csi.get("driver") == event.new.metadata.name
        for volume in pod.spec.volumes
    )


def _has_more_space(pod: Pod, event: Event) -> bool:
    if event.old is None:
        return True
    before, after = limit_of(event.old), limit_of(event.new)
    return after is not None and (before is None or after > before)

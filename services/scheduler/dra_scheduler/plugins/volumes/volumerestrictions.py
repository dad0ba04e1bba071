"""VolumeRestrictions: volumes that only one pod or node may use.

Mirrors upstream's ``pkg/scheduler/framework/plugins/volumerestrictions``.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from dra_shared.api.pod import Pod
from dra_shared.api.volume import Volume
from dra_shared.jsontypes import JsonObject

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.plugins.volumes.podvolumes import refers_to, uses_claims


@dataclass(slots=True)
class _Rivals:
    """The pod's ReadWriteOncePod claims, and the number of uses by other pods."""

    claims: frozenset[str]
    uses: int


class VolumeRestrictions:
    """Filters by disks that another pod on the node uses, and by ReadWriteOncePod claims that any pod uses."""

    name = "VolumeRestrictions"

    def __init__(self, cache: Cache, objects: VolumeObjects) -> None:
        self._cache = cache
        self._objects = objects

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.POD, Action.DELETE, _gives_up_a_volume),
            Interest(Kind.NODE, Action.ADD),
            Interest(
                Kind.PERSISTENT_VOLUME_CLAIM,
                Action.ADD,
                lambda pod, event: refers_to(pod, event.new, ephemeral=False),
            ),
        )

    def sign(self, pod: Pod) -> Hashable | None:
        return None if uses_claims(pod) or _has_disk(pod) else ()

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        exclusive = set()
        for name in _named_claims(pod):
            claim = self._objects.claims.observed.get(f"{pod.metadata.namespace}/{name}")
            if claim is None:
                return None, unresolvable(f'persistentvolumeclaim "{name}" not found')
            if "ReadWriteOncePod" in claim.spec.access_modes:
                exclusive.add(name)
        used = self._claims_in_use(pod.metadata.namespace) if exclusive else frozenset()
        rivals = _Rivals(frozenset(exclusive), len(exclusive & used))
        if not rivals.uses and not _has_disk(pod):
            return None, SKIP
        state.write(self.name, rivals)
        return None, None

    def _claims_in_use(self, namespace: str) -> frozenset[str]:
        """Return the claims of the namespace that pods with a node use."""
        return frozenset(
            name
            for node in self._cache.nodes()
            for other in node.pods.values()
            if other.metadata.namespace == namespace
            for name in _named_claims(other)
        )

    def count(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, change: int) -> None:
        """Count ``other`` as added to the node (``change`` 1) or removed from it (-1)."""
        rivals = state.read(self.name, _Rivals)
        if rivals is not None:
            # Like upstream, this ignores the namespace of the other pod.
            rivals.uses += change * sum(name in rivals.claims for name in _named_claims(other))

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if any(_conflict(pod, other) for other in node.pods.values()):
            return unschedulable("node(s) had no available disk")
        rivals = state.read(self.name, _Rivals)
        if rivals is not None and rivals.uses > 0:
            return unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
                "in-use by another pod"
            )
        return None


def _named_claims(pod: Pod) -> list[str]:
    return [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]


def _has_disk(pod: Pod) -> bool:
    return any(
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
        for volume in pod.spec.volumes
    )


def _conflict(pod: Pod, other: Pod) -> bool:
    return any(_same_disk(ours, theirs) for ours in pod.spec.volumes for theirs in other.spec.volumes)


def _same_disk(ours: Volume, theirs: Volume) -> bool:
    one, two = ours.gce_persistent_disk, theirs.gce_persistent_disk
    if one is not None and two is not None and one["pdName"] == two["pdName"] and _is_written(one, two):
        return True
    one, two = ours.aws_elastic_block_store, theirs.aws_elastic_block_store
    if one is not None and two is not None and one["volumeID"] == two["volumeID"]:
        return True
    one, two = ours.iscsi, theirs.iscsi
    if one is not None and two is not None and one["iqn"] == two["iqn"] and _is_written(one, two):
        return True
    one, two = ours.rbd, theirs.rbd
    return (
        one is not None
        and two is not None
        and not set(one["monitors"]).isdisjoint(two["monitors"])
        and (one.get("pool"), one["image"]) == (two.get("pool"), two["image"])
        and _is_written(one, two)
    )


def _is_written(one: JsonObject, two: JsonObject) -> bool:
    return not (one.get("readOnly") and two.get("readOnly"))


def _gives_up_a_volume(pod: Pod, event: Event) -> bool:
    gone: Pod = event.old
    if gone.metadata.namespace != pod.metadata.namespace:
        return False
    return _conflict(pod, gone) or not set(_named_claims(pod)).isdisjoint(_named_claims(gone))

"""NodeVolumeLimits: limits the volumes of a CSI driver on a node to the number that it can attach there.

Mirrors upstream's ``pkg/scheduler/framework/plugins/nodevolumelimits/csi.go``.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.pod import Pod
from dra_shared.api.storage import CSINode

from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, error, unresolvable, unschedulable
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.plugins.volumes.podvolumes import (
    NotOwnedError,
    check_owner,
    claim_names,
    class_of,
    refers_to,
    uses_claims,
)

# The driver and its handle of the volume.
_VolumeId = tuple[str, str]


class NodeVolumeLimits:
    """Filters by the limits in CSINodes. Volumes of in-tree plugins are not counted."""

    name = "NodeVolumeLimits"

    def __init__(self, objects: VolumeObjects) -> None:
        self._objects = objects

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.CSI_NODE, Action.ADD),
            Interest(Kind.CSI_NODE, Action.UPDATE, _takes_more),
            Interest(Kind.POD, Action.DELETE, _gives_up_a_claim),
            Interest(Kind.PERSISTENT_VOLUME_CLAIM, Action.ADD, lambda pod, event: refers_to(pod, event.new)),
            Interest(Kind.VOLUME_ATTACHMENT, Action.DELETE, _names_a_claim),
        )

    def sign(self, pod: Pod) -> Hashable | None:
        return None if uses_claims(pod) else ()

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        return None, None if uses_claims(pod) else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        wanted: set[_VolumeId] = set()
        for name, made in claim_names(pod):
            key = f"{pod.metadata.namespace}/{name}"
            claim = self._objects.claims.observed.get(key)
            if claim is None:
                return unresolvable(f'looking up PVC {key}: persistentvolumeclaim "{name}" not found')
            if made:
                try:
                    check_owner(pod, claim)
                except NotOwnedError as problem:
                    return error(problem)
            wanted |= self._volume_of(claim)
        limits = _limits(self._objects.csi_nodes.get(node.name))
        if not limits or not wanted:
            return None
        used = {volume for other in node.pods.values() for volume in self._volumes_of(other)}
        # An attached volume counts even if no pod uses it any more, also for a pod that wants this volume.
        counts = Counter(driver for driver, _ in used | self._attached_volumes(node.name))
        for driver, more in Counter(driver for driver, _ in wanted - used).items():
            if driver in limits and counts[driver] + more > limits[driver]:
                return unschedulable("node(s) exceed max volume count")
        return None

    def _volumes_of(self, pod: Pod) -> set[_VolumeId]:
        found: set[_VolumeId] = set()
        for name, made in claim_names(pod):
            claim = self._objects.claims.observed.get(f"{pod.metadata.namespace}/{name}")
            if claim is None:
                continue
            if made:
                try:
                    check_owner(pod, claim)
                except NotOwnedError:
                    continue
            found |= self._volume_of(claim)
        return found

    def _volume_of(self, claim: PersistentVolumeClaim) -> set[_VolumeId]:
        """Return the claim's volume, or a placeholder for one to be provisioned. Empty if no CSI driver does."""
        volume = self._objects.volumes.observed.get(claim.spec.volume_name or "")
        if volume is not None:
            csi = volume.spec.csi
            return {(csi.driver, csi.volume_handle)} if csi and csi.driver and csi.volume_handle else set()
        name = class_of(claim)
        storage_class = self._objects.classes.get(name) if name else None
        if storage_class is None or not storage_class.provisioner:
            return set()
        # No volume handle contains a space, so the placeholder is unique.
        return {(storage_class.provisioner, f"to be made for {claim.key}")}

    def _attached_volumes(self, node_name: str) -> set[_VolumeId]:
        found: set[_VolumeId] = set()
        for attachment in self._objects.attachments_on(node_name):
            volume = self._objects.volumes.observed.get(attachment.spec.source.persistent_volume_name or "")
            if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
                found.add((attachment.spec.attacher, volume.spec.csi.volume_handle))
        return found


def _limits(node: CSINode | None) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in (node.spec.drivers if node is not None else ())
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _takes_more(pod: Pod, event: Event) -> bool:
    before = _limits(event.old)
    return any(limit > before.get(driver, 0) for driver, limit in _limits(event.new).items())


def _gives_up_a_claim(pod: Pod, event: Event) -> bool:
    gone: Pod = event.old
    return bool(gone.spec.node_name or gone.status.nominated_node_name) and uses_claims(gone)


def _names_a_claim(pod: Pod, event: Event) -> bool:
    return any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)

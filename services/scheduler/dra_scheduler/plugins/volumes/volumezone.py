"""VolumeZone: a pod runs in the zone and region of its volumes' labels.

Mirrors upstream's ``pkg/scheduler/framework/plugins/volumezone``.
"""

from collections.abc import Hashable, Sequence

from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.pod import Pod
from dra_shared.api.storage import PersistentVolume

from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable
from dra_scheduler.plugins.volumes.finder import WAIT_FOR_FIRST_CONSUMER
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.plugins.volumes.podvolumes import claim_names, class_of, refers_to, uses_claims

# Each old label with the new one that a node may have instead.
_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
_DELIMITER = "__"

_Topologies = list[tuple[str, frozenset[str]]]


class VolumeZone:
    """Filters by the labels of the volumes bound to the pod's claims. Nodes without such labels are accepted."""

    name = "VolumeZone"

    def __init__(self, objects: VolumeObjects) -> None:
        self._objects = objects

    def events_to_register(self) -> Sequence[Interest]:
        changes = Action.ADD | Action.UPDATE
        return (
            Interest(Kind.STORAGE_CLASS, Action.ADD, _lets_wait),
            Interest(Kind.NODE, Action.ADD | Action.NODE_LABEL),
            Interest(
                Kind.PERSISTENT_VOLUME_CLAIM,
                changes,
                lambda pod, event: refers_to(pod, event.new, ephemeral=False),
            ),
            Interest(Kind.PERSISTENT_VOLUME, changes, _has_moved),
        )

    def sign(self, pod: Pod) -> Hashable | None:
        return None if uses_claims(pod) else ()

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        topologies: _Topologies = []
        for name, made in claim_names(pod):
            if made:
                continue
            claim = self._objects.claims.observed.get(f"{pod.metadata.namespace}/{name}")
            if claim is None:
                return None, unresolvable(f'persistentvolumeclaim "{name}" not found')
            if claim.spec.volume_name:
                volume = self._objects.volumes.observed.get(claim.spec.volume_name)
                if volume is None:
                    return None, unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
                topologies += _topologies(volume)
                continue
            problem = self._problem_of_unbound(claim)
            if problem is not None:
                return None, unresolvable(problem)
        if not topologies:
            return None, SKIP
        state.write(self.name, topologies)
        return None, None

    def _problem_of_unbound(self, claim: PersistentVolumeClaim) -> str | None:
        name = class_of(claim)
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self._objects.classes.get(name)
        if storage_class is None:
            return f'storageclass.storage.k8s.io "{name}" not found'
        if storage_class.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        if storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
            return "PersistentVolume had no name"
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        topologies: _Topologies | None = state.read(self.name, list)
        if not topologies or node.node is None:
            return None
        labels = node.node.metadata.labels
        if not any(label in labels for label in _LABELS):
            return None
        for key, values in topologies:
            if labels.get(key, labels.get(_LABELS[key])) not in values:
                return unresolvable("node(s) had no available volume zone")
        return None


def _topologies(volume: PersistentVolume) -> _Topologies:
    found: _Topologies = []
    for key in _LABELS:
        value = volume.metadata.labels.get(key)
        if value is None:
            continue
        zones = [zone.strip() for zone in value.split(_DELIMITER)]
        if all(zones):
            found.append((key, frozenset(zones)))
    return found


def _lets_wait(pod: Pod, event: Event) -> bool:
    return bool(event.new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def _has_moved(pod: Pod, event: Event) -> bool:
    return event.old is None or _topologies(event.old) != _topologies(event.new)

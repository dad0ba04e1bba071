"""The search for the volumes that a pod would get on a node.

Mirrors ``FindPodVolumes`` in upstream's ``pkg/scheduler/framework/plugins/volumebinding/binder.go``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.storage import PersistentVolume, StorageClass

from dra_scheduler.plugins.volumes.matching import (
    find_volume,
    has_access,
    is_bound,
    is_large_enough,
    is_reachable,
    size_of,
    topology_matches,
)
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.plugins.volumes.podvolumes import check_owner, claim_names, class_of

SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
_TOO_LITTLE_SPACE = "node(s) did not have enough free storage"
_NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class VolumeError(Exception):
    """The lookup or the binding failed. The message is upstream's."""


@dataclass(slots=True)
class PodClaims:
    """A pod's claims by state. ``candidates`` are the volumes of each relevant storage class."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)
    candidates: dict[str, Sequence[PersistentVolume]] = field(default_factory=dict)


@dataclass(slots=True)
class PodVolumes:
    """The needs of the pod on a node: volumes to bind to claims, and claims to provision volumes for."""

    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)


class _Conflict(Exception):
    """The node cannot take the pod. The message is the reason."""


class VolumeFinder:
    """Searches for volumes without changing anything."""

    def __init__(self, objects: VolumeObjects) -> None:
        self._objects = objects

    def claims_of(self, pod: Pod) -> PodClaims:
        """Return the pod's claims by state.

        Raises:
            VolumeError: a claim does not exist, or its class has no binding mode.
            NotOwnedError: a claim was not created for the pod.
        """
        found = PodClaims()
        for name, made in claim_names(pod):
            key = f"{pod.metadata.namespace}/{name}"
            claim = self._objects.claims.get(key)
            if claim is None:
                raise VolumeError(f'error getting PVC "{key}": persistentvolumeclaim "{name}" not found')
            if made:
                check_owner(pod, claim)
            if is_bound(claim):
                found.bound.append(claim)
            elif not claim.spec.volume_name and self._is_delayed(claim):
                found.delayed.append(claim)
            else:
                found.immediate.append(claim)
        for claim in found.delayed:
            class_name = class_of(claim)
            found.candidates[class_name] = self._objects.volumes_of_class(class_name)
        return found

    def find(self, claims: PodClaims, node: Node) -> PodVolumes | list[str]:
        """Return the volumes for the claims on the node, or the reasons why there are none.

        Raises:
            VolumeError: an object is missing or inconsistent.
        """
        reasons = []
        try:
            self._check_bound(claims.bound, node.metadata.labels)
        except _Conflict as conflict:
            reasons.append(str(conflict))
        volumes = PodVolumes()
        try:
            self._find_unbound(claims, node, volumes)
        except _Conflict as conflict:
            reasons.append(str(conflict))
        # Upstream reports missing volumes last.
        return sorted(reasons, key=lambda reason: reason == _NO_VOLUME) if reasons else volumes

    def is_all_bound(self, pod: Pod) -> bool:
        """True if all of the pod's claims are bound, considering assumed states."""
        for name, _ in claim_names(pod):
            claim = self._objects.claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is None or not is_bound(claim):
                return False
        return True

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        name = class_of(claim)
        storage_class = self._objects.classes.get(name) if name else None
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            raise VolumeError(f'VolumeBindingMode not set for StorageClass "{name}"')
        return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim], labels: Mapping[str, str]) -> None:
        for claim in claims:
            volume = self._objects.volumes.get(claim.spec.volume_name or "")
            if volume is None:
                raise _Conflict(_NO_VOLUME)
            if not is_reachable(volume, labels):
                raise _Conflict(_NODE_CONFLICT)

    def _find_unbound(self, claims: PodClaims, node: Node, volumes: PodVolumes) -> None:
        labels = node.metadata.labels
        to_match = []
        for claim in claims.delayed:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                to_match.append(claim)
            elif selected != node.metadata.name:
                raise _Conflict(_BIND_CONFLICT)
            else:
                volumes.provisions.append(claim)
        taken: set[str] = set()
        for claim in sorted(to_match, key=size_of):
            volume = find_volume(claim, claims.candidates[class_of(claim)], labels, taken)
            if volume is None:
                volumes.provisions.append(claim)
            else:
                taken.add(volume.metadata.name)
                volumes.bindings.append((volume, claim))
        for claim in volumes.provisions:
            self._check_provision(claim, labels)

    def _check_provision(self, claim: PersistentVolumeClaim, labels: Mapping[str, str]) -> None:
        name = class_of(claim)
        if not name:
            raise VolumeError(f'no class for claim "{claim.key}"')
        storage_class = self._objects.classes.get(name)
        if storage_class is None:
            raise VolumeError(f'failed to find storage class "{name}"')
        if storage_class.provisioner in _NO_PROVISIONER:
            raise _Conflict(_BIND_CONFLICT)
        if not topology_matches(storage_class.allowed_topologies, labels):
            raise _Conflict(_BIND_CONFLICT)
        if not self._has_space(claim, storage_class, labels):
            raise _Conflict(_TOO_LITTLE_SPACE)

    def _has_space(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, labels: Mapping[str, str]
    ) -> bool:
        driver = self._objects.drivers.get(storage_class.provisioner)
        if (
            "storage" not in claim.spec.resources.requests
            or driver is None
            or not driver.spec.storage_capacity
        ):
            return True
        wanted = size_of(claim)
        return any(
            capacity.storage_class_name == storage_class.metadata.name
            and is_large_enough(capacity, wanted)
            and has_access(capacity, labels)
            for capacity in self._objects.capacities.list()
        )

"""Owners of a StatefulSet's volume claims, by its ``persistentVolumeClaimRetentionPolicy``. Pure.

Mirrors pkg/controller/statefulset/stateful_set_utils.go.
"""

from dra_shared.api.apps import StatefulSet
from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.meta import OwnerReference
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, STATEFUL_SETS
from msgspec.structs import replace

from dra_controller.pods import controller_reference


def with_owner(
    claim: PersistentVolumeClaim, stateful_set: StatefulSet, pod: Pod, *, surplus: bool
) -> PersistentVolumeClaim:
    """Return the claim with the owner that it should have. ``surplus`` if the StatefulSet does not need its pod."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    references = claim.metadata.owner_references
    others = tuple(entry for entry in references if not _is_ours(entry, stateful_set, pod))
    if any(entry.controller for entry in others):
        return claim
    wanted: tuple[OwnerReference, ...] = ()
    if policy is not None and surplus and policy.when_scaled == "Delete":
        wanted = (controller_reference(PODS, pod),)
    elif policy is not None and policy.when_deleted == "Delete":
        wanted = (controller_reference(STATEFUL_SETS, stateful_set),)
    if set(wanted) == set(references) - set(others):
        return claim
    return replace(claim, metadata=replace(claim.metadata, owner_references=(*others, *wanted)))


def goes_with(claim: PersistentVolumeClaim, pod_name: str) -> bool:
    """Return True if the claim is deleted with a pod of that name."""
    return any(
        entry.kind == PODS.kind and entry.name == pod_name for entry in claim.metadata.owner_references
    )


def _is_ours(entry: OwnerReference, stateful_set: StatefulSet, pod: Pod) -> bool:
    return entry.uid == stateful_set.metadata.uid or (
        entry.kind == PODS.kind and entry.name == pod.metadata.name
    )

"""The volumes of a pod's spec that matter for the choice of its node."""

from collections.abc import Iterator

from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.pod import Pod
from dra_shared.api.storage import PersistentVolume
from dra_shared.claims import controller_of

_CLASS = "volume.beta.kubernetes.io/storage-class"


class NotOwnedError(Exception):
    """A claim has the name of a claim for an ephemeral volume of the pod, but belongs to something else."""


def claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the names of the pod's PersistentVolumeClaims, each with True if it is for an ephemeral volume."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}", True


def uses_claims(pod: Pod) -> bool:
    """True if the pod has a PersistentVolumeClaim."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
    return False


def refers_to(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """True if the claim is one of the pod's. Without ``ephemeral``, claims for ephemeral volumes do not count."""
    return pod.metadata.namespace == claim.metadata.namespace and any(
        name == claim.metadata.name and (ephemeral or not made) for name, made in claim_names(pod)
    )


def check_owner(pod: Pod, claim: PersistentVolumeClaim) -> None:
    """Check that a claim for an ephemeral volume was created for this pod.

    Raises:
        NotOwnedError: it was not.
    """
    owner = controller_of(claim)
    if owner is None or owner.uid != pod.metadata.uid:
        raise NotOwnedError(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")


def class_of(thing: PersistentVolumeClaim | PersistentVolume) -> str:
    """Return the storage class of a claim or volume, or an empty string."""
    return thing.metadata.annotations.get(_CLASS, thing.spec.storage_class_name or "")

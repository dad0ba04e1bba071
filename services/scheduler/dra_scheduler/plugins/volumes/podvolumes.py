"""The volumes of a pod's spec that matter for its node."""

from collections.abc import Iterator

from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.pod import Pod
from dra_shared.api.storage import PersistentVolume
from dra_shared.claims import controller_of

_CLASS = "volume.beta.kubernetes.io/storage-class"


class NotOwnedError(Exception):
    """A claim has the name of one that is made for the pod, but was not."""


def claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The names of the pod's PersistentVolumeClaims, each with whether it is made for the pod (an ephemeral volume)."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}", True


def uses_claims(pod: Pod) -> bool:
    """Whether the pod has any."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
    return False


def refers_to(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Whether the claim is one of the pod's; without ``ephemeral`` those made for it are not regarded."""
    return pod.metadata.namespace == claim.metadata.namespace and any(
        name == claim.metadata.name and (ephemeral or not made) for name, made in claim_names(pod)
    )


def check_owner(pod: Pod, claim: PersistentVolumeClaim) -> None:
    """Make sure that a claim for an ephemeral volume was made for this pod.

    Raises:
        NotOwnedError: it was not.
    """
    owner = controller_of(claim)
    if owner is None or owner.uid != pod.metadata.uid:
        raise NotOwnedError(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")


def class_of(thing: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class that a claim or volume names, empty for none."""
    return thing.metadata.annotations.get(_CLASS, thing.spec.storage_class_name or "")

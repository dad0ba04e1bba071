"""References between pods, pod groups and resource claims.

Follows k8s.io/dynamic-resource-allocation/resourceclaim. Its error texts reach users through events.
"""

import contextlib

from dra_shared.api.meta import Object, OwnerReference
from dra_shared.api.pod import Pod, PodResourceClaim
from dra_shared.api.resource import ResourceClaim, ResourceClaimConsumerReference
from dra_shared.api.scheduling import PodGroup, PodGroupResourceClaim

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
CLASSIC_UID_ANNOTATION = "classic.resource.k8s.io/uid"
"""Annotation of a v1 object that was created for a classic object: the UID of the classic object."""
IMMEDIATE_ANNOTATION = "classic.resource.k8s.io/allocation-mode"
"""Annotation of a v1 claim that was created for a classic claim. ``Immediate``: allocate devices without a pod."""
FINALIZER = "resource.kubernetes.io/delete-protection"
RESERVED_FOR_MAX = 256
SCHEDULING_GROUP = "scheduling.k8s.io"


class ClaimReferenceError(Exception):
    """A pod or pod group refers to a claim that does not exist or cannot be used."""


class ClaimNotCreatedError(ClaimReferenceError):
    """The claim is created from a template, and does not exist yet."""


def claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """Return the claim that an entry of ``pod.spec.resourceClaims`` stands for.

    Returns:
        The claim's name, or None if no claim is needed; and whether its owner must be checked with
            :func:`check_for_pod` before use.

    Raises:
        ClaimNotCreatedError: the claim does not exist yet.
        ClaimReferenceError: the entry names neither a claim nor a template.
    """
    where = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    return _claim_name(pod, entry, where, f'"{entry.name}"')


def pod_group_claim_name(group: PodGroup, entry: PodGroupResourceClaim) -> tuple[str | None, bool]:
    """Return the same as :func:`claim_name` for an entry of a pod group."""
    where = f"PodGroup {group.metadata.namespace}/{group.metadata.name}"
    return _claim_name(group, entry, where, entry.name)


def _claim_name(
    consumer: Pod | PodGroup, entry: PodResourceClaim | PodGroupResourceClaim, where: str, shown: str
) -> tuple[str | None, bool]:
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name, False
    if entry.resource_claim_template_name is not None:
        for status in consumer.status.resource_claim_statuses:
            if status.name == entry.name:
                return status.resource_claim_name, True
        raise ClaimNotCreatedError(f"{where}: ResourceClaim not created yet")
    raise ClaimReferenceError(f"{where}, spec.resourceClaim {shown}: none of the supported fields are set")


def claim_keys(consumer: Pod | PodGroup) -> tuple[str, ...]:
    """Return the keys of the claims that a pod or a pod group refers to, without those that have no name yet."""
    keys = []
    for entry in consumer.spec.resource_claims:
        with contextlib.suppress(ClaimReferenceError):
            name, _ = _claim_name(consumer, entry, "", "")
            if name is not None:
                keys.append(f"{consumer.metadata.namespace}/{name}")
    return tuple(keys)


def controller_of(obj: Object) -> OwnerReference | None:
    """Return the owner reference of the object's controller, or None."""
    for owner in obj.metadata.owner_references:
        if owner.controller:
            return owner
    return None


def pod_group_name(pod: Pod) -> str | None:
    """Return the name of the pod group that the pod is a member of, or None."""
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None


def check_for_pod(pod: Pod, claim: ResourceClaim, *, pod_groups: bool) -> None:
    """Check that the claim was created for this pod, or with ``pod_groups`` for its group.

    Raises:
        ClaimReferenceError: the claim was created for another object.
    """
    ours, theirs = pod.metadata, claim.metadata
    names = f"ResourceClaim {theirs.namespace}/{theirs.name}", f"Pod {ours.namespace}/{ours.name}"
    if ours.namespace != theirs.namespace:
        raise ClaimReferenceError(f"{names[0]} is not in the same namespace as {names[1]}")
    owner = controller_of(claim)
    if owner is not None and owner.uid == ours.uid:
        return
    if not pod_groups:
        raise ClaimReferenceError(f"{names[0]} was not created for {names[1]} (Pod is not owner)")
    group = pod_group_name(pod)
    if (
        group is None
        or owner is None
        or owner.name != group
        or owner.kind != "PodGroup"
        or not owner.api_version.startswith(f"{SCHEDULING_GROUP}/")
    ):
        raise ClaimReferenceError(
            f"{names[0]} was not created for {names[1]} (neither Pod nor PodGroup {group} is the owner)"
        )


def check_for_pod_group(group: PodGroup, claim: ResourceClaim) -> None:
    """Check that the claim was created for this pod group.

    Raises:
        ClaimReferenceError: the claim was created for another object.
    """
    ours, theirs = group.metadata, claim.metadata
    names = f"ResourceClaim {theirs.namespace}/{theirs.name}", f"PodGroup {ours.namespace}/{ours.name}"
    if ours.namespace != theirs.namespace:
        raise ClaimReferenceError(f"{names[0]} is not in the same namespace as {names[1]}")
    owner = controller_of(claim)
    if owner is None or owner.uid != ours.uid:
        raise ClaimReferenceError(f"{names[0]} was not created for {names[1]} (PodGroup is not owner)")


def is_reserved_for_pod(pod: Pod, claim: ResourceClaim, *, pod_groups: bool) -> bool:
    """True if the claim is reserved for the pod, or with ``pod_groups`` for its group."""
    group = pod_group_name(pod)
    for consumer in claim.status.reserved_for:
        if consumer.uid == pod.metadata.uid:
            return True
        if (
            pod_groups
            and group is not None
            and consumer.api_group == SCHEDULING_GROUP
            and consumer.resource == "podgroups"
            and consumer.name == group
        ):
            return True
    return False


def consumer_of(pod: Pod, group: PodGroup | None, entry: PodResourceClaim) -> ResourceClaimConsumerReference:
    """Return the consumer that the claim of ``entry`` is reserved for: the pod, or its group if the group has
    the same entry.

    Raises:
        ClaimReferenceError: an entry names neither claim nor template, or the pod is not in the group.
    """
    if entry.resource_claim_name is None and entry.resource_claim_template_name is None:
        raise ClaimReferenceError(f"Pod {pod.key} claim {entry.name}: none of the supported fields are set")
    if group is not None:
        _check_member(pod, group)
        for shared in group.spec.resource_claims:
            if shared.resource_claim_name is None and shared.resource_claim_template_name is None:
                raise ClaimReferenceError(
                    f"PodGroup {group.key} claim {shared.name}: none of the supported fields are set"
                )
            if (
                shared.name == entry.name
                and shared.resource_claim_name == entry.resource_claim_name
                and shared.resource_claim_template_name == entry.resource_claim_template_name
            ):
                return ResourceClaimConsumerReference(
                    api_group=SCHEDULING_GROUP,
                    resource="podgroups",
                    name=group.metadata.name,
                    uid=group.metadata.uid,
                )
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _check_member(pod: Pod, group: PodGroup) -> None:
    name = pod_group_name(pod)
    if name is None:
        raise ClaimReferenceError(f"Pod {pod.key} does not belong to a PodGroup")
    if pod.metadata.namespace != group.metadata.namespace or name != group.metadata.name:
        raise ClaimReferenceError(
            f"Pod {pod.key} belongs to PodGroup {pod.metadata.namespace}/{name}, not PodGroup {group.key}"
        )

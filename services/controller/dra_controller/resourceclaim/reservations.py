"""Removes reservations, allocations and claims that no pod needs any more.

Mirrors ``syncClaim`` in pkg/controller/resourceclaim/controller.go.
"""

from typing import TypeVar

from dra_shared.api.meta import Object, OwnerReference
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceClaimConsumerReference
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, Resource
from dra_shared.claims import (
    FINALIZER,
    POD_CLAIM_ANNOTATION,
    SCHEDULING_GROUP,
    ClaimReferenceError,
    check_for_pod,
    controller_of,
)
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.log import logger
from msgspec.structs import replace

from dra_controller.resourceclaim.views import SyncError, Views

_log = logger(__name__)

T = TypeVar("T", bound=Object)


class Reservations:
    """Reconciles claims."""

    def __init__(self, views: Views) -> None:
        self._views = views

    async def sync_claim(self, key: str) -> None:
        """Remove finished consumers from the claim.

        If none is left, deallocate the claim, and delete it if it was generated.
        """
        claim = self._views.claims.get(key)
        if claim is None:
            return
        try:
            await self._sync(claim)
        except NotFound:
            # Deleted while it was reconciled: nothing is left to do.
            return

    async def _sync(self, claim: ResourceClaim) -> None:
        reserved = claim.status.reserved_for
        remaining = tuple([consumer for consumer in reserved if await self._is_needed(claim, consumer)])
        if len(remaining) < len(reserved):
            await self._release(claim, remaining)
        elif FINALIZER in claim.metadata.finalizers and claim.metadata.deletion_timestamp and not remaining:
            await self._finish(claim)
        if not remaining:
            await self._delete_unneeded(claim)

    async def _is_needed(self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> bool:
        views = self._views
        key = f"{claim.metadata.namespace}/{consumer.name}"
        if not consumer.api_group and consumer.resource == "pods":
            if consumer.uid in views.deleted:
                return False
            pod = views.pods.get(key)
            if pod is not None and pod.metadata.uid == consumer.uid:
                return not is_done(pod)
            # Ask the API server: the informer may not have the pod yet that the scheduler has seen, or may have
            # an earlier pod of that name.
            return await self._exists(PODS, claim, consumer)
        if (
            views.groups is not None
            and consumer.api_group == SCHEDULING_GROUP
            and consumer.resource == "podgroups"
        ):
            if consumer.uid in views.deleted:
                return False
            group = views.groups.get(key)
            if group is not None and group.metadata.uid == consumer.uid:
                return True
            return await self._exists(views.group_resource, claim, consumer)
        # Consumers of other kinds are always kept.
        return True

    async def _exists(
        self,
        resource: Resource[T],
        claim: ResourceClaim,
        consumer: ResourceClaimConsumerReference | OwnerReference,
    ) -> bool:
        try:
            live = await self._views.client.get(resource, consumer.name, claim.metadata.namespace)
        except NotFound:
            return False
        return live.metadata.uid == consumer.uid

    async def _release(
        self, claim: ResourceClaim, remaining: tuple[ResourceClaimConsumerReference, ...]
    ) -> None:
        # Use an update and not a patch, so that it fails if the claim was changed in the meantime.
        status = replace(claim.status, reserved_for=remaining)
        if not remaining and FINALIZER in claim.metadata.finalizers:
            status = replace(status, allocation=None)
        updated = await self._views.client.update(
            RESOURCE_CLAIMS, replace(claim, status=status), subresource="status"
        )
        deallocated = updated.status.allocation is None
        _log.info("released claim", claim=claim.key, consumers=len(remaining), deallocated=deallocated)
        if FINALIZER in updated.metadata.finalizers and deallocated:
            await self._remove_finalizer(updated)

    async def _finish(self, claim: ResourceClaim) -> None:
        """Remove the finalizer from a deleted claim that no pod uses, whether it is allocated or not."""
        if claim.status.allocation is not None:
            status = replace(claim.status, allocation=None)
            claim = await self._views.client.update(
                RESOURCE_CLAIMS, replace(claim, status=status), subresource="status"
            )
        await self._remove_finalizer(claim)

    async def _remove_finalizer(self, claim: ResourceClaim) -> None:
        left = tuple(name for name in claim.metadata.finalizers if name != FINALIZER)
        await self._views.client.update(
            RESOURCE_CLAIMS, replace(claim, metadata=replace(claim.metadata, finalizers=left))
        )

    async def _delete_unneeded(self, claim: ResourceClaim) -> None:
        """Delete a generated claim whose pod will not run (any more), without waiting until the pod itself is gone."""
        owner = controller_of(claim)
        if owner is None or owner.api_version != "v1" or owner.kind != "Pod":
            return
        pod = self._views.pods.get(f"{claim.metadata.namespace}/{owner.name}")
        if pod is None:
            # The informer may not have the pod yet. If the pod is gone, the garbage collector deletes the
            # claim.
            return
        if pod.metadata.uid != owner.uid:
            # The informer's pod may be an earlier one of that name, and the claim may belong to the new pod.
            if await self._exists(PODS, claim, owner):
                return
        elif not is_done(pod) and not await self._is_surplus(claim, pod):
            return
        try:
            await self._views.client.delete(RESOURCE_CLAIMS, claim.metadata.name, claim.metadata.namespace)
        except NotFound:
            return
        except ApiError as error:
            raise SyncError(f"delete unused generated claim {claim.key}: {error}") from error
        _log.info("deleted generated claim", claim=claim.key, pod=pod.key)

    async def _is_surplus(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Return True if the status of the pod names another claim for the same entry, so that no pod uses this one.

        This happens when a controller dies between creating the claim and writing the pod's status, and
        another controller creates its own.
        """
        if claim.status.allocation is not None or claim.metadata.deletion_timestamp is not None:
            return False
        other = self._other_claim(claim, pod)
        if other is None or not await self._is_for(pod, other):
            return False
        try:
            live = await self._views.client.get(PODS, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return False
        return live.metadata.uid == pod.metadata.uid and self._other_claim(claim, live) == other

    def _other_claim(self, claim: ResourceClaim, pod: Pod) -> str | None:
        """Return the key of the other claim in the pod's status for the entry for which this claim was created."""
        entry = claim.metadata.annotations.get(POD_CLAIM_ANNOTATION)
        for status in pod.status.resource_claim_statuses:
            name = status.resource_claim_name
            if status.name == entry and name is not None and name != claim.metadata.name:
                return f"{pod.metadata.namespace}/{name}"
        return None

    async def _is_for(self, pod: Pod, key: str) -> bool:
        claim = self._views.claims.get(key)
        if claim is None:
            # Read the other claim from the API server: if the informer does not have it yet, no later event
            # would queue this claim.
            namespace, _, name = key.partition("/")
            try:
                claim = await self._views.client.get(RESOURCE_CLAIMS, name, namespace)
            except NotFound:
                return False
        if claim.metadata.deletion_timestamp is not None:
            return False
        try:
            check_for_pod(pod, claim, pod_groups=False)
        except ClaimReferenceError:
            return False
        return True


def is_done(pod: Pod) -> bool:
    """Return True if no container of the pod runs or ever will."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return True
    return pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
